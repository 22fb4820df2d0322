// Conversations in this browser (IndexedDB), a row a message, so that no tab undoes what another wrote; and what tabs tell each other.
import { DRAFTS, HEADS, NODES, RUNNING, VERSION, upgraded } from "./migration.js";

const NAME = "antiphon-playground";
const PATIENCE = 300; // Milliseconds in which a tab answers another.
const channel = new BroadcastChannel(NAME);
export const state = { problem: "", told: () => {} }; // Why nothing is stored: "outdated" where a newer page has the database, "blocked" where an older one does not leave it, else the browser's words.
let opened;

function open() {
  opened ??= new Promise((resolve) => {
    const request = indexedDB.open(NAME, VERSION);
    request.onupgradeneeded = upgraded;
    request.onblocked = () => failed("blocked");
    request.onsuccess = () => {
      const database = request.result;
      database.onversionchange = () => { // A newer page of another tab needs it.
        database.close();
        opened = Promise.resolve(null);
        failed("outdated");
      };
      if (state.problem) failed("");
      resolve(database);
    };
    request.onerror = () => {
      failed(request.error.name === "VersionError" ? "outdated" : request.error.message);
      resolve(null);
    };
  }).catch((error) => void failed(error.message) ?? null);
  return opened;
}

function failed(problem) {
  state.problem = problem;
  state.told();
}

