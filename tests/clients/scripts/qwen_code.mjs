// Qwen Code over each API that it speaks: it answers, reads a file, changes it, and looks again.
// packages: @qwen-code/qwen-code
import {
  base, chat, expectEdited, expects, expectText, folder, morning, note, obedient, report, run, thinker, url,
} from "./steps.mjs";

const ways = {
  chat: { auth: "openai", model: chat, OPENAI_BASE_URL: url },
  responses: { auth: "openai-responses", model: thinker, OPENAI_BASE_URL: url },
  messages: { auth: "anthropic", model: chat, ANTHROPIC_BASE_URL: base },
};
const tools = (file_path) => [
  ["read_file", { file_path }], ["edit", { file_path, old_string: "marzipan", new_string: "nougat" }],
  ["run_shell_command", { command: "cat note.txt", is_background: false }],
];

function qwen({ auth, model, ...settings }, prompt, home) {
  const words = ["--auth-type", auth, "-m", model, "--approval-mode", "yolo", "--chat-recording", "false", prompt];
  const keys = { OPENAI_API_KEY: "any", OPENAI_MODEL: model, ANTHROPIC_API_KEY: "any", ANTHROPIC_MODEL: model };
  return run("qwen", words, home, { ...keys, ...settings });
}

const steps = {};
for (const [name, way] of Object.entries(ways)) {
  steps[name] = async () => {
    const { stdout, stderr } = await qwen(way, morning, folder());
    expectText(stdout || stderr, "Good morning.");
  };
  if (obedient) {
    steps[`${name}_edit`] = async () => {
      const edited = note(tools);
      expectEdited(edited, await qwen(way, edited.plan, edited.home));
    };
  }
}
if (!obedient) for (const path of ["chat/completions", "responses", "messages"]) expects(400, `/v1/${path}`, "*");

await report(steps, "@qwen-code/qwen-code");
