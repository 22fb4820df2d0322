// Mastra, an agent whose model is one with a URL: text, a stream, a tool, an object.
// packages: @mastra/core zod
import assert from "node:assert/strict";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";
import { chat, cities, expectText, joined, morning, obedient, order, place, report, thinker, url } from "./steps.mjs";

const weather = createTool({
  id: "weather", description: "The weather of a city.", inputSchema: z.object({ city: z.enum(cities) }),
  execute: async () => "sunny",
});
const schema = z.object({ city: z.enum(cities), size: z.enum(["small", "large"]) });
const settings = { maxSteps: 3, modelSettings: { maxOutputTokens: 300, maxRetries: 0 } };

const steps = {};
for (const [name, id] of [["chat", chat], ["chat_thinker", thinker]]) {
  const model = { id: `antiphon/${id}`, url, apiKey: "any" };
  const agent = new Agent({ id: "first", name: "first", instructions: "Be brief.", model, tools: { weather } });
  steps[name] = async () => {
    const { text, usage } = await agent.generate(morning, settings);
    expectText(text, "Good morning.");
    assert.ok(usage.outputTokens > 0);
  };
  steps[`${name}_stream`] = async () => {
    expectText(await joined((await agent.stream(morning, settings)).textStream), "Good morning.");
  };
  steps[`${name}_tools`] = async () => {
    const { text, toolCalls } = await agent.generate(order, settings);
    if (obedient) assert.equal(text, "it said: sunny", JSON.stringify(toolCalls));
  };
  steps[`${name}_typed`] = async () => {
    const { object } = await agent.generate(place, { ...settings, structuredOutput: { schema } });
    assert.ok(cities.includes(object.city));
  };
}

await report(steps, "@mastra/core");
