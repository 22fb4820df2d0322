// LangChain for Node: its classes for OpenAI (chat and Responses), Anthropic and Ollama, a call each way, and an agent.
// packages: @langchain/openai @langchain/anthropic @langchain/ollama @langchain/core langchain zod
import assert from "node:assert/strict";
import { ChatAnthropic } from "@langchain/anthropic";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOllama, OllamaEmbeddings } from "@langchain/ollama";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { createAgent } from "langchain";
import { z } from "zod";
import {
  base, chat, cities, embedder, expects, expectText, joined, morning, obedient, order, place, report, thinker, url,
} from "./steps.mjs";

const common = { apiKey: "any", maxRetries: 0, maxTokens: 300 };
const openai = { ...common, configuration: { baseURL: url } };
const ollama = { baseUrl: base, numPredict: 300, maxRetries: 0 };
const ways = {
  chat: new ChatOpenAI({ ...openai, model: chat, streamUsage: true }),
  responses: new ChatOpenAI({ ...openai, model: thinker, useResponsesApi: true }),
  messages: new ChatAnthropic({ ...common, model: chat, anthropicApiUrl: base }),
  chat_ollama: new ChatOllama({ ...ollama, model: thinker }),
};
const weather = tool(async ({ city }) => `18 degrees in ${city}`, {
  name: "weather", description: "The weather of a city.", schema: z.object({ city: z.enum(cities) }),
});
const Place = z.object({ city: z.enum(cities), size: z.enum(["small", "large"]) });

const steps = {};
for (const [name, model] of Object.entries(ways)) {
  steps[name] = async () => {
    const answer = await model.invoke(morning);
    expectText(answer.text, "Good morning.");
    assert.ok(answer.usage_metadata.output_tokens > 0);
  };
  steps[`${name}_stream`] = async () => {
    expectText(await joined(await model.stream(morning), (chunk) => chunk.text), "Good morning.");
  };
  steps[`${name}_tools`] = async () => {
    const bound = model.bindTools([weather]);
    const asked = new HumanMessage(order);
    const answer = await bound.invoke([asked]);
    if (obedient) assert.deepEqual(answer.tool_calls[0].args, { city: "Bern" });
    const results = answer.tool_calls.map(({ id }) => new ToolMessage({ content: "sunny", tool_call_id: id }));
    if (results.length) expectText((await bound.invoke([asked, answer, ...results])).text, "it said: sunny");
  };
  steps[`${name}_agent`] = async () => {
    const { messages } = await createAgent({ model, tools: [weather] }).invoke({ messages: [new HumanMessage(order)] });
    if (obedient) assert.equal(messages.at(-1).text, "it said: 18 degrees in Bern");
  };
  if (name !== "messages") {
    steps[`${name}_typed`] = async () => {
      const method = name === "chat_ollama" ? undefined : "jsonSchema";
      const { city } = await model.withStructuredOutput(Place, { method }).invoke(place);
      assert.ok(cities.includes(city));
    };
  }
}
steps.messages_typed = async () => {
  const asked = `call: extract ${place.slice("say: ".length)}`; // It asks for a call.
  const { city } = await ways.messages.withStructuredOutput(Place, { name: "extract" }).invoke(asked);
  assert.ok(cities.includes(city));
};
steps.embeddings = async () => {
  const fields = { ...openai, model: embedder, encodingFormat: "float" };
  assert.equal((await new OpenAIEmbeddings(fields).embedDocuments(["a cat", "a dog"])).length, 2);
  const ours = new OllamaEmbeddings({ baseUrl: base, model: embedder });
  assert.equal((await ours.embedDocuments(["a cat", "a dog"])).length, 2);
};
steps.errors = async () => {
  expects(404, "/v1/chat/completions");
  await assert.rejects(new ChatOpenAI({ ...openai, model: "nobody" }).invoke(morning), /does not exist/);
};

await report(steps, "@langchain/openai");
