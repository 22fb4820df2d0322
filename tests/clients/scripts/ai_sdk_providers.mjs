// Vercel's AI SDK with its providers for OpenAI, for what is like it, Mistral, Groq, DeepSeek and Cohere.
// packages: ai @ai-sdk/openai @ai-sdk/openai-compatible @ai-sdk/mistral @ai-sdk/cohere @ai-sdk/groq @ai-sdk/deepseek zod
import assert from "node:assert/strict";
import { createCohere } from "@ai-sdk/cohere";
import { createDeepSeek } from "@ai-sdk/deepseek";
import { createGroq } from "@ai-sdk/groq";
import { createMistral } from "@ai-sdk/mistral";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateText, Output, rerank, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import {
  chat, cities, embedder, expects, expectText, joined, morning, obedient, order, place, report, thinker, url,
} from "./steps.mjs";

const settings = { baseURL: url, apiKey: "any" };
const openai = createOpenAI(settings);
const compatible = createOpenAICompatible({
  ...settings, name: "antiphon", includeUsage: true, supportsStructuredOutputs: true,
});
const ways = {
  responses: openai(thinker),
  chat: openai.chat(chat),
  chat_compatible: compatible(chat),
  chat_mistral: createMistral(settings)(chat),
  chat_groq: createGroq(settings)(thinker),
  chat_deepseek: createDeepSeek(settings)(thinker),
};
const weather = tool({ inputSchema: z.object({ city: z.enum(cities) }), execute: async () => "sunny" });
const output = Output.object({ schema: z.object({ city: z.enum(cities), size: z.enum(["small", "large"]) }) });

const steps = {};
for (const [name, model] of Object.entries(ways)) {
  const common = { model, maxRetries: 0, maxOutputTokens: 300 };
  steps[name] = async () => {
    const { text, usage } = await generateText({ ...common, prompt: morning });
    expectText(text, "Good morning.");
    assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
  };
  steps[`${name}_stream`] = async () => {
    const result = streamText({ ...common, prompt: morning });
    expectText(await joined(result.textStream), "Good morning.");
    // Mistral's and Groq's own servers count in a stream without being asked.
    if (!/mistral|groq/.test(name)) assert.ok((await result.usage).outputTokens > 0);
  };
  steps[`${name}_tools`] = async () => {
    const asked = { prompt: order, tools: { weather }, stopWhen: stepCountIs(3) };
    const done = await streamText({ ...common, ...asked, onError: ({ error }) => console.error(error) }).steps;
    if (obedient) assert.deepEqual([done[0].toolCalls[0].toolName, done.at(-1).text], ["weather", "it said: sunny"]);
  };
  steps[`${name}_typed`] = async () => {
    assert.ok(cities.includes((await generateText({ ...common, prompt: place, output })).output.city));
  };
}
steps.completions = async () => {
  const { text } = await generateText({ model: openai.completion(chat), prompt: "say: Good", maxOutputTokens: 200 });
  expectText(text, "Good");
};
steps.embeddings = async () => {
  const models = [openai.embedding(embedder), compatible.embeddingModel(embedder)];
  for (const model of models) assert.equal((await embedMany({ model, values: ["a cat", "a dog"] })).embeddings.length, 2);
};
steps.errors = async () => {
  expects(404, "/v1/chat/completions");
  const asked = generateText({ model: compatible("nobody"), prompt: morning, maxRetries: 0 });
  await assert.rejects(asked, /does not exist/);
};
steps.rerank = async () => {
  const model = createCohere({ ...settings, baseURL: url.replace("/v1", "/v2") }).reranking(embedder);
  const { ranking } = await rerank({ model, query: "a cat", documents: ["a wheel", "the cat"], maxRetries: 0 });
  assert.equal(ranking.length, 2);
};

await report(steps, "ai");
