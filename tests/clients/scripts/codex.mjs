// Codex with a provider of its own in config.toml, as `antiphon connect codex --write` writes it: Responses alone.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const obedient = Boolean(process.env.ANTIPHON_OBEDIENT);
const { file } = JSON.parse(process.env.ANTIPHON_CONNECTION);
const codex = new URL("../codex/node_modules/@openai/codex/", import.meta.url);
const packaged = JSON.parse(readFileSync(new URL("package.json", codex)));
const work = mkdtempSync(join(tmpdir(), "codex-"));

const steps = {
  async responses() {
    const order = ["exec", "--skip-git-repo-check", "-C", work, "say: Good morning."];
    const { stdout, stderr } = spawnSync(process.execPath, [new URL(packaged.bin.codex, codex).pathname, ...order], {
      env: { ...process.env, CODEX_HOME: dirname(file) }, encoding: "utf8", timeout: 300_000,
      stdio: ["ignore", "pipe", "pipe"],
    });
    if (obedient) assert.equal(stdout.trim(), "Good morning.", stderr);
    else assert.match(stdout + stderr, /tokens used|ran out of room/); // its prompt is longer than a small context
  },
};

for (const [name, step] of Object.entries(steps)) {
  try {
    await step();
    console.log("ok", name);
  } catch (error) {
    console.error(error);
    console.log("failed", name);
    process.exitCode = 1;
  }
}
console.log("version", "codex", packaged.version);
