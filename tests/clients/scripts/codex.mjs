// Codex with a provider of its own in config.toml, as `antiphon connect codex --write` writes it: Responses alone.
// packages: @openai/codex
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { connection, folder, morning, obedient, report, run } from "./steps.mjs";

const settings = { CODEX_HOME: dirname(connection.file) };

const steps = {
  async responses() {
    const { stdout, stderr } = await run("codex", ["exec", "--skip-git-repo-check", morning], folder(), settings);
    if (obedient) assert.equal(stdout.trim(), "Good morning.", stderr);
    else assert.match(stdout + stderr, /tokens used|ran out of room/); // its prompt is longer than a small context
  },
};

await report(steps, "@openai/codex");
