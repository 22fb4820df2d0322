// Anthropic's Agent SDK for Node: it answers, streams, edits a file, and calls a tool of its own.
// packages: @anthropic-ai/claude-agent-sdk zod
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";
import {
  base, chat, cities, expectEdited, expectText, folder, morning, note, obedient, report, thinker,
} from "./steps.mjs";

const asked = [];
const weather = tool("weather", "The weather of a city.", { city: z.enum(cities) }, async ({ city }) => {
  asked.push(city);
  return { content: [{ type: "text", text: `18 degrees in ${city}` }] };
});
const mcpServers = { town: createSdkMcpServer({ name: "town", tools: [weather] }) };

/** What it said at last, and all of its messages. */
async function said(prompt, { home = folder(), model = chat, ...options } = {}) {
  const env = {
    PATH: `${dirname(process.execPath)}:${process.env.PATH}`, HOME: home, NO_PROXY: "127.0.0.1",
    ANTHROPIC_BASE_URL: base, ANTHROPIC_AUTH_TOKEN: "any", ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  };
  const messages = [];
  const common = { model, cwd: home, env, systemPrompt: "Be brief.", settingSources: [], maxTurns: 8 };
  for await (const message of query({ prompt, options: { ...common, ...options } })) messages.push(message);
  const { result, subtype } = messages.find(({ type }) => type === "result");
  assert.equal(subtype, "success");
  return { stdout: result, stderr: "", messages };
}

const steps = {
  async messages() {
    expectText((await said(morning, { tools: [] })).stdout, "Good morning.");
  },
  async messages_stream() {
    const { messages } = await said(morning, { tools: [], includePartialMessages: true });
    assert.ok(messages.some(({ type, event }) => type === "stream_event" && event.type === "content_block_delta"));
  },
};
if (obedient) {
  for (const model of [chat, thinker]) {
    steps[`messages_edit_${model}`] = async () => {
      const edited = note((file_path) => [
        ["Read", { file_path }], ["Edit", { file_path, old_string: "marzipan", new_string: "nougat" }],
        ["Bash", { command: "cat note.txt", description: "Looks" }],
      ]);
      const options = { home: edited.home, model, tools: ["Read", "Edit", "Bash"], allowedTools: ["Read", "Edit", "Bash"] };
      expectEdited(edited, await said(edited.plan, options));
    };
  }
  steps.messages_tool = async () => {
    const plan = 'plan: call mcp__town__weather {"city": "Bern"} ;; say It is done.';
    const { stdout } = await said(plan, { mcpServers, tools: [], allowedTools: ["mcp__town__weather"] });
    assert.deepEqual([stdout, asked], ["It is done.", ["Bern"]]);
  };
}

await report(steps, "@anthropic-ai/claude-agent-sdk");
