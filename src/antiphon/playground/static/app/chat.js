// The conversations and the turns that run: what the view of the chat shows and its buttons do.
import { records } from "./api.js";
import { Answering, deleted } from "./answering.js";
import { Drafts } from "./drafts.js";
import { conversationsIn, fileOf } from "./exported.js";
import { keep, keptOf } from "./kept.js";
import { newId } from "./ui.js";
import * as store from "./store.js";
import { DEFAULTS, continuationOf, requestOf } from "./requests.js";
import { answerNode, calls, over } from "./turn.js";

const UNREADABLE = "invalid_encrypted_content";
const UNDO = 10_000; // Milliseconds in which a deletion can be undone.
const NEW = "new"; // The draft of a conversation that has no message yet.

// Begins with the text of an answer that is gone on with.
function goesOn(node, former) {
  const items = former.items.map((item) => ({ ...item, key: "text" }));
  Object.assign(node, { items, continues: { id: former.id, role: "assistant", items: former.items } });
}

// A message as it is stored, with what only this page has of it.
const drawn = (row, former) => ({ ...row, reasoning: former?.reasoning ?? "", sampled: former?.sampled, version: (former?.version ?? -1) + 1 });
const settingsOf = (given) => ({ ...DEFAULTS, ...given });

export class Chat {
  constructor(changed) {
    this.changed = changed;
    this.all = []; // Conversations by the time of their last change; those that were deleted a moment ago too.
    this.current = this.fresh(settingsOf(keptOf("settings", {})));
    this.runs = new Map();
    this.watched = new Map(); // Answers that another tab reads, and their conversations.
    this.drafts = new Drafts();
    this.gone = []; // Conversations whose deletion can be undone here.
    this.debug = false;
    this.listed = []; // The tools that run at the server.
    this.ready = new Promise((resolve) => { this.begin = resolve; });
    store.state.told = () => this.changed();
  }

  get conversations() {
    return this.all.filter((one) => !one.deleted);
  }

  // What reads an answer of that conversation in this tab.
  running(conversation = this.current) {
    return this.runs.get(conversation.id);
  }

  // Whether one of its answers is being written, in whichever tab.
  busy(conversation) {
    return this.runs.has(conversation.id) || [...this.watched.values()].includes(conversation.id);
  }

  // The answer that is shown last, while it is being written, in whichever tab.
  get growing() {
    const last = this.current.nodes[this.current.leaf];
    return this.running()?.node ?? (last?.role === "assistant" && !over(last) ? last : null);
  }

  fresh(settings = DEFAULTS) {
    return { id: newId(), title: "", changed: Date.now(), settings: { ...settings }, nodes: {}, leaf: null };
  }

