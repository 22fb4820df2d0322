// Ollama's own client for Node: every route that it has here.
// packages: ollama
import assert from "node:assert/strict";
import { Ollama } from "ollama";
import { base, chat, cities, embedder, expectText, expects, joined, morning, obedient, order, report, thinker } from "./steps.mjs";

const client = new Ollama({ host: base });
const ask = (content) => [{ role: "user", content }];
const options = { num_predict: 200 };
const tools = [{
  type: "function",
  function: {
    name: "weather", description: "The weather of a city.",
    parameters: { type: "object", properties: { city: { type: "string", enum: cities } }, required: ["city"] },
  },
}];

const steps = {
  async models() {
    const { models } = await client.list();
    assert.ok(models.some((model) => model.name === chat));
    assert.ok((await client.show({ model: chat })).capabilities.includes("completion"));
    assert.equal((await client.pull({ model: chat })).status, "success");
    assert.ok(Array.isArray((await client.ps()).models));
  },
  async chat() {
    for (const model of [chat, thinker]) {
      const answer = await client.chat({ model, messages: ask(morning), options });
      expectText(answer.message.content, "Good morning.");
      assert.ok(answer.done && answer.total_duration > 0);
    }
  },
  async chat_stream() {
    const stream = await client.chat({ model: chat, messages: ask(morning), options, stream: true });
    expectText(await joined(stream, (part) => part.message.content), "Good morning.");
  },
  async chat_tools() {
    const { message } = await client.chat({ model: chat, messages: ask(order), tools, options });
    if (obedient) assert.deepEqual(message.tool_calls[0].function.arguments, { city: "Bern" });
    const results = (message.tool_calls ?? []).map((call) => (
      { role: "tool", tool_name: call.function.name, content: "18 degrees" }
    ));
    const answer = await client.chat({ model: chat, messages: [...ask(order), message, ...results], options });
    if (obedient) expectText(answer.message.content, "it said: 18 degrees");
  },
  async completions() {
    expectText((await client.generate({ model: chat, prompt: morning, options })).response, "Good morning.");
    const stream = await client.generate({ model: chat, prompt: morning, options, stream: true });
    expectText(await joined(stream, (part) => part.response), "Good morning.");
  },
  async embeddings() {
    assert.equal((await client.embed({ model: embedder, input: ["a cat", "a dog"] })).embeddings.length, 2);
  },
  async errors() {
    expects(404, "/api/chat");
    await assert.rejects(client.chat({ model: "nobody", messages: ask("x") }), /not found/);
  },
};

await report(steps, "ollama");
