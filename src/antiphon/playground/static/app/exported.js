// Conversations as a file, and those of a file.
import { isImage } from "./images.js";
import { DEFAULTS } from "./requests.js";
import { portable } from "./store.js";
import { answerNode } from "./turn.js";
import { newId } from "./ui.js";

const KIND = "antiphon-conversations";

// `all` are pairs of a conversation and its messages.
export function fileOf(all) {
  return JSON.stringify({ kind: KIND, version: 1, conversations: all.map(([one, nodes]) => portable(one, nodes)) }, null, 1);
}

// The conversations of a file. Raises for what is no export.
export function conversationsIn(text) {
  const file = JSON.parse(text);
  if (file?.kind !== KIND || !Array.isArray(file.conversations)) throw new SyntaxError("no conversations");
  return file.conversations.map(checked);
}

// A conversation of a file under a new id, with no more than its known parts; nothing in it is believed to be well formed.
function checked(given) {
  const nodes = {};
  const names = new Map();
  for (const [former, node] of Object.entries(given.nodes ?? {})) {
    const id = newId();
    const plain = { id, parent: names.get(node.parent) ?? null, at: names.size, version: 0 };
    names.set(former, id);
    if (node.role === "user") nodes[id] = { ...plain, role: "user", text: String(node.text ?? ""), images: (node.images ?? []).filter(isImage) };
    else nodes[id] = { ...answerNode(plain.parent, String(node.api)), ...plain, role: "assistant", status: "done", items: (node.items ?? []).map(itemOf) };
  }
  const leaf = names.get(given.leaf) ?? [...names.values()].at(-1) ?? null;
  const settings = Object.fromEntries(Object.entries(DEFAULTS).map(([name, usual]) => [name, String(given.settings?.[name] ?? usual)]));
  return { id: newId(), title: String(given.title ?? "").slice(0, 200), changed: Number(given.changed) || Date.now(), settings, nodes, leaf, leftOut: (given.leftOut ?? []).slice(0, 50).map(String) };
}

function itemOf(item) {
  const text = (value) => (value === undefined ? undefined : String(value));
  if (item.kind === "text") return { kind: "text", key: text(item.key), text: String(item.text ?? ""), phase: text(item.phase) };
  const kind = item.kind === "server" ? "server" : "call";
  return { kind, key: text(item.key), id: text(item.id), name: String(item.name ?? ""), arguments: String(item.arguments ?? ""), state: String(item.state ?? ""), result: text(item.result) };
}
