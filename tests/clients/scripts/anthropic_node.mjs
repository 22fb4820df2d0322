// Anthropic's Node client: messages whole and streamed with its helper, tools, tokens, models, errors.
// packages: @anthropic-ai/sdk
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { chat, cities, expects, morning, obedient, order, report, thinker } from "./steps.mjs";

const client = new Anthropic({ maxRetries: 0 });
const messages = [{ role: "user", content: morning }];
const asked = { role: "user", content: order };
const tools = [{
  name: "weather",
  input_schema: {
    type: "object", properties: { city: { type: "string", enum: cities } }, required: ["city"], additionalProperties: false,
  },
}];

const steps = {
  async models() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.ok(ids.includes(chat) && ids.includes(thinker));
  },
  async messages() {
    const message = await client.messages.create({ model: chat, max_tokens: 100, messages });
    if (obedient) assert.equal(message.content[0].text, "Good morning.");
    else assert.ok(message.content[0].text.length > 0);
  },
  async messages_stream() {
    let text = "";
    const stream = client.messages.stream({ model: chat, max_tokens: 100, messages }).on("text", (part) => { text += part; });
    const message = await stream.finalMessage();
    assert.equal(message.content[0].text, text);
    assert.ok(message.usage.output_tokens > 0);
  },
  async messages_tools() {
    const thinking = { type: "adaptive" };
    const fields = { model: thinker, max_tokens: 300, tools, thinking };
    const stream = client.messages.stream({ ...fields, messages: [asked], tool_choice: { type: "any" } });
    const first = await stream.finalMessage();
    const used = first.content.find((block) => block.type === "tool_use");
    assert.ok(cities.includes(used.input.city));
    const result = { type: "tool_result", tool_use_id: used.id, content: "sunny" };
    const second = await client.messages.create({
      ...fields, messages: [asked, { role: "assistant", content: first.content }, { role: "user", content: [result] }],
    });
    if (obedient) assert.equal(second.content.at(-1).text, "it said: sunny");
  },
  async messages_count_tokens() {
    assert.ok((await client.messages.countTokens({ model: chat, messages, tools })).input_tokens > 20);
  },
  async errors() {
    const fields = { max_tokens: 9, messages };
    expects(404, "/v1/messages");
    await assert.rejects(client.messages.create({ ...fields, model: "none" }), Anthropic.NotFoundError);
    expects(400, "/v1/messages");
    await assert.rejects(client.messages.create({ ...fields, model: chat, messages: [] }), Anthropic.BadRequestError);
  },
};
if (obedient) {
  steps.errors_stream = async () => {
    const lost = [{ role: "user", content: "lose: Good morning." }];
    const stream = client.messages.stream({ model: chat, max_tokens: 99, messages: lost });
    await assert.rejects(stream.finalMessage(), Anthropic.APIError);
  };
}

await report(steps, "@anthropic-ai/sdk");
