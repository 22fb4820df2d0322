// The turns that run in the conversations: what the view of the chat shows and its buttons do.
import { records } from "./api.js";
import { Answering, deleted } from "./answering.js";
import { Conversations, drawn } from "./conversations.js";
import { keep } from "./kept.js";
import { newId } from "./ui.js";
import * as store from "./store.js";
import { continuationOf, requestOf } from "./requests.js";
import { answerNode, calls, over } from "./turn.js";

const UNREADABLE = "invalid_encrypted_content";

// Begins with the text of an answer that is gone on with.
function goesOn(node, former) {
  const items = former.items.map((item) => ({ ...item, key: "text" }));
  Object.assign(node, { items, continues: { id: former.id, role: "assistant", items: former.items } });
}

export class Chat extends Conversations {
  constructor(changed) {
    super(changed);
    this.runs = new Map(); // What reads an answer in this tab, by conversation.
    this.watched = new Map(); // Answers that another tab reads, and their conversations.
    this.debug = false;
    this.listed = []; // The tools that run at the server.
    this.ready = new Promise((resolve) => { this.begin = resolve; });
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

  async load() {
    const loaded = this.loadAll();
    store.listen(async (message) => { await loaded; await this.heard(message); });
    await loaded;
    this.changed();
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
    this.changed(true); // The next key is for the field.
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
    const settings = { ...conversation.settings }; // As they are now: a change comes too late for this answer.
    const options = { debug: this.debug, listed: this.listed };
    const node = answerNode(parent, continues && settings.api === "responses" ? "chat" : settings.api);
    node.settings = { ...settings, api: node.api };
    if (continues) goesOn(node, continues);
    const answering = new Answering(conversation, node, { debug: this.debug, changed: () => this.changed() });
    const before = this.path(parent);
    conversation.nodes[node.id] = node;
    conversation.leaf = node.id;
    this.runs.set(conversation.id, answering);
    const request = () => {
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
}
