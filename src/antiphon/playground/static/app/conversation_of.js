// A chat request as an export of conversations, which the chat takes as it takes a file.
const textOf = (content) => (typeof content === "string" ? content : Array.isArray(content) ? content.map((part) => part?.text ?? "").join("") : "");

export function conversationOf(chatJson) {
  const { messages = [], tools = [] } = JSON.parse(chatJson);
  const nodes = {};
  const instructions = [];
  let parent = null;
  const add = (node) => { nodes[`n${Object.keys(nodes).length}`] = { ...node, parent }; parent = `n${Object.keys(nodes).length - 1}`; };
  const answer = () => nodes[parent]?.role === "assistant" && nodes[parent].items.every((item) => item.kind === "text") ? nodes[parent] : (add({ role: "assistant", api: "responses", items: [] }), nodes[parent]);
  for (const one of messages) {
    if (one.role === "system" || one.role === "developer") instructions.push(textOf(one.content));
    else if (one.role === "user") add({ role: "user", text: textOf(one.content) });
    else if (one.role === "tool") give(nodes, one);
    else say(answer(), one);
  }
  const title = Object.values(nodes).find((node) => node.role === "user")?.text ?? "";
  const functions = tools.map((tool) => tool.function ?? tool);
  const settings = { instructions: instructions.join("\n\n"), ...(functions.length && { tools: JSON.stringify(functions, null, 1) }) };
  return JSON.stringify({ kind: "antiphon-conversations", version: 1, conversations: [{ title, nodes, leaf: parent, settings }] });
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
