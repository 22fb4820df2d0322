// A chat request as an export of conversations, which the chat takes as it takes a file. What a conversation here has no
// place for is listed in it.
import { isImage } from "./images.js";
import { SAMPLERS } from "./requests.js";

const textOf = (content) => (typeof content === "string" ? content : Array.isArray(content) ? content.map((part) => part?.text ?? "").join("") : "");

const imageOf = (part) => (part?.type === "image_url" && isImage(part.image_url?.url) ? part.image_url.url : null);
const imagesOf = (content) => (Array.isArray(content) ? content.map(imageOf).filter(Boolean) : []);

const SETTINGS = {
  ...Object.fromEntries(Object.entries(SAMPLERS).map(([name, field]) => [field, name])),
  model: "model", stop: "stop", logit_bias: "bias", max_tokens: "most", max_completion_tokens: "most", reasoning_effort: "effort",
};
const asSetting = (value) => ([value].flat().every((one) => typeof one !== "object") ? [value].flat().map((one) => String(one).replaceAll("\n", "\\n")).join("\n") : JSON.stringify(value));
const KNOWN = ["role", "content", "tool_calls", "tool_call_id"];

// The places of what is left out, or put elsewhere.
function leftOutOf(messages, rest) {
  const said = messages.findIndex((one) => one.role === "user" || one.role === "assistant");
  const of = (one, at) => [
    ...Object.keys(one).filter((name) => !KNOWN.includes(name)).map((name) => `messages[${at}].${name}`),
    ...(Array.isArray(one.content) ? one.content : []).flatMap((part, place) => (typeof part?.text === "string" || (one.role === "user" && imageOf(part)) ? [] : [`messages[${at}].content[${place}]`])),
    ...(["system", "developer"].includes(one.role) && said >= 0 && at > said ? [`messages[${at}].role`] : []),
  ];
  return [...messages.flatMap(of), ...Object.keys(rest).filter((name) => !(name in SETTINGS))];
}

// `losses` is what the conversion to a chat request has left out already.
export function conversationOf(chatJson, losses = []) {
  const { messages = [], tools = [], ...rest } = JSON.parse(chatJson);
  const nodes = {};
  const instructions = [];
  let parent = null;
  const add = (node) => { nodes[`n${Object.keys(nodes).length}`] = { ...node, parent }; parent = `n${Object.keys(nodes).length - 1}`; };
  const answer = () => nodes[parent]?.role === "assistant" && nodes[parent].items.every((item) => item.kind === "text") ? nodes[parent] : (add({ role: "assistant", api: "responses", items: [] }), nodes[parent]);
  for (const one of messages) {
    if (one.role === "system" || one.role === "developer") instructions.push(textOf(one.content));
    else if (one.role === "user") add({ role: "user", text: textOf(one.content), images: imagesOf(one.content) });
    else if (one.role === "tool") give(nodes, one);
    else say(answer(), one);
  }
  const title = Object.values(nodes).find((node) => node.role === "user")?.text ?? "";
  const functions = tools.map((tool) => tool.function ?? tool);
  const given = Object.entries(rest).filter(([name, value]) => name in SETTINGS && value !== null).map(([name, value]) => [SETTINGS[name], asSetting(value)]);
  const settings = { ...Object.fromEntries(given), instructions: instructions.join("\n\n"), ...(functions.length && { tools: JSON.stringify(functions, null, 1) }) };
  return JSON.stringify({ kind: "antiphon-conversations", version: 1, conversations: [{ title, nodes, leaf: parent, settings, leftOut: [...losses.filter((one) => one.kind === "semantic").map((one) => one.path), ...leftOutOf(messages, rest)] }] });
}

function say(node, message) {
  const text = textOf(message.content);
  if (text) node.items.push({ kind: "text", key: `t${node.items.length}`, text });
  for (const call of message.tool_calls ?? []) node.items.push({ kind: "call", id: call.id, name: call.function?.name, arguments: call.function?.arguments, state: "called" });
}

function give(nodes, message) {
  for (const node of Object.values(nodes)) {
    const item = node.items?.find((one) => one.kind === "call" && one.id === message.tool_call_id && one.result === undefined);
    if (item) return Object.assign(item, { result: textOf(message.content), state: "completed" });
  }
  return undefined;
}
