// Pi, the coding agent, over each API that it speaks: it answers, reads a file, changes it, and looks again.
// packages: @earendil-works/pi-coding-agent
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  base, chat, expectEdited, expects, expectText, folder, morning, note, obedient, report, run, thinker, url,
} from "./steps.mjs";

const ways = {
  chat: { api: "openai-completions", baseUrl: url, model: chat },
  responses: { api: "openai-responses", baseUrl: url, model: thinker },
  messages: { api: "anthropic-messages", baseUrl: base, model: thinker },
};
const tools = (path) => [
  ["read", { path }], ["edit", { path, edits: [{ oldText: "marzipan", newText: "nougat" }] }],
  ["bash", { command: `cat ${path}` }],
];

function pi({ model, ...way }, prompt, home) {
  mkdirSync(join(home, ".pi", "agent"), { recursive: true });
  const antiphon = { ...way, apiKey: "any", models: [{ id: model, reasoning: model === thinker, maxTokens: 2000 }] };
  writeFileSync(join(home, ".pi", "agent", "models.json"), JSON.stringify({ providers: { antiphon } }));
  const words = ["--offline", "--no-session", "--no-mcp", "--provider", "antiphon", "--model", model, "-p", prompt];
  return run("pi", words, home);
}

const steps = {};
for (const [name, way] of Object.entries(ways)) {
  steps[name] = async () => {
    const { stdout, stderr } = await pi(way, morning, folder());
    expectText(stdout || stderr, "Good morning.");
  };
  if (obedient) {
    steps[`${name}_edit`] = async () => {
      const edited = note(tools);
      expectEdited(edited, await pi(way, edited.plan, edited.home));
    };
  }
}
if (!obedient) for (const path of ["chat/completions", "responses", "messages"]) expects(400, `/v1/${path}`, "*");

await report(steps, "@earendil-works/pi-coding-agent");
