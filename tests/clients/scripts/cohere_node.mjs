// Cohere's client for Node: it ranks by both versions of its API. Their chats are not spoken here.
// packages: cohere-ai
import assert from "node:assert/strict";
import { CohereClient, CohereClientV2, CohereError } from "cohere-ai";
import { base, chat, embedder, expects, report } from "./steps.mjs";

const settings = { environment: base, token: "any" };
const asked = { model: embedder, query: "a cat", documents: ["a wheel", "the cat"], topN: 1 };
const once = { maxRetries: 0 };

async function ranked(client) {
  const { id, results } = await client.rerank(asked, once);
  assert.ok(id && results.length === 1 && results[0].index < 2);
  assert.equal(typeof results[0].relevanceScore, "number");
}

const steps = {
  rerank: () => ranked(new CohereClientV2(settings)),
  rerank_first_version: () => ranked(new CohereClient(settings)),
  async errors() {
    expects(400, "/v2/rerank");
    const client = new CohereClientV2(settings);
    await assert.rejects(client.rerank({ ...asked, model: chat }, once), CohereError);
  },
};

await report(steps, "cohere-ai");
