// The conversations of this browser: listed, opened, stored, deleted, and changed by other tabs.
import { Drafts } from "./drafts.js";
import { conversationsIn, fileOf } from "./exported.js";
import { keep, keptOf } from "./kept.js";
import { newId } from "./ui.js";
import * as store from "./store.js";
import { DEFAULTS } from "./requests.js";
import { over } from "./turn.js";

const UNDO = 10_000; // Milliseconds in which a deletion can be undone.
const NEW = "new"; // The draft of a conversation that has no message yet.

// A message as it is stored, with what only this page has of it.
export const drawn = (row, former) => ({ ...row, reasoning: former?.reasoning ?? "", sampled: former?.sampled, version: (former?.version ?? -1) + 1 });
const settingsOf = (given) => ({ ...DEFAULTS, ...given });

// What answers are being written is the matter of `Chat`, which has `stop` and `watch`.
export class Conversations {
  constructor(changed) {
    this.changed = changed;
    this.all = []; // By the time of their last change; those that were deleted a moment ago too.
    this.current = this.fresh(settingsOf(keptOf("settings", {})));
    this.drafts = new Drafts();
    this.gone = []; // Conversations whose deletion can be undone here.
    store.state.told = () => this.changed();
  }

  get conversations() {
    return this.all.filter((one) => !one.deleted);
  }

  fresh(settings = DEFAULTS) {
    return { id: newId(), title: "", changed: Date.now(), settings: { ...settings }, nodes: {}, leaf: null };
  }

  async loadAll() {
    const known = new Set(this.all.map((one) => one.id));
    const stored = (await store.heads()).filter((one) => !known.has(one.id));
    this.all.push(...stored.map((one) => ({ ...one, settings: settingsOf(one.settings) })));
    await this.drafts.load(NEW);
    const chosen = keptOf("open");
    const first = chosen === NEW ? null : this.conversations.find((one) => one.id === chosen) ?? this.conversations[0];
    if (first && this.current.leaf === null && !this.typed) await this.open(first);
    this.forgetLater(this.all.filter((one) => one.deleted));
  }

  // The messages of a conversation are read when it is opened first.
  async opened(conversation) {
    if (conversation.nodes) return;
    const rows = await store.nodesOf(conversation.id);
    conversation.nodes ??= Object.fromEntries(rows.map((one) => [one.id, drawn(one)]));
    for (const one of rows) if (one.role === "assistant" && !over(one)) this.watch(conversation.id, one.id);
  }

  async heardHead(id, row) {
    if (row === null) return;
    const known = this.all.find((one) => one.id === id);
    if (!known) {
      if (row) this.all.unshift({ ...row, settings: settingsOf(row.settings) });
      return;
    }
    const { leaf, settings, ...fields } = row ?? { deleted: known.deleted ?? Date.now() };
    const vanished = !known.deleted && fields.deleted;
    const returned = known.deleted && !fields.deleted;
    Object.assign(known, { deleted: undefined }, fields, row && { settings: settingsOf(settings) });
    if (row && this.isBehind(known, leaf)) known.leaf = leaf;
    if (vanished) await this.vanished(known);
    if (returned) {
      this.forgetLater(this.gone.filter((one) => one !== known));
      await this.returned(known);
    }
    if (!row) this.all = this.all.filter((one) => one !== known);
  }

  // Whether a message goes on from the one that is shown last: another version does not take its place.
  isBehind(conversation, leaf) {
    const { nodes } = conversation;
    if (!nodes || !nodes[conversation.leaf]) return true;
    let node = nodes[leaf];
    while (node && node.id !== conversation.leaf) node = nodes[node.parent];
    return Boolean(node);
  }

  // The nodes from the first to the one that is shown last.
  path(leaf = this.current.leaf) {
    const nodes = [];
    for (let node = this.current.nodes[leaf]; node; node = this.current.nodes[node.parent]) nodes.push(node);
    return nodes.reverse();
  }

  siblings(node) {
    return Object.values(this.current.nodes).filter((other) => other.parent === node.parent).sort((one, other) => one.at - other.at);
  }

  // How many answers, or questions, each node of the conversation has below it.
  versions() {
    const counts = new Map();
    for (const { parent } of Object.values(this.current.nodes)) counts.set(parent, (counts.get(parent) ?? 0) + 1);
    return counts;
  }

