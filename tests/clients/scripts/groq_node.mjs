// Groq's client for Node: chats whole and streamed, a tool's round trip, an object, vectors, models.
// packages: groq-sdk
import assert from "node:assert/strict";
import Groq from "groq-sdk";
import {
  base, chat, cities, embedder, expects, expectText, joined, morning, obedient, order, place, report, thinker,
} from "./steps.mjs";

const client = new Groq({ baseURL: base, apiKey: "any", maxRetries: 0 });
const ask = (content, more = {}) => ({ model: chat, max_tokens: 300, messages: [{ role: "user", content }], ...more });
const parameters = { type: "object", properties: { city: { type: "string", enum: cities } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "weather", parameters } }];

const steps = {
  async models() {
    assert.ok((await client.models.list()).data.some(({ id }) => id === chat));
    assert.equal((await client.models.retrieve(chat)).id, chat);
  },
  async chat() {
    const done = await client.chat.completions.create(ask(morning));
    expectText(done.choices[0].message.content, "Good morning.");
    assert.ok(done.usage.completion_tokens > 0);
  },
  async chat_stream() {
    const chunks = await client.chat.completions.create(ask(morning, { stream: true, model: thinker }));
    expectText(await joined(chunks, (chunk) => chunk.choices[0]?.delta.content), "Good morning.");
  },
  async chat_tools() {
    const first = ask(order, { tools, tool_choice: "required" });
    const { message } = (await client.chat.completions.create(first)).choices[0];
    const [call] = message.tool_calls;
    assert.ok(cities.includes(JSON.parse(call.function.arguments).city));
    const messages = [...first.messages, message, { role: "tool", tool_call_id: call.id, content: "sunny" }];
    const done = await client.chat.completions.create({ ...first, tool_choice: "auto", messages });
    if (obedient) assert.equal(done.choices[0].message.content, "it said: sunny");
  },
  async chat_typed() {
    const schema = { type: "object", properties: { city: { enum: cities }, size: { enum: ["small", "large"] } } };
    const response_format = { type: "json_schema", json_schema: { name: "place", schema } };
    const done = await client.chat.completions.create(ask(place, { response_format }));
    assert.equal(typeof JSON.parse(done.choices[0].message.content), "object");
  },
  async embeddings() {
    const { data } = await client.embeddings.create({ model: embedder, input: ["a cat", "a dog"] });
    assert.equal(data.length, 2);
  },
  async errors() {
    expects(404, "/openai/v1/chat/completions");
    await assert.rejects(client.chat.completions.create(ask(morning, { model: "nobody" })), Groq.NotFoundError);
  },
};

await report(steps, "groq-sdk");
