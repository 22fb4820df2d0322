// GitHub's Copilot CLI with a provider of its own, over each API that it speaks: it answers, reads a file, changes it.
// packages: @github/copilot
import assert from "node:assert/strict";
import {
  base, chat, expectEdited, expects, folder, morning, note, obedient, report, run, thinker, url,
} from "./steps.mjs";

const ways = {
  chat: { COPILOT_PROVIDER_BASE_URL: url, COPILOT_MODEL: chat },
  responses: { COPILOT_PROVIDER_BASE_URL: url, COPILOT_MODEL: thinker, COPILOT_PROVIDER_WIRE_API: "responses" },
  responses_websocket: {
    COPILOT_PROVIDER_BASE_URL: url, COPILOT_MODEL: chat, COPILOT_PROVIDER_WIRE_API: "responses",
    COPILOT_PROVIDER_TRANSPORT: "websockets",
  },
  messages: { COPILOT_PROVIDER_BASE_URL: base, COPILOT_MODEL: thinker, COPILOT_PROVIDER_TYPE: "anthropic" },
};

const tools = (path) => [
  ["view", { path }], ["edit", { path, old_str: "marzipan", new_str: "nougat" }], ["bash", { command: "cat note.txt", description: "Look" }],
];

const steps = {};
for (const [name, way] of Object.entries(ways)) {
  const settings = {
    COPILOT_OFFLINE: "true", COPILOT_AUTO_UPDATE: "false", COPILOT_PROVIDER_API_KEY: "any",
    COPILOT_PROVIDER_MAX_PROMPT_TOKENS: "500000", COPILOT_PROVIDER_MAX_OUTPUT_TOKENS: "2000", ...way,
  };
  const copilot = (prompt, home) => run("copilot", ["-s", "-p", prompt, "--allow-all-tools"], home, settings);
  steps[name] = async () => {
    const { stdout, stderr } = await copilot(morning, folder());
    if (obedient) assert.equal(stdout.trim(), "Good morning.", stderr);
    else assert.ok((stdout + stderr).trim().length > 0); // its prompt is longer than a small context
  };
  if (obedient) {
    steps[`${name}_edit`] = async () => {
      const edited = note(tools);
      expectEdited(edited, await copilot(edited.plan, edited.home));
    };
  }
}
if (!obedient) for (const path of ["chat/completions", "responses", "messages"]) expects(400, `/v1/${path}`, "*");

await report(steps, "@github/copilot");
