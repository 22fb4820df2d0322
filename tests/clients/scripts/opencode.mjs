// OpenCode, the program, with the opencode.json that `antiphon connect opencode --write` writes.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const obedient = Boolean(process.env.ANTIPHON_OBEDIENT);
const program = fileURLToPath(new URL("../opencode/node_modules/.bin/opencode", import.meta.url));
const config = dirname(dirname(JSON.parse(process.env.ANTIPHON_CONNECTION).file)); // …/opencode/opencode.json
const home = mkdtempSync(join(tmpdir(), "opencode-"));

const steps = {
  async chat() {
    const { stdout, stderr } = spawnSync(program, ["run", "say: Good morning."], {
      env: {
        PATH: process.env.PATH, HOME: home, XDG_CONFIG_HOME: config, NO_PROXY: "127.0.0.1",
        OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1",
      },
      cwd: home, encoding: "utf8", timeout: 300_000, stdio: ["ignore", "pipe", "pipe"],
    });
    if (obedient) assert.match(stdout, /^Good morning\.\W*$/m, stderr); // it puts a message with blanks between quotes
    else assert.ok((stdout + stderr).trim().length > 0); // its prompt is longer than a small context
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
const file = new URL("../opencode/node_modules/opencode-ai/package.json", import.meta.url);
console.log("version", "opencode", JSON.parse(readFileSync(file)).version);
