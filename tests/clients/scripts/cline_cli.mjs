// Cline's CLI with a provider like OpenAI: it answers, reads a file, changes it, and looks again.
// packages: cline
import assert from "node:assert/strict";
import {
  chat, expectEdited, expects, expectText, folder, morning, note, obedient, report, run, thinker, url,
} from "./steps.mjs";

const tools = (path) => [
  ["read_files", { files: [{ path }] }],
  ["editor", { path, old_text: "marzipan", new_text: "nougat" }],
  ["run_commands", { commands: ["cat note.txt"] }],
];

async function cline(model, prompt, home) {
  const { code, stderr } = await run("cline", ["auth", "-p", "openai", "-k", "any", "-m", model, "-b", url], home);
  if (code) throw new Error(stderr);
  return run("cline", ["-P", "openai", "-m", model, prompt], home, { CLINE_TELEMETRY_DISABLED: "1" });
}

const steps = {};
for (const [name, model] of [["chat", chat], ["chat_thinker", thinker]]) {
  steps[name] = async () => {
    const { stdout, stderr } = await cline(model, morning, folder());
    if (obedient) expectText(stdout, "Good morning.");
    else assert.ok((stdout + stderr).length > 0); // its prompt is longer than a small context
  };
  if (obedient) {
    steps[`${name}_edit`] = async () => {
      const edited = note(tools);
      expectEdited(edited, await cline(model, edited.plan, edited.home));
    };
  }
}
if (!obedient) expects(400, "/v1/chat/completions", "*");

await report(steps, "cline");
