// Strands Agents for Node over chats, Responses (the server stores the history, too) and Messages: text, tools, an object.
// packages: @strands-agents/sdk openai @anthropic-ai/sdk zod
import assert from "node:assert/strict";
import { Agent, tool } from "@strands-agents/sdk";
import { AnthropicModel } from "@strands-agents/sdk/models/anthropic";
import { OpenAIModel } from "@strands-agents/sdk/models/openai";
import { z } from "zod";
import { base, chat, cities, expectText, morning, obedient, order, place, report, thinker, url } from "./steps.mjs";

const openai = { apiKey: "any", maxTokens: 300, clientConfig: { baseURL: url, maxRetries: 0 } };
const ways = {
  chat: () => new OpenAIModel({ ...openai, api: "chat", modelId: chat }),
  responses: () => new OpenAIModel({ ...openai, modelId: thinker }),
  responses_stateful: () => new OpenAIModel({ ...openai, modelId: chat, stateful: true }),
  messages: () => new AnthropicModel({
    apiKey: "any", modelId: thinker, maxTokens: 300, clientConfig: { baseURL: base, maxRetries: 0 },
  }),
};
const weather = tool({
  name: "weather", description: "The weather of a city.", inputSchema: z.object({ city: z.enum(cities) }),
  callback: ({ city }) => `18 degrees in ${city}`,
});
const structuredOutputSchema = z.object({ city: z.enum(cities), size: z.enum(["small", "large"]) });

const steps = {};
for (const [name, model] of Object.entries(ways)) {
  const agent = (more = {}) => new Agent({ model: model(), systemPrompt: "Be brief.", printer: false, ...more });
  steps[name] = async () => {
    expectText(String(await agent().invoke(morning)), "Good morning.");
  };
  steps[`${name}_stream`] = async () => {
    const kinds = new Set();
    for await (const event of agent().stream(morning)) kinds.add(event.event?.type ?? event.type);
    assert.ok(kinds.has("modelContentBlockDeltaEvent"), [...kinds].join());
  };
  if (obedient) {
    steps[`${name}_turns`] = async () => {
      const first = agent({ tools: [weather] });
      const plan = `plan: ${order.replace(": ", " ")} ;; ${order.replace(": ", " ").replace("Bern", "Basel")} ;; say It is done.`;
      expectText(String(await first.invoke(plan)), "It is done.");
      expectText(String(await first.invoke(order)), "it said: 18 degrees in Bern");
    };
    steps[`${name}_typed`] = async () => {
      const said = `call: strands_structured_output ${place.slice("say: ".length)}`; // It asks for a call.
      const { structuredOutput } = await agent({ structuredOutputSchema }).invoke(said);
      assert.deepEqual(structuredOutput, { city: "Bern", size: "small" });
    };
  }
}

await report(steps, "@strands-agents/sdk");
