// OpenCode, the program, with the opencode.json that `antiphon connect opencode --write` writes: it answers, and edits.
// packages: opencode-ai
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { connection, expectEdited, expects, folder, morning, note, obedient, report, run } from "./steps.mjs";

const settings = {
  XDG_CONFIG_HOME: dirname(dirname(connection.file)), // …/opencode/opencode.json
  OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1",
};
/** A prompt is piped: one with blanks that is a word would be put between quotes. With a title, it asks for none. */
const opencode = (prompt, home) => run("opencode", ["run", "--title", "note"], home, settings, prompt);
const tools = (filePath) => [
  ["read", { filePath }], ["edit", { filePath, oldString: "marzipan", newString: "nougat" }],
  ["bash", { command: "cat note.txt", description: "Looks" }],
];

const steps = {
  async chat() {
    const { stdout, stderr } = await opencode(morning, folder());
    if (obedient) assert.equal(stdout.trim(), "Good morning.", stderr);
    else assert.ok((stdout + stderr).trim().length > 0); // its prompt is longer than a small context
  },
};
if (obedient) {
  steps.chat_edit = async () => {
    const edited = note(tools);
    expectEdited(edited, await opencode(edited.plan, edited.home));
  };
} else expects(400, "/v1/chat/completions", "*");

await report(steps, "opencode-ai");
