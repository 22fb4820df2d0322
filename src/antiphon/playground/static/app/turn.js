// An answer as it grows: what the events of each API say, folded into the node of a conversation.
import { newId } from "./ui.js";

export const over = (node) => !["waiting", "streaming", "resuming"].includes(node.status);

export function answerNode(parent, api) {
  return { id: newId(), parent, role: "assistant", api, items: [], reasoning: "", status: "waiting", error: null, usage: null, finish: "", requestId: "", times: {}, started: Date.now(), at: Date.now(), version: 0 };
}

export const calls = (node) => node.items.filter((item) => item.kind === "call");
export const textOf = (node) => (node.role === "user" ? node.text : node.items.filter((item) => item.kind === "text").map((item) => item.text).join("\n\n"));

export function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// As it was before its first event.
export function emptied(node) {
  Object.assign(node, { items: [], output: undefined, reasoning: "", tokens: [], sampled: [], usage: null, finish: "", error: null, lastEvent: -1, ended: false });
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
  if (node.api === "responses") foldResponses(node, event, at);
  else foldChoices(node, event, at);
  if (node.items.some((item) => item.text || item.arguments)) node.times.text ??= at;
}

function begun(node, response) {
  node.responseId = response.id;
  node.model = response.model;
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

function foldChoices(node, event, at) {
  const choice = event.choices?.[0];
  node.model ??= event.model;
  if (event.usage) node.usage = usageOf(event.usage);
  if (event.antiphon?.prefix) node.prefix = event.antiphon.prefix;
  if (!choice) return;
  const delta = choice.delta ?? { content: choice.text };
  const reasoning = delta.reasoning_content ?? delta.reasoning ?? "";
  if (reasoning) node.reasoning += reasoning;
  if (delta.content) addText(node, "text", delta.content);
  for (const part of delta.tool_calls ?? []) foldCall(node, part, at);
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

function foldCall(node, part, at) {
  let item = node.items.find((one) => one.kind === "call" && one.place === part.index);
  if (!item) {
    item = { kind: "call", place: part.index, id: part.id, name: part.function?.name ?? "", arguments: "", state: "called", began: at };
    node.items.push(item);
  }
  item.ended = at;
  item.arguments += part.function?.arguments ?? "";
}

function foldResponses(node, event, at) {
  switch (event.type) {
    case "response.output_item.added": return addItem(node, event.item, at);
    case "response.output_item.done": return endItem(node, event.item, at);
    case "response.output_text.delta":
    case "response.refusal.delta": return addText(node, event.item_id, event.delta);
    case "response.reasoning_text.delta":
    case "response.reasoning_summary_text.delta": node.reasoning += event.delta; return undefined;
    case "response.web_search_call.in_progress":
    case "response.code_interpreter_call_code.done":
    case "response.mcp_call_arguments.done": return runs(node, event.item_id, at);
    case "response.code_interpreter_call_code.delta":
    case "response.mcp_call_arguments.delta":
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

// The server runs the call from now on.
function runs(node, key, at) {
  const item = node.items.find((one) => one.key === key);
  if (item) Object.assign(item, { state: "running", began: at });
}

function addItem(node, item, at) {
  if (item.type === "message") node.items.push({ kind: "text", key: item.id, text: "", phase: item.phase });
  else if (item.type === "function_call") node.items.push({ kind: "call", key: item.id, id: item.call_id, name: item.name, arguments: item.arguments ?? "", state: "called", began: at });
  else if (item.type !== "reasoning") node.items.push({ kind: "server", key: item.id, type: item.type, name: nameOf(item), arguments: detail(item), state: "called", began: at });
}

function endItem(node, item, at) {
  const known = node.items.find((one) => one.key === item.id);
  if (known?.kind === "call") Object.assign(known, { arguments: item.arguments ?? known.arguments, ended: at });
  if (known?.kind === "server") Object.assign(known, { state: item.status ?? "completed", arguments: detail(item), result: resultOf(item), code: item.error?.code, ended: at });
}

const nameOf = (item) => (item.server_label ? `${item.server_label}.${item.name ?? item.type}` : item.name ?? item.type);

// What a call of the server says: its arguments, what it looks for, its code.
function detail(item) {
  if (typeof item.arguments === "string") return item.arguments;
  if (typeof item.code === "string") return item.code;
  const { sources, ...action } = item.action ?? {};
  return item.action ? JSON.stringify(action) : "";
}

function resultOf(item) {
  if (item.error) return item.error.content ?? item.error.message ?? String(item.error);
  if (item.outputs) return item.outputs.map((one) => one.logs ?? "").join("\n");
  if (item.action?.sources) return item.action.sources.map((one) => one.url).join("\n");
  return item.output ?? undefined;
}

function endResponse(node, response) {
  node.ended = true;
  node.responseId = response.id;
  node.output = givenBack(response.output ?? []);
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

// The items of an answer as the next request gives them back: what was thought stays encrypted.
function givenBack(output) {
  return output.map((item) => {
    if (item.type === "reasoning") return { ...item, summary: [], content: [] };
    if (item.type !== "message") return item;
    return { ...item, content: item.content.map(({ logprobs, ...part }) => part) };
  });
}
