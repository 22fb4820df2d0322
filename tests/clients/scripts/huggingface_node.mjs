// Hugging Face's client for Node with an endpoint: chats whole and streamed, a tool's round trip, an object.
// packages: @huggingface/inference
import assert from "node:assert/strict";
import { InferenceClient } from "@huggingface/inference";
import { chat, cities, expects, expectText, joined, morning, obedient, order, place, report, thinker, url } from "./steps.mjs";

const client = new InferenceClient("any", { endpointUrl: url });
const ask = (content, more = {}) => ({ model: chat, max_tokens: 300, messages: [{ role: "user", content }], ...more });
const parameters = { type: "object", properties: { city: { type: "string", enum: cities } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "weather", parameters } }];

const steps = {
  async chat() {
    const done = await client.chatCompletion(ask(morning));
    expectText(done.choices[0].message.content, "Good morning.");
    assert.ok(done.usage.completion_tokens > 0);
  },
  async chat_stream() {
    const chunks = client.chatCompletionStream(ask(morning, { model: thinker }));
    expectText(await joined(chunks, (chunk) => chunk.choices[0]?.delta.content), "Good morning.");
  },
  async chat_tools() {
    const first = ask(order, { tools, tool_choice: "required" });
    const { message } = (await client.chatCompletion(first)).choices[0];
    const [call] = message.tool_calls;
    assert.equal(call.function.name, "weather");
    const messages = [...first.messages, message, { role: "tool", tool_call_id: call.id, content: "sunny" }];
    const done = await client.chatCompletion({ ...first, tool_choice: "auto", messages });
    if (obedient) assert.equal(done.choices[0].message.content, "it said: sunny");
  },
  async chat_typed() {
    const schema = { type: "object", properties: { city: { enum: cities }, size: { enum: ["small", "large"] } } };
    const response_format = { type: "json_schema", json_schema: { name: "place", schema } };
    const done = await client.chatCompletion(ask(place, { response_format }));
    assert.equal(typeof JSON.parse(done.choices[0].message.content), "object");
  },
  async errors() {
    expects(404, "/v1/chat/completions");
    await assert.rejects(client.chatCompletion(ask(morning, { model: "nobody" })), ({ httpResponse }) => httpResponse.status === 404);
  },
};

await report(steps, "@huggingface/inference");