  // Shows that version, and below it what came last.
  select(node) {
    const below = new Map();
    for (const one of Object.values(this.current.nodes)) if (!(below.get(one.parent)?.at > one.at)) below.set(one.parent, one);
    let leaf = node;
    while (below.has(leaf.id)) leaf = below.get(leaf.id);
    this.current.leaf = leaf.id;
    return this.stored(this.current, { leaf: leaf.id });
  }

  // Opens a conversation, at a message where one is named.
  async open(conversation, message = null) {
    this.wanted = conversation;
    await Promise.all([this.opened(conversation), this.drafts.load(conversation.id)]);
    if (this.wanted === conversation) this.show(conversation, message); // Else another was wanted meanwhile.
  }

  show(conversation, message = null) {
    this.wanted = this.current = conversation;
    keep("open", this.all.includes(conversation) ? conversation.id : NEW);
    this.target = conversation.nodes[message]?.id;
    if (this.target && !this.path().includes(conversation.nodes[message])) this.select(conversation.nodes[message]);
    this.changed();
  }

  create(settings = this.current.settings) {
    keep("settings", settings);
    this.show(this.fresh(settings));
  }

  rename(conversation, title) {
    conversation.title = title;
    return this.stored(conversation, { title });
  }

  // Deletes conversations; for a while this can be undone.
  async remove(conversations) {
    const deletedAt = Date.now();
    this.forgetLater([...this.gone, ...conversations]);
    for (const one of conversations) one.deleted = deletedAt;
    const written = Promise.all(conversations.map((one) => store.change(one.id, { deleted: deletedAt })));
    for (const one of conversations) await this.vanished(one);
    this.changed();
    await written;
  }

  async vanished(conversation) {
    this.stop(conversation);
    if (this.current !== conversation) return;
    const next = this.conversations[0];
    await (next ? this.open(next) : this.create(conversation.settings));
    this.left = { conversation, next: this.current };
  }

  // Opens it again, where it was open and the reader went nowhere else.
  async returned(conversation) {
    if (this.left?.conversation === conversation && this.left.next === this.current) await this.open(conversation);
  }

  async undo() {
    const gone = this.gone;
    this.forgetLater([]);
    for (const one of gone) one.deleted = undefined;
    for (const one of gone) await this.returned(one);
    this.changed();
    await Promise.all(gone.map((one) => store.change(one.id, { deleted: undefined })));
  }

  // Their rows go when the time is up; `waits` stops the clock.
  forgetLater(gone, waits = false) {
    this.gone = gone;
    clearTimeout(this.clock);
    if (gone.length && !waits) this.clock = setTimeout(() => this.forget(), UNDO);
  }

  async forget() {
    const gone = this.gone;
    this.forgetLater([]);
    this.all = this.all.filter((one) => !one.deleted || !gone.includes(one));
    this.changed();
    await store.purge(gone.map((one) => one.id));
  }

  set(fields) {
    Object.assign(this.current.settings, fields);
    if (!this.all.includes(this.current)) keep("settings", this.current.settings);
    return this.stored(this.current, { settings: fields });
  }

  get draft() {
    return this.drafts.of(this.draftId);
  }

  get draftId() {
    return this.all.includes(this.current) ? this.current.id : NEW;
  }

  write(fields) {
    this.typed = true;
    return this.drafts.write(this.draftId, fields);
  }

  // Stores fields and messages of a conversation; from its first message on it is listed.
  async stored(conversation, fields, nodes = []) {
    const known = this.all.includes(conversation);
    for (const one of nodes) one.version += 1;
    if (!known && conversation.leaf !== null) {
      this.all.unshift(conversation);
      if (conversation === this.current) keep("open", conversation.id);
    }
    this.changed();
    if (known) await store.change(conversation.id, fields, nodes);
    else if (conversation.leaf !== null) await store.add(conversation, Object.values(conversation.nodes));
  }

  // The messages of a conversation in their order, wherever they are.
  async rowsOf({ id, nodes }) {
    return nodes ? Object.values(nodes).sort((one, other) => one.at - other.at) : store.nodesOf(id);
  }

  async exported() {
    const all = [];
    for (const one of this.conversations) all.push([one, await this.rowsOf(one)]);
    return fileOf(all);
  }

  // Takes the conversations of a file, opens the first, and gives how many they are. Raises for what is no export.
  async taken(text) {
    const read = conversationsIn(text);
    this.all.unshift(...read);
    for (const one of read) await store.add(one, Object.values(one.nodes));
    if (read.length) await this.open(read[0]);
    return read.length;
  }
}