  async load() {
    const loaded = this.loadAll();
    store.listen(async (message) => { await loaded; await this.heard(message); });
    await loaded;
    this.changed();
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

  // What another tab wrote, deleted or asks for.
  async heard({ heads = [], nodes = [], drafts = [], stop }) {
    const known = (id) => this.all.find((one) => one.id === id);
    for (const id of heads.filter((one) => !known(one))) await this.heardHead(id, await store.head(id));
    for (const [conversation, id] of nodes) await this.heardNode(known(conversation), id);
    for (const id of heads) await this.heardHead(id, await store.head(id));
    for (const id of drafts) await this.drafts.load(id);
    for (const run of [...this.runs.values()]) if (run.node.id === stop) this.stop(run.conversation);
    this.changed();
  }

  async heardNode(conversation, id) {
    if (!conversation || this.running(conversation)?.node.id === id) return;
    const row = await store.node(conversation.id, id);
    if (row === null) return;
    if (row && conversation.nodes) conversation.nodes[id] = drawn(row, conversation.nodes[id]);
    if (!row) delete conversation.nodes?.[id];
    if (row && row.role === "assistant" && !over(row)) this.watch(conversation.id, id);
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

  // Goes on reading the answers that a page which was closed, or loaded again, left unread.
  async goOn() {
    this.begin();
    for (const { conversation, id } of await store.running()) this.watch(conversation, id);
  }

  // Takes an answer over from the tab that reads it, should that be closed before its end.
  async watch(conversation, id) {
    if (this.watched.has(id) || this.runs.get(conversation)?.node.id === id) return;
    this.watched.set(id, conversation);
    await this.ready;
    await store.alone(id, () => this.takenOver(conversation, id)).catch(() => {});
    this.watched.delete(id);
    this.changed();
  }

  async takenOver(id, nodeId) {
    const conversation = this.all.find((one) => one.id === id);
    const row = conversation && !conversation.deleted && (await store.node(id, nodeId));
    if (!row || over(row)) return this.dropped(nodeId);
    await this.opened(conversation);
    const node = drawn(row, conversation.nodes[nodeId]);
    conversation.nodes[nodeId] = node;
    if (!node.resumable || !node.responseId) return this.interrupted(conversation, node);
    const answering = new Answering(conversation, node, { changed: () => this.changed() });
    this.runs.set(id, answering);
    await answering.goOn();
    return this.finished(answering);
  }

  // Nothing more is read of it; what the server stores of it is deleted.
  async dropped(id) {
    const left = (await store.running()).find((one) => one.id === id);
    if (left?.resumable && left.responseId) await deleted(left.responseId);
    if (left) await store.removeRunning(id);
  }

  async interrupted(conversation, node) {
    node.status = "interrupted";
    await this.stored(conversation, {}, [node]);
    await this.dropped(node.id);
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

  // Shows hidden channels from the next answer on; what was received of them is forgotten when it is switched off.
  reveal(on) {
    this.debug = on;
    if (!on) records.length = 0;
    for (const one of [this.current, ...this.all]) {
      for (const node of Object.values(one.nodes ?? {})) {
        if (!on) Object.assign(node, { reasoning: "", sampled: [] });
        node.version += 1;
      }
    }
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
    if (this.wanted !== conversation) return; // Another was wanted meanwhile.
    this.current = conversation;
    keep("open", this.all.includes(conversation) ? conversation.id : NEW);
    this.target = conversation.nodes[message]?.id;
    if (this.target && !this.path().includes(conversation.nodes[message])) this.select(conversation.nodes[message]);
    this.changed();
  }

  create(settings = this.current.settings) {
    keep("settings", settings);
    return this.open(this.fresh(settings));
  }

  rename(conversation, title) {
    conversation.title = title;
    return this.stored(conversation, { title });
  }

  // Deletes conversations; for a while this can be undone.
  async remove(conversations) {
    const deletedAt = Date.now();
    this.forgetLater([...this.gone, ...conversations]);
    for (const one of conversations) {
      one.deleted = deletedAt;
      await this.vanished(one);
    }
    this.changed();
    await Promise.all(conversations.map((one) => store.change(one.id, { deleted: deletedAt })));
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

  say(text, images = [], parent = this.current.leaf) {
    const node = { id: newId(), parent, role: "user", text, ...(images.length && { images }), at: Date.now(), version: 0 };
    this.current.nodes[node.id] = node;
    const named = this.current.title ? {} : { title: text.trim().slice(0, 60) };
    Object.assign(this.current, named);
    return this.answer(node.id, { asked: [node], named });
  }

  // Opens the field of the last question that is shown; false where there is none.
  editLast() {
    const last = this.path().findLast((node) => node.role === "user");
    if (!last || this.growing) return false;
    keep(`edit ${last.id}`, last.text);
    last.version += 1;
    this.changed();
    return true;
  }

  again(node) {
    return this.answer(node.parent);
  }

  // The result of one call: those of its other calls may come from other tabs.
  async give(node, item, result, state = "completed") {
    const place = node.items.indexOf(item);
    const given = (one) => { Object.assign(one.items[place], { result, state }); return one; };
    const now = given(this.current.nodes[node.id]);
    now.version += 1;
    this.changed();
    await store.changeNode(this.current.id, node.id, given);
    if (calls(now).every((one) => one.result !== undefined)) await this.answer(node.id);
  }

  // A new answer below the node `parent`; with `continues`, one that begins with what that answer has. `asked` are new too.
  answer(parent, { continues = null, asked = [], named = {} } = {}) {
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
    const request = () => {
      const options = { debug: this.debug, listed: this.listed };
      const [path, body] = continues ? continuationOf(settings, [...before, continues], options) : requestOf(settings, before, options);
      return [path, { ...body, ...(body.explain_prefix && { prompt_cache_key: conversation.id }) }]; // Compared within this conversation.
    };
    return store.alone(node.id, async () => {
      await this.stored(conversation, { ...named, leaf: node.id, changed: Date.now() }, [...asked, node]);
      await answering.begin(request);
      if (node.error?.code === UNREADABLE && this.forgotten(conversation, before)) { // Another server wrote it.
        this.ended(answering);
        delete conversation.nodes[node.id];
        store.removeNode(conversation.id, node.id);
        return this.answer(parent, { continues });
      }
      return this.finished(answering);
    }, { fresh: true });
  }

  // Drops what only the server that wrote it can read; false where there is nothing of it.
  forgotten(conversation, path) {
    const all = path.filter((node) => node.output);
    for (const node of all) {
      delete node.output;
      store.changeNode(conversation.id, node.id, ({ output, ...row }) => row);
    }
    return all.length > 0;
  }

  // Goes on with an answer that was stopped or cut, as another version of it.
  goOnWith(node) {
    return this.answer(node.parent, { continues: node });
  }

  // The answer is stored here before the server forgets it.
  async finished(answering) {
    if (!over(answering.node)) return; // The page goes.
    this.ended(answering);
    await this.stored(answering.conversation, { changed: Date.now() }, [answering.node]);
    await answering.settle().catch(() => {}); // What is left of it is deleted when the page is opened again.
  }

  ended(answering) {
    if (this.running(answering.conversation) === answering) this.runs.delete(answering.conversation.id);
  }

  // Ends the answer that is being written; in another tab, where that reads it.
  stop(conversation = this.current) {
    const answering = this.running(conversation);
    if (!answering) return void (conversation === this.current && this.growing && store.tell({ stop: this.growing.id }));
    this.ended(answering);
    answering.stop();
    this.changed();
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
