// The conversations and the turn that runs: what the view of the chat shows and its buttons do.
import { records } from "./api.js";
import { Answering, deleted } from "./answering.js";
import { newId } from "./ui.js";
import { isImage } from "./images.js";
import * as store from "./store.js";
import { DEFAULTS, continuationOf, requestOf } from "./requests.js";
import { answerNode, calls, over } from "./turn.js";

const UNREADABLE = "invalid_encrypted_content";

// Begins with the text of an answer that is gone on with.
function goesOn(node, former) {
  const items = former.items.map((item) => ({ ...item, key: "text" }));
  Object.assign(node, { items, continues: { id: former.id, role: "assistant", items: former.items } });
}

// Drops what only the server that wrote it can read; false where there is nothing of it.
function forgotten(path) {
  const all = path.filter((node) => node.output);
  for (const node of all) delete node.output;
  return all.length > 0;
}

export class Chat {
  constructor(changed) {
    this.changed = changed;
    this.conversations = [];
    this.current = this.fresh();
    this.runs = new Map();
    this.removed = new WeakSet();
    this.debug = false;
    this.listed = []; // The tools that run at the server.
  }

  // What reads an answer of that conversation now.
  running(conversation = this.current) {
    return this.runs.get(conversation.id);
  }

  fresh(settings = DEFAULTS) {
    return { id: newId(), title: "", changed: Date.now(), settings: { ...settings }, nodes: {}, leaf: null };
  }

  async load() {
    this.conversations = await store.load();
    const running = await store.loadRunning();
    for (const { id, conversation, node } of running) {
      const known = this.conversations.find((one) => one.id === conversation);
      if (known?.nodes[id] && (!over(known.nodes[id]) || known.nodes[id].status === "elsewhere")) known.nodes[id] = node;
    }
    for (const one of this.conversations) {
      one.settings = { ...DEFAULTS, ...one.settings };
      for (const node of Object.values(one.nodes)) node.version = 0;
    }
    if (this.conversations.length && this.current.leaf === null) this.current = this.conversations[0];
    this.changed();
    this.left = running;
  }

  // Goes on reading the answers that a page which was closed, or loaded again, left unread.
  async goOn() {
    const left = this.left ?? [];
    this.left = [];
    for (const { id, conversation, node: stored } of left) {
      const known = this.conversations.find((one) => one.id === conversation);
      const node = known?.nodes[id];
      if (node && !over(node) && node.resumable && node.responseId) this.resume(known, node);
      else store.alone(id, () => this.dropped(id, stored)).catch(() => {});
    }
    for (const one of this.conversations) {
      for (const node of Object.values(one.nodes)) {
        if (node.role === "assistant" && !over(node) && this.running(one)?.node !== node) this.interrupted(one, node);
      }
    }
  }

  // Nothing more is read of it; what the server stores of it is deleted.
  async dropped(id, node) {
    if (node.resumable && node.responseId) await deleted(node.responseId);
    await store.removeRunning(id);
  }

  interrupted(conversation, node) {
    node.status = "interrupted";
    node.version += 1;
    this.keep(conversation);
  }

  async resume(conversation, node) {
    const answering = new Answering(conversation, node, { changed: () => this.changed() });
    node.status = "resuming";
    this.runs.set(conversation.id, answering);
    if (await answering.goOn()) return this.finished(answering);
    this.ended(answering);
    node.status = "elsewhere";
    node.version += 1;
    return this.changed();
  }

  // The nodes from the first to the one that is shown last.
  path(leaf = this.current.leaf) {
    const nodes = [];
    for (let node = this.current.nodes[leaf]; node; node = this.current.nodes[node.parent]) nodes.push(node);
    return nodes.reverse();
  }

  siblings(node) {
    return Object.values(this.current.nodes).filter((other) => other.parent === node.parent);
  }

  // How many answers, or questions, each node of the conversation has below it.
  versions() {
    const counts = new Map();
    for (const { parent } of Object.values(this.current.nodes)) counts.set(parent, (counts.get(parent) ?? 0) + 1);
    return counts;
  }

  // Shows hidden channels from the next answer on; what was received of them is forgotten when it is switched off.
  reveal(on) {
    this.debug = on;
    if (!on) records.length = 0;
    for (const one of [this.current, ...this.conversations]) {
      for (const node of Object.values(one.nodes)) {
        if (!on) Object.assign(node, { reasoning: "", sampled: [] });
        node.version += 1;
      }
    }
  }

  select(node) {
    let leaf = node;
    for (;;) {
      const below = Object.values(this.current.nodes).filter((other) => other.parent === leaf.id);
      if (!below.length) break;
      leaf = below.at(-1);
    }
    this.current.leaf = leaf.id;
    this.keep();
  }

  open(conversation) {
    this.current = conversation;
    this.changed();
  }

  create() {
    this.open(this.fresh(this.current.settings));
  }

  async remove(conversation) {
    this.removed.add(conversation);
    this.stop(conversation);
    this.conversations = this.conversations.filter((one) => one.id !== conversation.id);
    if (this.current.id === conversation.id) this.current = this.conversations[0] ?? this.fresh(conversation.settings);
    this.changed();
    await store.remove(conversation.id);
  }

