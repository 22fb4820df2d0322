// Codex with a local provider: it asks Ollama's routes whether the model is there, then Responses.
// packages: @openai/codex
import assert from "node:assert/strict";
import { base, chat, expects, folder, morning, obedient, report, run } from "./steps.mjs";

/** One order without a terminal, in a folder of its own. */
function codex(model) {
  const home = folder();
  const words = ["exec", "--oss", "--local-provider", "ollama", "-m", model, "--skip-git-repo-check", morning];
  return run("codex", words, home, { CODEX_HOME: home, CODEX_OSS_PORT: new URL(base).port });
}

const steps = {
  async responses() {
    const { stdout, stderr } = await codex(chat);
    if (obedient) assert.equal(stdout.trim(), "Good morning.", stderr);
    else assert.match(stdout + stderr, /tokens used|ran out of room/); // its prompt is longer than a small context
  },
  async errors() {
    expects(404, "/api/pull");
    const { code, stderr } = await codex("nobody");
    assert.ok(code);
    assert.match(stderr, /pull|nobody/);
  },
};

if (!obedient) expects(400, "/v1/responses", "*");

await report(steps, "@openai/codex");
