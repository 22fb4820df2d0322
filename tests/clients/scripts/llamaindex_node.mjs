// LlamaIndex for Node: its classes for OpenAI (chat and Responses) and Ollama, a call each way, an agent, vectors.
// packages: llamaindex @llamaindex/openai @llamaindex/ollama @llamaindex/workflow zod
import assert from "node:assert/strict";
import { Ollama, OllamaEmbedding } from "@llamaindex/ollama";
import { OpenAI, OpenAIEmbedding, OpenAIResponses } from "@llamaindex/openai";
import { agent } from "@llamaindex/workflow";
import { tool } from "llamaindex";
import { z } from "zod";
import {
  base, chat, cities, embedder, expects, expectText, joined, morning, obedient, order, place, report, thinker, url,
} from "./steps.mjs";

const openai = { apiKey: "any", baseURL: url, maxRetries: 0 };
const ways = {
  chat: new OpenAI({ ...openai, model: chat, maxTokens: 300 }),
  responses: new OpenAIResponses({ ...openai, model: thinker, maxOutputTokens: 300 }),
  chat_ollama: new Ollama({ model: thinker, config: { host: base }, options: { num_predict: 300 } }),
};
const weather = tool({
  name: "weather", description: "The weather of a city.", parameters: z.object({ city: z.enum(cities) }),
  execute: () => "sunny",
});
const ask = (content) => [{ role: "user", content }];

const steps = {};
for (const [name, llm] of Object.entries(ways)) {
  steps[name] = async () => {
    expectText((await llm.chat({ messages: ask(morning) })).message.content, "Good morning.");
  };
  steps[`${name}_stream`] = async () => {
    const chunks = await llm.chat({ messages: ask(morning), stream: true });
    // Of Responses, it says the last delta anew with each event that has none.
    const told = ({ raw, delta }) => (raw?.type?.endsWith(".done") || raw?.type === "response.completed" ? "" : delta);
    expectText(await joined(chunks, told), "Good morning.");
  };
  if (obedient) {
    steps[`${name}_agent`] = async () => {
      const { data } = await agent({ llm, tools: [weather], timeout: 60 }).run(order);
      assert.match(data.result, /^it said: .*sunny/);
    };
  }
}
steps.chat_typed = async () => {
  const responseFormat = z.object({ city: z.enum(cities), size: z.enum(["small", "large"]) });
  const { message } = await ways.chat.chat({ messages: ask(place), responseFormat });
  assert.ok(cities.includes(JSON.parse(message.content).city));
};
steps.embeddings = async () => {
  const models = [
    new OpenAIEmbedding({ ...openai, model: embedder }), new OllamaEmbedding({ model: embedder, config: { host: base } }),
  ];
  for (const model of models) assert.equal((await model.getTextEmbeddings(["a cat", "a dog"])).length, 2);
};
steps.errors = async () => {
  expects(404, "/v1/chat/completions");
  const nobody = new OpenAI({ ...openai, model: "nobody" });
  await assert.rejects(nobody.chat({ messages: ask(morning) }), /does not exist/);
};

await report(steps, "llamaindex");
