// A request of each API from a conversation and its settings.
import { calls, isJson, textOf } from "./turn.js";

export const DEFAULTS = {
  api: "responses", model: "", instructions: "", effort: "", temperature: "", topP: "", topK: "", minP: "",
  repetition: "", presence: "", frequency: "", stop: "", bias: "", most: "", seed: "", tools: "", serverTools: "",
  schema: "", strict: "yes", survive: "yes", probabilities: "",
};
// What each API has no field for.
const WITHOUT = { chat: ["survive"], completions: ["effort", "instructions", "tools", "serverTools", "schema", "strict", "survive", "probabilities"], responses: ["bias"] };
export const hasSetting = (api, name) => !WITHOUT[api].includes(name);

// A schema is `compact`, so that an answer is written as the Schema view follows one.
const TOP = 5; // Of each token, so many others that were likely.

// Each sampler of the settings, and its field in the requests of every API.
export const SAMPLERS = {
  temperature: "temperature", topP: "top_p", topK: "top_k", minP: "min_p", repetition: "repetition_penalty", presence: "presence_penalty",
  frequency: "frequency_penalty", seed: "seed",
};

function sampling(settings) {
  const stop = (settings.stop ?? "").split("\n").filter(Boolean).map((one) => one.replaceAll("\\n", "\n"));
  const bias = hasSetting(settings.api, "bias") ? parsed(settings.bias ?? "") : undefined;
  const numbers = Object.entries(SAMPLERS).map(([name, field]) => [field, number(settings[name])]);
  return { ...Object.fromEntries(numbers), ...(stop.length && { stop }), ...(bias && { logit_bias: bias }) };
}

const parsed = (text) => (text.trim() ? JSON.parse(text) : undefined);
const number = (text) => (String(text ?? "").trim() === "" ? undefined : Number(text));
const present = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== ""));

export function functionsOf(text) {
  return toolsOf(text).filter(isFunction).map((tool) => tool.function ?? tool);
}

function toolsOf(text) {
  const listed = parsed(text) ?? [];
  if (!Array.isArray(listed)) throw new SyntaxError("not a list");
  return listed;
}

const isFunction = (tool) => (tool.type ?? "function") === "function";

// The tools of the server that the settings choose, of those that it lists.
export function chosenTools(settings, listed) {
  const names = settings.serverTools.split("\n");
  return listed.filter((tool) => names.includes(tool.name) && (settings.api !== "responses" || tool.responses));
}

const wholeCalls = (node) => calls(node).filter((item) => isJson(item.arguments || "{}")); // A stop may leave half of one.

// The path and body of the request that goes on from `path`, a list of nodes from the first to the last. With `debug`
// it asks for what hidden channels say, and so for nothing that the server would store. `listed` are the server's tools.
export function requestOf(settings, path, { debug = false, listed = [] } = {}) {
  const common = present({ model: settings.model, ...sampling(settings) });
  const ids = settings.probabilities && debug ? { return_token_ids: true } : {};
  const own = chosenTools(settings, listed);
  if (settings.api === "responses") return ["/v1/responses", { ...responsesBody(settings, path, common, Boolean(settings.survive) && !debug, own), ...ids }];
  if (settings.api === "chat") return ["/v1/chat/completions", { ...chatBody(settings, path, common, own), ...ids }];
  return ["/v1/completions", completionsBody(settings, textOf(path.at(-1)), common)];
}

// The request that goes on with the last answer of `path`, from where it ended. Responses cannot; chat completions can.
export function continuationOf(settings, path, { debug = false, listed = [] } = {}) {
  if (settings.api !== "completions") {
    const [to, body] = requestOf({ ...settings, api: "chat" }, path, { debug, listed });
    return [to, { ...body, continue_final_message: true, add_generation_prompt: false }];
  }
  const [to, body] = requestOf(settings, path.slice(0, -1));
  return [to, { ...body, prompt: body.prompt + textOf(path.at(-1)) }];
}

const COUNTED = { include_usage: true, continuous_usage_stats: true };

