// Codex with a local provider: it asks Ollama's routes whether the model is there, then Responses.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [chat] = process.env.ANTIPHON_MODELS.split(" ");
const obedient = Boolean(process.env.ANTIPHON_OBEDIENT);
const codex = new URL("../codex/node_modules/@openai/codex/", import.meta.url);
const packaged = JSON.parse(readFileSync(new URL("package.json", codex)));
const home = mkdtempSync(join(tmpdir(), "codex-"));

// One order without a terminal, in a folder of its own.
function run(model) {
  const order = ["exec", "--oss", "--local-provider", "ollama", "-m", model, "--skip-git-repo-check", "-C", home];
  const settings = { CODEX_HOME: home, CODEX_OSS_PORT: new URL(process.env.ANTIPHON_URL).port };
  return spawnSync(process.execPath, [new URL(packaged.bin.codex, codex).pathname, ...order, "say: Good morning."], {
    env: { ...process.env, ...settings }, encoding: "utf8", timeout: 300_000, stdio: ["ignore", "pipe", "pipe"],
  });
}

const steps = {
  async responses() {
    const { stdout, stderr } = run(chat);
    if (obedient) assert.equal(stdout.trim(), "Good morning.", stderr);
    else assert.match(stdout + stderr, /tokens used|ran out of room/); // its prompt is longer than a small context
  },
  async errors() {
    const { status, stderr } = run("nobody");
    assert.notEqual(status, 0);
    assert.match(stderr, /pull|nobody/);
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
