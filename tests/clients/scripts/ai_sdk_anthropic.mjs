// Vercel's AI SDK with its provider for Anthropic: text, a stream, a tool loop, an object.
// packages: @ai-sdk/anthropic ai zod
import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { chat, cities, expects, joined, morning as prompt, obedient, order, report, thinker, url } from "./steps.mjs";

const anthropic = createAnthropic({ baseURL: url, apiKey: "any" });
const common = { maxRetries: 0, maxOutputTokens: 300 };
const weather = tool({ inputSchema: z.object({ city: z.enum(cities) }), execute: async () => "sunny" });

const steps = {
  async messages() {
    const { text, usage } = await generateText({ ...common, model: anthropic(chat), prompt });
    if (obedient) assert.equal(text, "Good morning.");
    assert.ok(usage.outputTokens > 0 && usage.inputTokens > 0);
  },
  async messages_stream() {
    const text = await joined(streamText({ ...common, model: anthropic(chat), prompt }).textStream);
    if (obedient) assert.equal(text, "Good morning.");
  },
  async messages_thinking() {
    const providerOptions = { anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } } };
    const result = streamText({ ...common, model: anthropic(thinker), prompt, providerOptions });
    const kinds = new Set();
    for await (const part of result.fullStream) kinds.add(part.type);
    assert.ok(!kinds.has("error"));
    if (obedient) assert.ok(kinds.has("reasoning-start") && kinds.has("text-delta"));
  },
  async messages_tools() {
    const asked = { prompt: order, tools: { weather }, stopWhen: stepCountIs(3) };
    const result = streamText({ ...common, model: anthropic(chat), ...asked });
    const done = await result.steps;
    if (obedient) assert.equal(done.at(-1).text, "it said: sunny");
    if (obedient) assert.equal(done[0].toolCalls[0].toolName, "weather");
  },
  async messages_format() {
    const output = Output.object({ schema: z.object({ ok: z.boolean() }) });
    // Of a model that it does not know, the provider asks for a call of a tool of its own.
    const done = await generateText({ ...common, model: anthropic(chat), prompt: 'call: json {"ok": true}', output });
    assert.equal(typeof done.output.ok, "boolean");
  },
  async errors() {
    expects(404, "/v1/messages");
    await assert.rejects(generateText({ ...common, model: anthropic("none"), prompt }), /does not exist/);
  },
};

await report(steps, "@ai-sdk/anthropic");
