// Claude Code, the program: it answers, reads a file, makes one and changes it, each in a session of its own.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const [chat, thinker] = process.env.ANTIPHON_MODELS.split(" ");
const obedient = Boolean(process.env.ANTIPHON_OBEDIENT);
const program = fileURLToPath(new URL("../node_modules/.bin/claude", import.meta.url));
const home = dirname(dirname(JSON.parse(process.env.ANTIPHON_CONNECTION).file)); // HOME/.claude/settings.json
const environment = {
  PATH: process.env.PATH, HOME: home, NO_PROXY: "127.0.0.1", DISABLE_AUTOUPDATER: "1", DISABLE_TELEMETRY: "1",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
};

async function run(input, ...options) {
  const running = promisify(execFile)(program, ["-p", ...options], { cwd: home, env: environment, timeout: 240_000 });
  running.child.stdin.end(input);
  return (await running).stdout;
}

const claude = (model, prompt, ...options) => run("", prompt, "--model", model, ...options);

/** One session in which the user says one thing after the other. */
const session = (model, prompts, ...options) => run(
  prompts.map((content) => JSON.stringify({ type: "user", message: { role: "user", content } }) + "\n").join(""),
  "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--model", model, ...options,
);

const note = join(home, "note.txt");
const steps = {
  async messages() {
    const text = await claude(chat, "say: Good morning.", "--system-prompt", "Be brief.", "--tools", "");
    if (obedient) assert.equal(text.trim(), "Good morning.");
    else assert.ok(text.trim().length > 0);
  },
};
if (obedient) {
  for (const model of [chat, thinker]) {
    steps[`messages_read_${model}`] = async () => {
      writeFileSync(note, "The word is marzipan.\n");
      const text = await claude(model, `call: Read {"file_path": "${note}"}`, "--allowedTools", "Read");
      assert.match(text, /it said: .*The word is marzipan/);
    };
  }
  steps.messages_write = async () => {
    const made = join(home, "made.txt");
    await claude(chat, `call: Write {"file_path": "${made}", "content": "made"}`, "--allowedTools", "Write");
    assert.equal(readFileSync(made, "utf8"), "made");
  };
  for (const model of [chat, thinker]) {
    steps[`messages_edit_${model}`] = async () => {
      writeFileSync(note, "The word is marzipan.\n");
      const change = { file_path: note, old_string: "marzipan", new_string: "nougat" };
      const orders = [`call: Read {"file_path": "${note}"}`, `call: Edit ${JSON.stringify(change)}`];
      const events = await session(model, orders, "--allowedTools", "Read,Edit");
      assert.equal(readFileSync(note, "utf8"), "The word is nougat.\n", events);
    };
  }
}

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
const file = new URL("../node_modules/@anthropic-ai/claude-code/package.json", import.meta.url);
console.log("version", "claude-code", JSON.parse(readFileSync(file)).version);
