// Continue's CLI, with the config.yaml that `antiphon connect continue --write` writes: it answers, and edits a file.
// packages: @continuedev/cli
import { dirname } from "node:path";
import { connection, expectEdited, expects, expectText, folder, morning, note, obedient, report, run } from "./steps.mjs";

const settings = { CONTINUE_GLOBAL_DIR: dirname(connection.file), CONTINUE_TELEMETRY_ENABLED: "0" };
const tools = (filepath) => [
  ["Read", { filepath }],
  ["Edit", { file_path: filepath, old_string: "marzipan", new_string: "nougat" }],
  ["Bash", { command: "cat note.txt" }],
];
const continued = (prompt, home) => run("cn", ["--config", connection.file, "--auto", "-p", prompt], home, settings);

const steps = {
  async chat() {
    const { stdout, stderr } = await continued(morning, folder());
    expectText(stdout || stderr, "Good morning.");
  },
};
if (obedient) {
  steps.chat_edit = async () => {
    const edited = note(tools);
    expectEdited(edited, await continued(edited.plan, edited.home));
  };
} else expects(400, "/v1/chat/completions", "*");

await report(steps, "@continuedev/cli");
