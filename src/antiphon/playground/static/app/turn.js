// A request of each API from a conversation, and what its events say, folded into the answer's node.
import { newId } from "./ui.js";

export const DEFAULTS = {
  api: "responses", model: "", instructions: "", effort: "", temperature: "", topP: "", most: "", seed: "", tools: "", schema: "",
  survive: "yes", probabilities: "",
};
const TOP = 5; // Of each token, so many others that were likely.

export const over = (node) => !["waiting", "streaming", "resuming"].includes(node.status);

export function answerNode(parent, api) {
  return { id: newId(), parent, role: "assistant", api, items: [], reasoning: "", status: "waiting", error: null, usage: null, finish: "", requestId: "", times: {}, started: Date.now(), version: 0 };
}

const parsed = (text) => (text.trim() ? JSON.parse(text) : undefined);
const number = (text) => (String(text).trim() === "" ? undefined : Number(text));
const present = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== ""));

export function functionsOf(text) {
  const listed = parsed(text) ?? [];
  if (!Array.isArray(listed)) throw new SyntaxError("not a list");
  return listed.map((tool) => tool.function ?? tool);
}

export const calls = (node) => node.items.filter((item) => item.kind === "call");
const wholeCalls = (node) => calls(node).filter((item) => isJson(item.arguments || "{}")); // A stop may leave half of one.
function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export const textOf = (node) => (node.role === "user" ? node.text : node.items.filter((item) => item.kind === "text").map((item) => item.text).join("\n\n"));

// The path and body of the request that goes on from `path`, a list of nodes from the first to the last. With `debug`
// it asks for what hidden channels say, and so for nothing that the server would store.
export function requestOf(settings, path, debug) {
  const common = present({ model: settings.model, temperature: number(settings.temperature), top_p: number(settings.topP), seed: number(settings.seed) });
  const ids = settings.probabilities && debug ? { return_token_ids: true } : {};
  if (settings.api === "responses") return ["/v1/responses", { ...responsesBody(settings, path, common, Boolean(settings.survive) && !debug), ...ids }];
  if (settings.api === "chat") return ["/v1/chat/completions", { ...chatBody(settings, path, common), ...ids }];
  return ["/v1/completions", { ...common, prompt: path.map(textOf).at(-1), ...present({ max_tokens: number(settings.most) }), stream: true, stream_options: { include_usage: true } }];
}

function responsesBody(settings, path, common, survive) {
  const tools = functionsOf(settings.tools).map(({ name, description, parameters, strict }) => ({ type: "function", ...present({ name, description, parameters, strict }) }));
  const schema = parsed(settings.schema);
  const { seed, ...rest } = common;
  return {
    ...rest,
    ...present({ seed, instructions: settings.instructions, max_output_tokens: number(settings.most) }),
    ...(settings.effort && { reasoning: { effort: settings.effort } }),
    ...(tools.length && { tools }),
    ...(schema && { text: { format: { type: "json_schema", name: "answer", schema, strict: true } } }),
    ...(settings.probabilities && { include: ["message.output_text.logprobs"], top_logprobs: TOP }),
    input: path.flatMap(inputItems), explain_prefix: true, ...(survive ? { background: true, store: true } : { store: false }), stream: true,
  };
}

function inputItems(node) {
  if (node.role === "user") return [{ role: "user", content: node.text }];
  const said = node.items.flatMap((item) => {
    if (item.kind === "text") return item.text ? [{ role: "assistant", content: item.text }] : [];
    return wholeCalls(node).includes(item) ? [{ type: "function_call", call_id: item.id, name: item.name, arguments: item.arguments || "{}" }] : [];
  });
  return [...said, ...wholeCalls(node).map((item) => ({ type: "function_call_output", call_id: item.id, output: item.result ?? "" }))];
}

function chatBody(settings, path, common) {
  const tools = functionsOf(settings.tools).map((one) => ({ type: "function", function: one }));
  const schema = parsed(settings.schema);
  return {
    ...common,
    ...present({ max_completion_tokens: number(settings.most), reasoning_effort: settings.effort }),
    ...(tools.length && { tools }),
    ...(schema && { response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } } }),
    ...(settings.probabilities && { logprobs: true, top_logprobs: TOP }),
    messages: messagesOf(settings, path), explain_prefix: true, stream: true, stream_options: { include_usage: true },
  };
}

export function messagesOf(settings, path) {
  const first = settings.instructions ? [{ role: "system", content: settings.instructions }] : [];
  return [...first, ...path.flatMap(chatMessages)];
}

function chatMessages(node) {
  if (node.role === "user") return [{ role: "user", content: node.text }];
  const called = wholeCalls(node);
  if (!called.length && !textOf(node)) return [];
  const asked = called.map((item) => ({ id: item.id, type: "function", function: { name: item.name, arguments: item.arguments || "{}" } }));
  const message = { role: "assistant", content: textOf(node), ...(asked.length && { tool_calls: asked }) };
  return [message, ...called.map((item) => ({ role: "tool", tool_call_id: item.id, content: item.result ?? "" }))];
}

// As it was before its first event.
export function emptied(node) {
  Object.assign(node, { items: [], reasoning: "", tokens: [], sampled: [], usage: null, finish: "", error: null, lastEvent: -1, ended: false });
}

