// Claude Code, the program: it answers, reads a file, makes one and changes it, each in a session of its own.
// packages: @anthropic-ai/claude-code @modelcontextprotocol/sdk
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { chat, connection, morning, obedient, report, run, thinker } from "./steps.mjs";

const home = dirname(dirname(connection.file)); // HOME/.claude/settings.json
const settings = { DISABLE_AUTOUPDATER: "1", DISABLE_TELEMETRY: "1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" };

async function claude(model, prompt, ...options) {
  const { stdout, stderr } = await run("claude", ["-p", prompt, "--model", model, ...options], home, settings);
  return stdout || stderr;
}

/** One session in which the user says one thing after the other. */
async function session(model, prompts, ...options) {
  const said = prompts.map((content) => JSON.stringify({ type: "user", message: { role: "user", content } }) + "\n");
  const words = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--model", model];
  return (await run("claude", ["-p", ...words, ...options], home, settings, said.join(""))).stdout;
}

const note = join(home, "note.txt");
const steps = {
  async messages() {
    const text = await claude(chat, morning, "--system-prompt", "Be brief.", "--tools", "");
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

await report(steps, "@anthropic-ai/claude-code");