// One transaction; gives the result of the request that `work` gives, null where there is no database.
async function transact(tables, mode, work) {
  const database = await open();
  if (!database) return null;
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(tables, mode);
    const request = work(...tables.map((name) => transaction.objectStore(name)));
    transaction.oncomplete = () => resolve(request?.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

const read = (table, work) => transact([table], "readonly", work);

// Writes, and tells the other tabs which rows. What cannot be stored is said, and stays in this tab.
async function write(tables, work, told) {
  try {
    await transact(tables, "readwrite", (...stores) => void work(...stores));
    if (!(await opened)) return;
    if (state.problem) failed("");
    tell(told);
  } catch (error) {
    failed(error.message);
  }
}

const within = (conversation) => IDBKeyRange.bound([conversation], [conversation, []]);
const inOrder = (one, other) => one.at - other.at || (one.id < other.id ? -1 : 1);

// What hidden channels said is never stored, and neither is what can be seen of it in ids.
function bare(node) {
  const { reasoning, sampled, version, ...rest } = node;
  return rest;
}

// What a file has of it: nothing that only the server which wrote it can read, and no more than a conversation.
export function portable({ id, title, changed, settings, leaf, leftOut }, nodes) {
  const plain = nodes.map(bare).map(({ output, continues, progress, conversation, ...node }) => [node.id, node]);
  return { id, title, changed, settings, leaf, ...(leftOut && { leftOut }), nodes: Object.fromEntries(plain) };
}

export const heads = async () => ((await read(HEADS, (rows) => rows.getAll())) ?? []).sort((one, other) => other.changed - one.changed);
export const head = (id) => read(HEADS, (rows) => rows.get(id));
export const node = (conversation, id) => read(NODES, (rows) => rows.get([conversation, id]));
export const nodesOf = async (conversation) => ((await read(NODES, (rows) => rows.getAll(within(conversation)))) ?? []).sort(inOrder);

const rowOf = (conversation, one) => ({ ...bare(one), conversation });
const toldOf = (conversation, nodes) => ({ heads: [conversation], nodes: nodes.map(({ id }) => [conversation, id]) });

// A new conversation with its messages.
export function add({ nodes: _, ...row }, nodes) {
  const told = toldOf(row.id, nodes);
  return write([HEADS, NODES], (heads, rows) => { heads.put(row); for (const one of nodes) rows.put(rowOf(row.id, one)); }, told);
}

// Fields of a conversation and messages of it; of one that was deleted meanwhile nothing is stored.
export function change(id, fields, nodes = []) {
  const work = (heads, rows) => {
    heads.get(id).onsuccess = ({ target: { result: row } }) => {
      if (!row) return;
      if (Object.keys(fields).length) heads.put({ ...row, ...fields, settings: { ...row.settings, ...fields.settings } });
      for (const one of nodes) rows.put(rowOf(id, one));
    };
  };
  return write([HEADS, NODES], work, toldOf(id, nodes));
}

// `changed` makes of the stored message what is to be stored.
export function changeNode(conversation, id, changed) {
  const work = (rows) => {
    rows.get([conversation, id]).onsuccess = ({ target: { result: row } }) => { if (row) rows.put(rowOf(conversation, changed(row))); };
  };
  return write([NODES], work, toldOf(conversation, [{ id }]));
}

export function removeNode(conversation, id) {
  return write([NODES], (rows) => rows.delete([conversation, id]), { nodes: [[conversation, id]] });
}

// Removes those that are still deleted, with all that is theirs.
export function purge(ids) {
  const work = (heads, rows, drafts) => {
    for (const id of ids) {
      heads.get(id).onsuccess = ({ target: { result: row } }) => {
        if (!row?.deleted) return;
        heads.delete(id);
        rows.delete(within(id));
        for (const one of draftKeys(id)) drafts.delete(one);
      };
    }
  };
  return write([HEADS, NODES, DRAFTS], work, { heads: ids });
}

// An answer as it grows: its row, and what to ask the server for, or to delete there, when this page is gone.
export const running = async () => (await read(RUNNING, (rows) => rows.getAll())) ?? [];
export function grown(conversation, { id, ...one }) {
  const row = { id, conversation, responseId: one.responseId, resumable: Boolean(one.resumable) };
  const work = (heads, nodes, rows) => {
    rows.put(row);
    heads.getKey(conversation).onsuccess = ({ target }) => { if (target.result) nodes.put(rowOf(conversation, { id, ...one })); };
  };
  return write([HEADS, NODES, RUNNING], work, { nodes: [[conversation, id]] });
}
export const removeRunning = (id) => write([RUNNING], (rows) => rows.delete(id), {});

const draftKeys = (id) => [id, `${id} images`];

export async function draft(id) {
  const [text, images] = await Promise.all(draftKeys(id).map((key) => read(DRAFTS, (rows) => rows.get(key))));
  return { text: text?.text ?? "", images: images?.images ?? [] };
}

// A field that is empty has no row. Images are stored only where they are given: they are large, and change rarely.
export function saveDraft(id, { text, images }) {
  const [forText, forImages] = draftKeys(id);
  const work = (rows) => {
    if (text !== undefined) text ? rows.put({ id: forText, text }) : rows.delete(forText);
    if (images !== undefined) images.length ? rows.put({ id: forImages, images }) : rows.delete(forImages);
    rows.transaction.commit(); // A page that goes does not wait for it.
  };
  return write([DRAFTS], work, { drafts: [id] });
}

// What other tabs wrote, or ask for, in the order in which it came.
export function listen(heard) {
  let last = Promise.resolve();
  channel.addEventListener("message", ({ data }) => { last = last.then(() => heard(data)).catch(() => {}); });
}
export const tell = (message) => channel.postMessage(message);

const mine = new Set();
channel.addEventListener("message", ({ data: { asks } }) => { if (mine.has(asks)) tell({ reads: asks }); });

// Whether another tab does the work of that name.
function elsewhere(id) {
  return new Promise((resolve) => {
    const answered = ({ data }) => { if (data.reads === id) done(true); };
    const done = (found) => { channel.removeEventListener("message", answered); resolve(found); };
    channel.addEventListener("message", answered);
    setTimeout(done, PATIENCE, false);
    tell({ asks: id });
  });
}

// Does the work while no other tab does it, after one that does. Pages without TLS have no locks: there the tabs are asked.
export async function alone(id, work, { fresh = false } = {}) {
  if (navigator.locks) return navigator.locks.request(`antiphon-${id}`, () => work());
  while (!fresh && (await elsewhere(id))) await new Promise((resolve) => { setTimeout(resolve, 5 * PATIENCE); });
  mine.add(id);
  return work().finally(() => mine.delete(id));
}
