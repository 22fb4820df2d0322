// Codex with a provider of its own in config.toml, as `antiphon connect codex --write` writes it: Responses alone.
// packages: @openai/codex
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { connection, expectEdited, expects, folder, morning, note, obedient, report, run } from "./steps.mjs";

const settings = { CODEX_HOME: dirname(connection.file) };

/** An order without a terminal; commands run as they are. */
const codex = (prompt, home) => run(
  "codex", ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt], home, settings,
);
const tools = () => [
  ["exec_command", { cmd: "cat note.txt" }], ["exec_command", { cmd: "sed -i s/marzipan/nougat/ note.txt" }],
  ["exec_command", { cmd: "cat note.txt" }],
];

const steps = {
  async responses() {
    const { stdout, stderr } = await codex(morning, folder());
    if (obedient) assert.equal(stdout.trim(), "Good morning.", stderr);
    else assert.match(stdout + stderr, /tokens used|ran out of room/); // its prompt is longer than a small context
  },
};
if (obedient) {
  steps.responses_edit = async () => {
    const edited = note(tools);
    expectEdited(edited, await codex(edited.plan, edited.home));
  };
} else expects(400, "/v1/responses", "*");

await report(steps, "@openai/codex");
