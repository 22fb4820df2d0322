// Vercel's AI SDK with its provider for Anthropic: text, a stream, a tool loop, an object.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [chat, thinker] = process.env.ANTIPHON_MODELS.split(" ");
const obedient = Boolean(process.env.ANTIPHON_OBEDIENT);
const anthropic = createAnthropic({ baseURL: `${process.env.ANTIPHON_URL}/v1`, apiKey: "any" });
const common = { maxRetries: 0, maxOutputTokens: 300 };
const prompt = "say: Good morning.";
const weather = tool({ inputSchema: z.object({ city: z.enum(["Bern", "Basel"]) }), execute: async () => "sunny" });

const steps = {
  async messages() {
    const { text, usage } = await generateText({ ...common, model: anthropic(chat), prompt });
    if (obedient) assert.equal(text, "Good morning.");
    assert.ok(usage.outputTokens > 0 && usage.inputTokens > 0);
  },
  async messages_stream() {
    let text = "";
    for await (const part of streamText({ ...common, model: anthropic(chat), prompt }).textStream) text += part;
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
    const order = { prompt: 'call: weather {"city": "Bern"}', tools: { weather }, stopWhen: stepCountIs(3) };
    const result = streamText({ ...common, model: anthropic(chat), ...order });
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
    await assert.rejects(generateText({ ...common, model: anthropic("none"), prompt }), /does not exist/);
  },
};

for (const [name, step] of Object.entries(steps)) {
  try {
    await step();
    console.log("ok", name);
  } catch (error) {
    console.error(error);
    console.log("failed", name);
    process.exitCode = 1;
  }
}
const packaged = JSON.parse(readFileSync(new URL("../node_modules/@ai-sdk/anthropic/package.json", import.meta.url)));
console.log("version", "@ai-sdk/anthropic", packaged.version, "on Node", process.versions.node);
