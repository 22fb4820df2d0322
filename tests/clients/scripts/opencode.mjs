// OpenCode, the program, with the opencode.json that `antiphon connect opencode --write` writes.
// packages: opencode-ai
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { connection, folder, morning, obedient, report, run } from "./steps.mjs";

const settings = {
  XDG_CONFIG_HOME: dirname(dirname(connection.file)), // …/opencode/opencode.json
  OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1",
};

const steps = {
  async chat() {
    const { stdout, stderr } = await run("opencode", ["run", morning], folder(), settings);
    if (obedient) assert.match(stdout, /^Good morning\.\W*$/m, stderr); // it puts a message with blanks between quotes
    else assert.ok((stdout + stderr).trim().length > 0); // its prompt is longer than a small context
  },
};

await report(steps, "opencode-ai");
