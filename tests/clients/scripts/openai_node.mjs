// The official Node client: every endpoint, its accumulators and parsers.
// packages: openai zod
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { chat, cities, embedder, expectText, expects, morning, obedient, order, place, report, thinker } from "./steps.mjs";

const client = new OpenAI({ maxRetries: 0 });
const messages = [{ role: "user", content: morning }];
const parameters = {
  type: "object", properties: { city: { type: "string", enum: cities } }, required: ["city"], additionalProperties: false,
};
const Place = z.object({ city: z.enum(cities), size: z.enum(["small", "large"]) });

const steps = {
  async models() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.ok(ids.includes(chat) && ids.includes(thinker));
    assert.equal((await client.models.retrieve(chat)).id, chat);
  },
  async chat() {
    const done = await client.chat.completions.create({ model: chat, messages, max_tokens: 200 });
    expectText(done.choices[0].message.content, "Good morning.");
  },
  async chat_stream() {
    const stream = client.chat.completions.stream({
      model: chat, messages, max_tokens: 200, stream_options: { include_usage: true },
    });
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    expectText(text, "Good morning.");
    assert.ok((await stream.totalUsage()).completion_tokens > 0);
  },
  async chat_parse() {
    const done = await client.chat.completions.parse({
      model: chat, max_tokens: 200, messages: [{ role: "user", content: place }],
      response_format: zodResponseFormat(Place, "place"),
    });
    assert.ok(cities.includes(done.choices[0].message.parsed.city));
  },
  async chat_tools() {
    const tools = [{ type: "function", function: { name: "weather", parameters, strict: true } }];
    const done = await client.chat.completions.create({
      model: thinker, max_tokens: 200, messages: [{ role: "user", content: order }], tools, tool_choice: "required",
    });
    assert.equal(done.choices[0].message.tool_calls[0].function.name, "weather");
  },
  async chat_run_tools() {
    const run = client.chat.completions.runTools({
      model: chat, max_tokens: 200, messages: [{ role: "user", content: order }],
      tools: [{ type: "function", function: { name: "weather", parameters, parse: JSON.parse, function: ({ city }) => `18 degrees in ${city}` } }],
    });
    try {
      expectText(await run.finalContent(), "it said: 18 degrees in Bern");
    } catch (error) {
      // Another model may talk until its limit, and the client is told so.
      if (obedient || error.constructor.name !== "LengthFinishReasonError") throw error;
    }
  },
  async completions() {
    const done = await client.completions.create({ model: chat, prompt: "say: Good", max_tokens: 200 });
    expectText(done.choices[0].text, "Good");
  },
  async completions_stream() {
    let text = "";
    const stream = await client.completions.create({ model: chat, prompt: "say: Good", max_tokens: 200, stream: true });
    for await (const chunk of stream) text += chunk.choices[0]?.text ?? "";
    expectText(text, "Good");
  },
  async embeddings() {
    const input = ["abc", "abcdef"];
    const told = await client.embeddings.create({ model: embedder, input });
    const floats = await client.embeddings.create({ model: embedder, input, encoding_format: "float" });
    assert.equal(told.data.length, 2);
    told.data.forEach((one, i) => one.embedding.forEach((x, j) => assert.ok(Math.abs(x - floats.data[i].embedding[j]) < 1e-6)));
  },
  async responses() {
    const made = await client.responses.create({ model: thinker, input: morning, max_output_tokens: 200 });
    expectText(made.output_text, "Good morning.");
    assert.equal((await client.responses.retrieve(made.id)).output_text, made.output_text);
    for await (const item of client.responses.inputItems.list(made.id)) assert.equal(item.type, "message");
    await client.responses.delete(made.id);
    expects(404, `/v1/responses/${made.id}`);
    await assert.rejects(client.responses.retrieve(made.id), OpenAI.NotFoundError);
  },
  async responses_stream() {
    const stream = client.responses.stream({ model: thinker, input: morning, max_output_tokens: 200 });
    let text = "";
    for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
    expectText(text, "Good morning.");
    assert.equal((await stream.finalResponse()).output_text, text);
  },
  async responses_parse() {
    const text = { format: zodTextFormat(Place, "place") };
    const done = await client.responses.parse({ model: chat, input: place, text, max_output_tokens: 200 });
    assert.ok(cities.includes(done.output_parsed.city));
    const stream = client.responses.stream({ model: chat, input: place, text, max_output_tokens: 200 });
    assert.ok(cities.includes((await stream.finalResponse()).output_parsed.city));
  },
  async responses_tools_streamed() {
    const tools = [{ type: "function", name: "weather", parameters, strict: true }];
    const stream = client.responses.stream({
      model: thinker, input: order, tools, tool_choice: "required", max_output_tokens: 200,
    });
    const made = await stream.finalResponse();
    const call = made.output.find((item) => item.type === "function_call");
    assert.ok(cities.includes(JSON.parse(call.arguments).city));
  },
  async responses_background() {
    const made = await client.responses.create({ model: chat, input: morning, background: true, max_output_tokens: 200 });
    const ended = await client.responses.cancel(made.id);
    assert.ok(["cancelled", "completed"].includes(ended.status));
    assert.ok((await client.responses.inputTokens.count({ model: chat, input: morning })).input_tokens > 0);
  },
  async conversations() {
    const made = await client.conversations.create({ items: [{ role: "user", content: "Hi" }] });
    await client.responses.create({ model: chat, input: "say: Noted.", conversation: made.id, max_output_tokens: 200 });
    const items = [];
    for await (const item of client.conversations.items.list(made.id)) items.push(item);
    assert.equal(items.length, 3);
    assert.ok((await client.conversations.delete(made.id)).deleted);
  },
  async errors() {
    expects(404, "/v1/chat/completions");
    await assert.rejects(client.chat.completions.create({ model: "large", messages }), OpenAI.NotFoundError);
    expects(400, "/v1/chat/completions");
    await assert.rejects(client.chat.completions.create({ model: chat, messages, temperature: 9 }), OpenAI.BadRequestError);
  },
};

if (obedient) {
  // The engine is lost after the first words: an error, not an end.
  steps.errors_in_streams = async () => {
    const lost = [{ role: "user", content: "lose: Good morning." }];
    const chunks = await client.chat.completions.create({ model: chat, messages: lost, stream: true });
    await assert.rejects(async () => { for await (const chunk of chunks) assert.ok(chunk.id); }, OpenAI.APIError);
    await assert.rejects(client.chat.completions.stream({ model: chat, messages: lost }).finalContent(), OpenAI.APIError);
    const types = [];
    const read = async () => {
      const events = await client.responses.create({ model: chat, input: "lose: Good morning.", stream: true });
      for await (const event of events) types.push(event.type);
    };
    await read().catch((error) => { assert.ok(error instanceof OpenAI.APIError); types.push("error", "response.failed"); });
    assert.deepEqual(types.slice(-2), ["error", "response.failed"]);
  };
}

await report(steps, "openai");