export function fold(node, event, at) {
  node.times.last = at;
  if (event.sequence_number !== undefined) node.lastEvent = event.sequence_number;
  if (event.token_ids ?? event.choices?.[0]?.token_ids) (node.sampled ??= []).push(...(event.token_ids ?? event.choices[0].token_ids));
  addTokens(node, event.type === "response.output_text.delta" ? event.logprobs : event.choices?.[0]?.logprobs?.content);
  if (event.type === "response.created" || event.type === "response.queued") return begun(node, event.response);
  if (event.type === "response.in_progress") node.times.admitted ??= at;
  else node.times.first ??= at;
  if (event.error && !event.type?.startsWith("response.")) return failed(node, event.error);
  if (node.api === "responses") foldResponses(node, event);
  else foldChoices(node, event);
  if (node.items.some((item) => item.text || item.arguments)) node.times.text ??= at;
}

function begun(node, response) {
  node.responseId = response.id;
}

// Each: its text, its bytes in hex, how likely it was, and the likeliest with how likely they were.
function addTokens(node, told) {
  if (!Array.isArray(told) || !told.length) return;
  node.tokens ??= [];
  for (const { token, bytes, logprob, top_logprobs: top = [] } of told) {
    node.tokens.push([token, (bytes ?? []).map((one) => one.toString(16).padStart(2, "0")).join(""), logprob, top.map((one) => [one.token, one.logprob])]);
  }
}

function failed(node, error) {
  node.status = "failed";
  node.ended = true;
  node.error ??= { kind: error.code === "engine_lost" ? "lost" : "refused", code: error.code ?? "", message: error.message ?? "" };
}

function foldChoices(node, event) {
  const choice = event.choices?.[0];
  if (event.usage) node.usage = usageOf(event.usage);
  if (event.antiphon?.prefix) node.prefix = event.antiphon.prefix;
  if (!choice) return;
  const delta = choice.delta ?? { content: choice.text };
  const reasoning = delta.reasoning_content ?? delta.reasoning ?? "";
  if (reasoning) node.reasoning += reasoning;
  if (delta.content) addText(node, "text", delta.content);
  for (const part of delta.tool_calls ?? []) foldCall(node, part);
  if (choice.finish_reason) node.finish = choice.finish_reason;
}

function addText(node, key, text, fields = {}) {
  let last = node.items.at(-1);
  if (last?.kind !== "text" || last.key !== key) {
    last = { kind: "text", key, text: "", ...fields };
    node.items.push(last);
  }
  last.text += text;
}

function foldCall(node, part) {
  let item = node.items.find((one) => one.kind === "call" && one.place === part.index);
  if (!item) {
    item = { kind: "call", place: part.index, id: part.id, name: part.function?.name ?? "", arguments: "", state: "called" };
    node.items.push(item);
  }
  item.arguments += part.function?.arguments ?? "";
}

function foldResponses(node, event) {
  switch (event.type) {
    case "response.output_item.added": return addItem(node, event.item);
    case "response.output_item.done": return endItem(node, event.item);
    case "response.output_text.delta":
    case "response.refusal.delta": return addText(node, event.item_id, event.delta);
    case "response.reasoning_text.delta":
    case "response.reasoning_summary_text.delta": node.reasoning += event.delta; return undefined;
    case "response.function_call_arguments.delta": {
      const item = node.items.find((one) => one.key === event.item_id);
      if (item) item.arguments += event.delta;
      return undefined;
    }
    case "response.failed": return failed(node, event.response.error ?? {});
    case "error": return failed(node, event.error ?? event);
    case "response.completed":
    case "response.incomplete": return endResponse(node, event.response);
    default: return undefined;
  }
}

function addItem(node, item) {
  if (item.type === "message") node.items.push({ kind: "text", key: item.id, text: "", phase: item.phase });
  else if (item.type === "function_call") node.items.push({ kind: "call", key: item.id, id: item.call_id, name: item.name, arguments: item.arguments ?? "", state: "called" });
  else if (item.type !== "reasoning") node.items.push({ kind: "server", key: item.id, name: item.name ?? item.type, arguments: detail(item), state: item.status ?? "in_progress" });
}

function endItem(node, item) {
  const known = node.items.find((one) => one.key === item.id);
  if (known?.kind === "call") known.arguments = item.arguments ?? known.arguments;
  if (known?.kind === "server") Object.assign(known, { state: item.status ?? "completed", arguments: detail(item), result: item.output ?? item.error ?? undefined });
}

const detail = (item) => (typeof item.arguments === "string" ? item.arguments : JSON.stringify(item.action ?? item.code ?? {}));

function endResponse(node, response) {
  node.ended = true;
  node.responseId = response.id;
  if (response.usage) node.usage = usageOf(response.usage);
  if (response.antiphon?.prefix) node.prefix = response.antiphon.prefix;
  node.finish = response.incomplete_details?.reason ?? "stop";
}

function usageOf(usage) {
  return {
    prompt: usage.input_tokens ?? usage.prompt_tokens ?? 0,
    cached: (usage.input_tokens_details ?? usage.prompt_tokens_details)?.cached_tokens ?? 0,
    completion: usage.output_tokens ?? usage.completion_tokens ?? 0,
    reasoning: (usage.output_tokens_details ?? usage.completion_tokens_details)?.reasoning_tokens ?? 0,
  };
}
