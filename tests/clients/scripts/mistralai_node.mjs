// Mistral's client for Node: chats whole and streamed, a tool's round trip, an object, a middle, vectors, models.
// packages: @mistralai/mistralai zod
import assert from "node:assert/strict";
import { Mistral } from "@mistralai/mistralai";
import { z } from "zod";
import {
  base, chat, cities, embedder, expects, expectText, joined, morning, obedient, order, place, report, thinker,
} from "./steps.mjs";

const client = new Mistral({ serverURL: base, apiKey: "any", retryConfig: { strategy: "none" } });
const ask = (content, more = {}) => ({ model: chat, maxTokens: 300, messages: [{ role: "user", content }], ...more });
const parameters = { type: "object", properties: { city: { type: "string", enum: cities } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "weather", parameters } }];

const steps = {
  async models() {
    assert.ok((await client.models.list()).data.some(({ id }) => id === chat));
    assert.equal((await client.models.retrieve({ modelId: chat })).id, chat);
  },
  async chat() {
    const done = await client.chat.complete(ask(morning));
    expectText(done.choices[0].message.content, "Good morning.");
    assert.ok(done.usage.completionTokens > 0);
  },
  async chat_stream() {
    const events = await client.chat.stream(ask(morning, { model: thinker }));
    expectText(await joined(events, ({ data }) => data.choices[0]?.delta.content), "Good morning.");
  },
  async chat_tools() {
    const first = ask(order, { tools, toolChoice: "any" });
    const { message } = (await client.chat.complete(first)).choices[0];
    const [call] = message.toolCalls;
    assert.equal(call.function.name, "weather");
    const result = { role: "tool", name: "weather", toolCallId: call.id, content: "sunny" };
    const messages = [...first.messages, { ...message, role: "assistant" }, result];
    const done = await client.chat.complete({ ...first, toolChoice: "auto", messages });
    if (obedient) assert.equal(done.choices[0].message.content, "it said: sunny");
  },
  async chat_typed() {
    const responseFormat = z.object({ city: z.enum(cities), size: z.enum(["small", "large"]) });
    const done = await client.chat.parse(ask(place, { responseFormat }));
    assert.ok(cities.includes(done.choices[0].message.parsed.city));
  },
  async embeddings() {
    const { data } = await client.embeddings.create({ model: embedder, inputs: ["a cat", "a dog"] });
    assert.equal(data.length, 2);
  },
  async errors() {
    expects(404, "/v1/chat/completions");
    await assert.rejects(client.chat.complete(ask(morning, { model: "nobody" })), /does not exist/);
  },
};
if (obedient) {
  steps.completions = async () => {
    const middle = { model: chat, prompt: morning, suffix: "\n", maxTokens: 200 };
    assert.equal((await client.fim.complete(middle)).choices[0].message.content.trim(), "Good morning.");
  };
}

await report(steps, "@mistralai/mistralai");
