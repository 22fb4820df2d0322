// The official Node client, 6.x: every endpoint, its accumulators and parsers.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ baseURL: `${process.env.ANTIPHON_URL}/v1`, apiKey: "any", maxRetries: 0 });
const messages = [{ role: "user", content: "say: Good morning." }];
const order = 'call: weather {"city": "Bern"}';
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const Place = z.object({ city: z.string(), people: z.number() });
const place = 'say: {"city": "Bern", "people": 137000}';

const steps = {
  async models() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.deepEqual(ids, ["small", "oss", "count"]);
  },
  async chat() {
    const done = await client.chat.completions.create({ model: "small", messages });
    assert.equal(done.choices[0].message.content, "Good morning.");
  },
  async chat_stream() {
    const stream = client.chat.completions.stream({ model: "small", messages, stream_options: { include_usage: true } });
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    assert.equal(text, "Good morning.");
    assert.ok((await stream.totalUsage()).completion_tokens > 0);
  },
  async chat_parse() {
    const done = await client.chat.completions.parse({
      model: "small", messages: [{ role: "user", content: place }], response_format: zodResponseFormat(Place, "place"),
    });
    assert.deepEqual(done.choices[0].message.parsed, { city: "Bern", people: 137000 });
  },
  async chat_run_tools() {
    const run = client.chat.completions.runTools({
      model: "small", messages: [{ role: "user", content: order }],
      tools: [{ type: "function", function: { name: "weather", parameters, parse: JSON.parse, function: ({ city }) => `18 degrees in ${city}` } }],
    });
    assert.equal(await run.finalContent(), "it said: 18 degrees in Bern");
  },
  async completions() {
    const done = await client.completions.create({ model: "small", prompt: "say: Good" });
    assert.equal(done.choices[0].text, "Good");
  },
  async embeddings() {
    const told = await client.embeddings.create({ model: "count", input: ["abc", "abcdef"] });
    const floats = await client.embeddings.create({ model: "count", input: ["abc", "abcdef"], encoding_format: "float" });
    assert.deepEqual(told.data.map((one) => one.embedding), floats.data.map((one) => one.embedding));
  },
  async responses() {
    const made = await client.responses.create({ model: "oss", input: "say: Good morning." });
    assert.equal(made.output_text, "Good morning.");
    assert.equal((await client.responses.retrieve(made.id)).output_text, "Good morning.");
    await client.responses.delete(made.id);
    await assert.rejects(client.responses.retrieve(made.id), OpenAI.NotFoundError);
  },
  async responses_stream() {
    const stream = client.responses.stream({ model: "oss", input: "say: Good morning." });
    let text = "";
    for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
    assert.equal(text, "Good morning.");
    assert.equal((await stream.finalResponse()).output_text, text);
  },
  async responses_parse() {
    const text = { format: zodTextFormat(Place, "place") };
    const done = await client.responses.parse({ model: "small", input: place, text });
    assert.deepEqual(done.output_parsed, { city: "Bern", people: 137000 });
  },
  async responses_tools_streamed() {
    const tools = [{ type: "function", name: "weather", parameters, strict: true }];
    const stream = client.responses.stream({ model: "oss", input: order, tools });
    const made = await stream.finalResponse();
    const call = made.output.find((item) => item.type === "function_call");
    assert.deepEqual(JSON.parse(call.arguments), { city: "Bern" });
  },
  async conversations() {
    const made = await client.conversations.create({ items: [{ role: "user", content: "Hi" }] });
    await client.responses.create({ model: "small", input: "say: Noted.", conversation: made.id });
    const items = [];
    for await (const item of client.conversations.items.list(made.id)) items.push(item);
    assert.equal(items.length, 3);
  },
  async errors() {
    await assert.rejects(client.chat.completions.create({ model: "large", messages }), OpenAI.NotFoundError);
  },
};

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
const packaged = JSON.parse(readFileSync(new URL("node_modules/openai/package.json", import.meta.url)));
console.log("version", "openai", packaged.version, "on Node", process.versions.node);
