// Claude Code, the program: it answers, reads a file, changes it and makes one, and finds a tool that was deferred.
// packages: @anthropic-ai/claude-code @modelcontextprotocol/sdk zod
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chat, connection, expectEdited, expectText, morning, note, obedient, report, run, thinker } from "./steps.mjs";

const settings = { DISABLE_AUTOUPDATER: "1", DISABLE_TELEMETRY: "1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" };
const own = dirname(dirname(connection.file)); // HOME/.claude/settings.json

const claude = (model, prompt, options, home = own, input = "") => run(
  "claude", ["-p", ...(prompt ? [prompt] : []), "--model", model, ...options], home, { ...settings, HOME: own }, input,
);

/** One session in which the user says one thing after the other. */
async function session(model, prompts, ...options) {
  const said = prompts.map((content) => JSON.stringify({ type: "user", message: { role: "user", content } }) + "\n");
  const words = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose", ...options];
  return (await claude(model, "", words, own, said.join(""))).stdout;
}

const tools = (file_path) => [
  ["Read", { file_path }], ["Edit", { file_path, old_string: "marzipan", new_string: "nougat" }],
  ["Bash", { command: "cat note.txt", description: "Looks" }],
];
/** A server of tools over its standard input and output. */
const SHOP = `
  import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
  import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
  import { z } from "zod";
  const server = new McpServer({ name: "shop", version: "1.0.0" });
  for (let box = 0; box < 20; box++) {
    const about = { description: "Gets what is in box " + box + " of the shop.", inputSchema: { id: z.number() } };
    server.registerTool("get_" + box, about, async ({ id }) => ({ content: [{ type: "text", text: id + " is there" }] }));
  }
  await server.connect(new StdioServerTransport());
`;

const steps = {
  async messages() {
    const { stdout, stderr } = await claude(chat, morning, ["--system-prompt", "Be brief.", "--tools", ""]);
    expectText(stdout || stderr, "Good morning.");
  },
};
if (obedient) {
  for (const model of [chat, thinker]) {
    steps[`messages_edit_${model}`] = async () => {
      const edited = note(tools);
      expectEdited(edited, await claude(model, edited.plan, ["--allowedTools", "Read,Edit,Bash"], edited.home));
    };
    steps[`messages_deferred_tool_${model}`] = async () => {
      const shop = fileURLToPath(new URL("shop.mjs", import.meta.url)); // beside its packages
      writeFileSync(shop, SHOP);
      const servers = { mcpServers: { shop: { command: process.execPath, args: [shop] } } };
      const plan = [
        'plan: call ToolSearch {"query": "select:mcp__shop__get_7", "max_results": 1}',
        'call mcp__shop__get_7 {"id": 41}', "say It is done.",
      ];
      // Meanwhile the server of the tools begins.
      const events = await session(
        model, ["say: Hello.", plan.join(" ;; ")], "--mcp-config", JSON.stringify(servers), "--strict-mcp-config",
        "--allowedTools", "mcp__shop,ToolSearch",
      );
      assert.match(events, /"tool_reference".*41 is there.*It is done\./s);
    };
  }
  steps.messages_write = async () => {
    const made = join(own, "made.txt");
    await claude(chat, `call: Write {"file_path": "${made}", "content": "made"}`, ["--allowedTools", "Write"]);
    assert.equal(readFileSync(made, "utf8"), "made");
  };
  steps.messages_turns = async () => {
    const said = await session(chat, ["say: First.", "say: Second."]);
    assert.match(said, /First\..*Second\./s);
  };
}

await report(steps, "@anthropic-ai/claude-code");
