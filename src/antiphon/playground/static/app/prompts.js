// What an answer was asked with: its prompt as the server renders it, and the reply as the next prompt has it.
import { call } from "./api.js";
import { difference, piecesOf, tokensOf } from "./pieces.js";
import { continuationOf, requestOf } from "./requests.js";
import { textOf } from "./turn.js";

// The prompt that the answer answers, the one before it with its reply, and what was sampled.
export async function both(chat, path, answer, before, settings) {
  const upTo = (node) => path.slice(0, path.indexOf(node));
  const prompt = await rendered(chat, settings, answer ? upTo(answer) : path, answer);
  const former = before ? await rendered(chat, before.settings ?? settings, upTo(before), before) : null;
  const sampled = chat.debug && answer?.sampled?.length ? await call("/detokenize", { body: { tokens: answer.sampled, ...(settings.model && { model: settings.model }) } }) : null;
  const reply = answer && !answer.tokens?.length ? await written(chat, settings, upTo(answer), answer, prompt).catch(() => []) : [];
  return { prompt, former, reply, sampled: sampled?.prompt };
}

// What of a request says what its prompt is.
const OF_PROMPT = ["model", "messages", "tools", "server_tools", "response_format", "reasoning_effort", "continue_final_message"];

const ofPrompt = (body) => Object.fromEntries(OF_PROMPT.filter((name) => name in body).map((name) => [name, body[name]]));

async function rendered(chat, settings, path, answer) {
  if (settings.api === "completions") return tokenized(settings, path, answer);
  const asChat = { ...settings, api: "chat" };
  const [, body] = answer?.continues ? continuationOf(asChat, [...path, answer.continues], { listed: chat.listed }) : requestOf(asChat, path, { listed: chat.listed });
  const kept = ofPrompt(body);
  const found = await call("/v1/render", { aside: true, body: { ...kept, return_piece_tokens: true } });
  return { ...found, given: spelledOut(kept), unseen: unseenIn(settings, path) };
}

// All texts of a request, one after the other.
function spelledOut(value) {
  if (typeof value === "string") return value;
  return value && typeof value === "object" ? Object.values(value).map(spelledOut).join("\n") : "";
}

// Completions have no template: their prompt is the text itself.
async function tokenized(settings, path, answer) {
  const [, { prompt, model }] = answer?.continues ? continuationOf(settings, [...path, answer.continues]) : requestOf(settings, path);
  return tokensOfText(model, prompt);
}

async function tokensOfText(model, text) {
  const found = await call("/v1/tokenize", { aside: true, body: { ...(model && { model }), prompt: text, return_token_bytes: true } });
  const tokens = found.tokens.map((id, at) => ({ id, bytes: found.token_bytes[at] }));
  return { model: model ?? "", format: "", text, ids: found.tokens, pieces: text ? [{ text, tokens }] : [] };
}

// Whether what the model thought since the last question stands in its prompt, where this page does not see it.
function unseenIn(settings, path) {
  const asked = path.findLastIndex((node) => node.role === "user");
  return settings.api === "responses" && path.slice(asked + 1).some((node) => node.output?.some((item) => item.type === "reasoning"));
}

// The pieces of an answer as the next prompt has them: what that has beyond the prompt of the answer.
async function written(chat, settings, path, answer, prompt) {
  const text = textOf(answer).slice(answer.continues ? textOf(answer.continues).length : 0);
  if (settings.api === "completions") return (await tokensOfText(settings.model, text)).pieces;
  const [, body] = requestOf({ ...settings, api: "chat" }, [...path, answer], { listed: chat.listed });
  const kept = ofPrompt(body);
  kept.messages = kept.messages.slice(0, kept.messages.findLastIndex((one) => one.role === "assistant") + 1);
  const whole = await call("/v1/render", { aside: true, body: { ...kept, add_generation_prompt: false, return_piece_tokens: true } });
  return piecesOf(difference(tokensOf(prompt.pieces), tokensOf(whole.pieces)).added);
}

// The conversation up to an answer as a model is trained on it: each token with whose it is, and whether the next prompt keeps it.
export async function ownersOf(chat, settings, path, answer) {
  const upTo = answer ? path.slice(0, path.indexOf(answer) + 1) : path;
  const [, body] = requestOf({ ...settings, api: "chat" }, upTo, { listed: chat.listed });
  const found = await call("/v1/render", { aside: true, body: { ...ofPrompt(body), add_generation_prompt: false, return_owners: true } });
  let at = 0;
  const kept = found.next_turn?.kept ?? found.ids.length;
  const marked = (token) => ({ ...token, dropped: at++ >= kept });
  return { ...found, pieces: found.pieces.map((piece) => ({ ...piece, tokens: piece.tokens.map(marked) })) };
}
