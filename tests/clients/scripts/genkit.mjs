// Genkit with its plugins for what is like OpenAI and for Ollama: text, a stream, a tool, an object, vectors.
// packages: genkit @genkit-ai/compat-oai genkitx-ollama
import assert from "node:assert/strict";
import { openAICompatible } from "@genkit-ai/compat-oai";
import { genkit, z } from "genkit";
import { ollama } from "genkitx-ollama";
import {
  base, chat, cities, embedder, expectText, joined, morning, obedient, order, place, report, thinker, url,
} from "./steps.mjs";

const ai = genkit({
  plugins: [
    openAICompatible({ name: "antiphon", baseURL: url, apiKey: "any" }),
    ollama({
      serverAddress: base, models: [{ name: thinker, type: "chat", supports: { tools: true } }],
      embedders: [{ name: embedder, dimensions: 2 }],
    }),
  ],
});
const weather = ai.defineTool(
  { name: "weather", description: "The weather of a city.", inputSchema: z.object({ city: z.enum(cities) }) },
  async () => "sunny",
);
const output = { schema: z.object({ city: z.enum(cities), size: z.enum(["small", "large"]) }) };

const steps = {};
for (const [name, model] of [["chat", `antiphon/${chat}`], ["chat_ollama", `ollama/${thinker}`]]) {
  const config = name === "chat" ? { max_tokens: 300 } : { num_predict: 300 };
  steps[name] = async () => {
    expectText((await ai.generate({ model, config, prompt: morning })).text, "Good morning.");
  };
  // Its plugin for Ollama takes all that one read of the network gives for one line, so its streams end by chance.
  if (name === "chat") {
    steps.chat_stream = async () => {
      const { stream, response } = ai.generateStream({ model, config, prompt: morning });
      expectText(await joined(stream, (chunk) => chunk.text), "Good morning.");
      await response;
    };
  }
  steps[`${name}_tools`] = async () => {
    const { text } = await ai.generate({ model, config, prompt: order, tools: [weather], maxTurns: 3 });
    if (obedient) assert.match(text, /^it said: .*sunny/);
  };
  steps[`${name}_typed`] = async () => {
    const done = await ai.generate({ model, config, prompt: place, output });
    assert.ok(cities.includes(done.output.city));
  };
}
steps.embeddings = async () => {
  const [{ embedding }] = await ai.embed({ embedder: `ollama/${embedder}`, content: "a cat" });
  assert.ok(embedding.length > 1);
};

await report(steps, "genkit");