  set(fields) {
    Object.assign(this.current.settings, fields);
    this.keep();
  }

  async keep(conversation = this.current) {
    this.changed();
    if (conversation.leaf === null) return;
    conversation.changed = Date.now();
    if (!this.conversations.includes(conversation)) this.conversations.unshift(conversation);
    await store.save(conversation);
  }

  say(text, images = [], parent = this.current.leaf) {
    const node = { id: newId(), parent, role: "user", text, ...(images.length && { images }), version: 0 };
    this.current.nodes[node.id] = node;
    this.current.title ||= text.trim().slice(0, 60);
    return this.answer(node.id);
  }

  again(node) {
    return this.answer(node.parent);
  }

  give(node, item, result, state = "completed") {
    Object.assign(item, { result, state });
    node.version += 1;
    this.keep();
    if (calls(node).every((one) => one.result !== undefined)) this.answer(node.id);
  }

  // A new answer below the node `parent`; with `continues`, one that begins with what that answer has.
  async answer(parent, continues = null) {
    this.stop();
    const conversation = this.current;
    const { settings } = conversation;
    const node = answerNode(parent, continues && settings.api === "responses" ? "chat" : settings.api);
    node.settings = { ...settings, api: node.api };
    if (continues) goesOn(node, continues);
    const answering = new Answering(conversation, node, { debug: this.debug, changed: () => this.changed() });
    const before = this.path(parent);
    conversation.nodes[node.id] = node;
    conversation.leaf = node.id;
    this.runs.set(conversation.id, answering);
    const options = { debug: this.debug, listed: this.listed };
    const [path, body] = continues ? continuationOf(settings, [...before, continues], options) : requestOf(settings, before, options);
    if (body.explain_prefix) body.prompt_cache_key = conversation.id; // Compared within this conversation.
    await this.keep();
    await answering.begin(path, body);
    if (node.error?.code === UNREADABLE && forgotten(before)) { // Another server wrote it.
      delete conversation.nodes[node.id];
      this.ended(answering);
      return this.answer(parent, continues);
    }
    return this.finished(answering);
  }

  // Goes on with an answer that was stopped or cut, as another version of it.
  goOnWith(node) {
    return this.answer(node.parent, node);
  }

  // The answer is stored here before the server forgets it.
  async finished(answering) {
    this.ended(answering);
    answering.node.version += 1;
    if (!this.removed.has(answering.conversation)) await this.keep(answering.conversation);
    await answering.settle().catch(() => {}); // What is left of it is deleted when the page is opened again.
  }

  ended(answering) {
    if (this.running(answering.conversation) === answering) this.runs.delete(answering.conversation.id);
  }

  stop(conversation = this.current) {
    const answering = this.running(conversation);
    if (!answering) return;
    this.ended(answering);
    answering.stop();
    this.changed();
  }

  exported() {
    return JSON.stringify({ kind: "antiphon-conversations", version: 1, conversations: this.conversations.map(store.portable) }, null, 1);
  }

  // How many conversations of a file were taken. Raises for what is no export.
  async taken(text) {
    const file = JSON.parse(text);
    if (file?.kind !== "antiphon-conversations" || !Array.isArray(file.conversations)) throw new SyntaxError("no conversations");
    const read = file.conversations.map(checked);
    for (const one of read) {
      this.conversations.unshift(one);
      await store.save(one);
    }
    this.changed();
    return read.length;
  }
}

// A conversation of a file under a new id, with no more than its known parts; nothing in it is believed to be well formed.
function checked(given) {
  const nodes = {};
  const names = new Map();
  for (const [former, node] of Object.entries(given.nodes ?? {})) {
    const id = newId();
    const plain = { id, parent: names.get(node.parent) ?? null, version: 0 };
    names.set(former, id);
    if (node.role === "user") nodes[id] = { ...plain, role: "user", text: String(node.text ?? ""), images: (node.images ?? []).filter(isImage) };
    else nodes[id] = { ...answerNode(plain.parent, String(node.api)), ...plain, role: "assistant", status: "done", items: (node.items ?? []).map(itemOf) };
  }
  const leaf = names.get(given.leaf) ?? [...names.values()].at(-1) ?? null;
  const settings = Object.fromEntries(Object.entries(DEFAULTS).map(([name, usual]) => [name, String(given.settings?.[name] ?? usual)]));
  return { id: newId(), title: String(given.title ?? "").slice(0, 60), changed: Number(given.changed) || Date.now(), settings, nodes, leaf, leftOut: (given.leftOut ?? []).slice(0, 50).map(String) };
}

function itemOf(item) {
  const text = (value) => (value === undefined ? undefined : String(value));
  if (item.kind === "text") return { kind: "text", key: text(item.key), text: String(item.text ?? ""), phase: text(item.phase) };
  const kind = item.kind === "server" ? "server" : "call";
  return { kind, key: text(item.key), id: text(item.id), name: String(item.name ?? ""), arguments: String(item.arguments ?? ""), state: String(item.state ?? ""), result: text(item.result) };
}