function completionsBody(settings, prompt, common) {
  return { ...common, prompt, ...present({ max_tokens: number(settings.most) }), stream: true, stream_options: COUNTED };
}

function responsesBody(settings, path, common, survive, own) {
  const functions = toolsOf(settings.tools).map((tool) => (isFunction(tool) ? responsesFunction(tool.function ?? tool) : tool));
  const tools = [...functions, ...own.map((tool) => tool.responses)];
  const include = [
    ...(settings.probabilities ? ["message.output_text.logprobs"] : []),
    ...(tools.length ? ["reasoning.encrypted_content"] : []), // So that the model goes on from what it thought, which is not shown.
    ...(own.length ? ["web_search_call.action.sources", "code_interpreter_call.outputs"] : []),
  ];
  const schema = parsed(settings.schema);
  return {
    ...common,
    ...present({ instructions: settings.instructions, max_output_tokens: number(settings.most) }),
    ...(settings.effort && { reasoning: { effort: settings.effort } }),
    ...(tools.length && { tools }),
    ...(schema && { text: { format: { type: "json_schema", name: "answer", schema, strict: settings.strict !== "", compact: true } } }),
    ...(settings.probabilities && { top_logprobs: TOP }),
    ...(include.length && { include }),
    input: path.flatMap(inputItems), explain_prefix: true, ...(survive ? { background: true, store: true } : { store: false }), stream: true,
  };
}

function responsesFunction({ name, description, parameters, strict }) {
  return { type: "function", ...present({ name, description, parameters, strict }) };
}

// A question's text, or its images and then its text.
function contentOf({ text, images }, part, type) {
  return images?.length ? [...images.map(part), ...(text ? [{ type, text }] : [])] : text;
}

function inputItems(node) {
  if (node.role === "user") return [{ role: "user", content: contentOf(node, (url) => ({ type: "input_image", image_url: url }), "input_text") }];
  if (node.output) return [...node.output, ...wholeCalls(node).map(outputItem)];
  const said = node.items.flatMap((item) => {
    if (item.kind === "text") return item.text ? [{ role: "assistant", content: item.text }] : [];
    return wholeCalls(node).includes(item) ? [{ type: "function_call", call_id: item.id, name: item.name, arguments: item.arguments || "{}" }] : [];
  });
  return [...said, ...wholeCalls(node).map(outputItem)];
}

const outputItem = (item) => ({ type: "function_call_output", call_id: item.id, output: item.result ?? "" });

function chatBody(settings, path, common, own) {
  const tools = toolsOf(settings.tools).map((one) => (isFunction(one) ? { type: "function", function: one.function ?? one } : one));
  const schema = parsed(settings.schema);
  return {
    ...common,
    ...present({ max_completion_tokens: number(settings.most), reasoning_effort: settings.effort }),
    ...(tools.length && { tools }),
    ...(own.length && { server_tools: own.map((tool) => tool.name) }),
    ...(schema && { response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: settings.strict !== "" }, compact: true } }),
    ...(settings.probabilities && { logprobs: true, top_logprobs: TOP }),
    messages: messagesOf(settings, path), explain_prefix: true, stream: true, stream_options: COUNTED,
  };
}

// Calls that ran at the server: messages of chat have no place for them.
export const serverCalls = (path) => path.reduce((sum, node) => sum + (node.items ?? []).filter((item) => item.kind === "server").length, 0);

export function messagesOf(settings, path) {
  const first = settings.instructions ? [{ role: "system", content: settings.instructions }] : [];
  return [...first, ...path.flatMap(chatMessages)];
}

function chatMessages(node) {
  if (node.role === "user") return [{ role: "user", content: contentOf(node, (url) => ({ type: "image_url", image_url: { url } }), "text") }];
  const called = wholeCalls(node);
  if (!called.length && !textOf(node)) return [];
  const asked = called.map((item) => ({ id: item.id, type: "function", function: { name: item.name, arguments: item.arguments || "{}" } }));
  const message = { role: "assistant", content: textOf(node), ...(asked.length && { tool_calls: asked }) };
  return [message, ...called.map((item) => ({ role: "tool", tool_call_id: item.id, content: item.result ?? "" }))];
}
