// The conversations and the turn that runs: what the view of the chat shows and its buttons do.
import { call, records, ApiError } from "./api.js";
import { newId } from "./ui.js";
import * as store from "./store.js";
import { DEFAULTS, answerNode, calls, fold, requestOf } from "./turn.js";

export class Chat {
  constructor(changed) {
    this.changed = changed;
    this.conversations = [];
    this.current = this.fresh();
    this.running = null;
    this.debug = false;
    this.notice = null;
  }

  fresh(settings = DEFAULTS) {
    return { id: newId(), title: "", changed: Date.now(), settings: { ...settings }, nodes: {}, leaf: null };
  }

  async load() {
    this.conversations = await store.load();
    for (const one of this.conversations) for (const node of Object.values(one.nodes)) mend(node);
    if (this.conversations.length && this.current.leaf === null) this.current = this.conversations[0];
    this.changed();
  }

  // The nodes from the first to the one that is shown last.
  path(leaf = this.current.leaf) {
    const nodes = [];
    for (let node = this.current.nodes[leaf]; node; node = this.current.nodes[node.parent]) nodes.unshift(node);
    return nodes;
  }

  siblings(node) {
    return Object.values(this.current.nodes).filter((other) => other.parent === node.parent);
  }

  // Shows hidden channels from the next answer on; what was received of them is forgotten when it is switched off.
  reveal(on) {
    this.debug = on;
    if (!on) records.length = 0;
    for (const one of [this.current, ...this.conversations]) {
      for (const node of Object.values(one.nodes)) {
        if (!on) node.reasoning = "";
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
    this.stop();
    this.current = conversation;
    this.changed();
  }

  create() {
    this.open(this.fresh(this.current.settings));
  }

  async remove(conversation) {
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

  say(text, parent = this.current.leaf) {
    const node = { id: newId(), parent, role: "user", text, version: 0 };
    this.current.nodes[node.id] = node;
    this.current.title ||= text.trim().slice(0, 60);
    return this.answer(node.id);
  }

  again(node) {
    return this.answer(node.parent);
  }

  give(node, item, result) {
    Object.assign(item, { result, state: "completed" });
    node.version += 1;
    this.keep();
    if (calls(node).every((one) => one.result !== undefined)) this.answer(node.id);
  }

  // A new answer below the node `parent`.
  async answer(parent) {
    this.stop();
    const conversation = this.current;
    const node = answerNode(parent, conversation.settings.api);
    const running = { abort: new AbortController(), node };
    conversation.nodes[node.id] = node;
    conversation.leaf = node.id;
    this.running = running;
    this.keep();
    try {
      const [path, body] = requestOf(conversation.settings, this.path(parent));
      if (body.explain_prefix) body.prompt_cache_key = conversation.id; // Compared within this conversation.
      await this.stream(path, body, node, running.abort.signal);
      if (node.status !== "failed") node.status = "done";
    } catch (error) {
      this.end(node, error);
    }
    if (this.running === running) this.running = null;
    node.version += 1;
    this.keep(conversation);
  }

  async stream(path, body, node, signal) {
    let events = 0;
    const record = await call(path, {
      body, signal, debug: this.debug,
      onEvent: (event, at) => {
        events += 1;
        node.events = events;
        node.status = node.status === "failed" ? "failed" : "streaming";
        fold(node, event, at);
        node.version += 1;
        this.changed();
      },
    });
    node.requestId = record.answered?.["x-request-id"] ?? "";
    node.timing = record.answered?.["server-timing"] ?? "";
    node.times.end = record.end;
    if (!record.events) throw new ApiError({ kind: "refused", code: "", message: "no stream" });
  }

  end(node, error) {
    if (error.name === "AbortError") {
      node.status = "stopped";
      return;
    }
    node.status = "failed";
    const known = error instanceof ApiError ? { ...error, message: error.message } : { kind: "refused", code: "", message: String(error.message) };
    node.error = { ...known, until: known.retryAfter ? Date.now() + known.retryAfter * 1000 : 0 };
  }

  stop() {
    this.running?.abort.abort();
    this.running = null;
  }

  exported() {
    return JSON.stringify({ kind: "antiphon-conversations", version: 1, conversations: this.conversations.map(store.bare) }, null, 1);
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

function mend(node) {
  node.version = 0;
  if (node.role === "assistant" && ["waiting", "streaming"].includes(node.status)) node.status = "interrupted";
}

// A conversation of a file under a new id, with no more than its known parts; nothing in it is believed to be well formed.
function checked(given) {
  const nodes = {};
  const names = new Map();
  for (const [former, node] of Object.entries(given.nodes ?? {})) {
    const id = newId();
    const plain = { id, parent: names.get(node.parent) ?? null, version: 0 };
    names.set(former, id);
    if (node.role === "user") nodes[id] = { ...plain, role: "user", text: String(node.text ?? "") };
    else nodes[id] = { ...answerNode(plain.parent, String(node.api)), ...plain, role: "assistant", status: "done", items: (node.items ?? []).map(itemOf) };
  }
  const leaf = names.get(given.leaf) ?? [...names.values()].at(-1) ?? null;
  const settings = Object.fromEntries(Object.entries(DEFAULTS).map(([name, usual]) => [name, String(given.settings?.[name] ?? usual)]));
  return { id: newId(), title: String(given.title ?? "").slice(0, 60), changed: Number(given.changed) || Date.now(), settings, nodes, leaf };
}

function itemOf(item) {
  const text = (value) => (value === undefined ? undefined : String(value));
  if (item.kind === "text") return { kind: "text", key: text(item.key), text: String(item.text ?? ""), phase: text(item.phase) };
  const kind = item.kind === "server" ? "server" : "call";
  return { kind, key: text(item.key), id: text(item.id), name: String(item.name ?? ""), arguments: String(item.arguments ?? ""), state: String(item.state ?? ""), result: text(item.result) };
}
