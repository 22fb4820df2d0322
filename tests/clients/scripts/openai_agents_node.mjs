// OpenAI's Agents SDK for Node over Responses and over chats: text, events, a tool, an object, a handoff.
// packages: @openai/agents openai zod
import assert from "node:assert/strict";
import {
  Agent, handoff, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, setTracingDisabled, tool,
} from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import { chat, cities, expectText, joined, morning, obedient, order, place, report, thinker, url } from "./steps.mjs";

setTracingDisabled(true);
const client = new OpenAI({ baseURL: url, apiKey: "any", maxRetries: 0 });
const runner = new Runner({ tracingDisabled: true, modelSettings: { maxTokens: 300 } });
const weather = tool({
  name: "weather", description: "The weather of a city.", parameters: z.object({ city: z.enum(cities) }),
  execute: async ({ city }) => `18 degrees in ${city}`,
});
const Place = z.object({ city: z.enum(cities), size: z.enum(["small", "large"]) });
const ways = {
  responses: new OpenAIResponsesModel(client, thinker),
  chat: new OpenAIChatCompletionsModel(client, chat),
};

const steps = {};
for (const [name, model] of Object.entries(ways)) {
  const agent = (fields = {}) => new Agent({ name: "first", instructions: "Be brief.", model, ...fields });
  steps[name] = async () => {
    const { finalOutput, rawResponses } = await runner.run(agent(), morning);
    expectText(finalOutput, "Good morning.");
    assert.ok(rawResponses[0].usage.outputTokens > 0);
  };
  steps[`${name}_stream`] = async () => {
    const result = await runner.run(agent(), morning, { stream: true });
    expectText(await joined(result.toTextStream({ compatibleWithNodeStreams: true }), String), "Good morning.");
    await result.completed;
  };
  steps[`${name}_tools`] = async () => {
    const { finalOutput } = await runner.run(agent({ tools: [weather] }), order);
    if (obedient) assert.equal(finalOutput, "it said: 18 degrees in Bern");
  };
  steps[`${name}_tools_streamed`] = async () => {
    const result = await runner.run(agent({ tools: [weather] }), order, { stream: true });
    const kinds = new Set();
    for await (const event of result) kinds.add(event.name ?? event.type);
    if (obedient) assert.ok(kinds.has("tool_called") && kinds.has("tool_output"));
  };
  steps[`${name}_typed`] = async () => {
    assert.ok(cities.includes((await runner.run(agent({ outputType: Place }), place)).finalOutput.city));
  };
  if (obedient) {
    steps[`${name}_handoff`] = async () => {
      const second = agent({ name: "second", tools: [weather] });
      const plan = `plan: call hand_over {} ;; ${order.replace("call:", "call")} ;; say done`;
      const first = agent({ handoffs: [handoff(second, { toolNameOverride: "hand_over" })] });
      const { finalOutput, lastAgent } = await runner.run(first, plan);
      assert.deepEqual([finalOutput, lastAgent.name], ["done", "second"]);
    };
  }
}

await report(steps, "@openai/agents");
