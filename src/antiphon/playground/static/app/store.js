// Conversations, and the answers that are being written, stored in this browser only (IndexedDB; in memory where there is none).
const NAME = "antiphon-playground";
const CONVERSATIONS = "conversations";
const RUNNING = "running";
const memory = { [CONVERSATIONS]: new Map(), [RUNNING]: new Map() };
let opened;

function open() {
  opened ??= new Promise((resolve) => {
    const request = indexedDB.open(NAME, 2);
    request.onupgradeneeded = () => {
      for (const table of [CONVERSATIONS, RUNNING]) {
        if (!request.result.objectStoreNames.contains(table)) request.result.createObjectStore(table, { keyPath: "id" });
      }
    };
    request.onsuccess = () => {
      request.result.onversionchange = () => request.result.close(); // A newer page of another tab needs it.
      resolve(request.result);
    };
    request.onerror = () => resolve(null);
  }).catch(() => null);
  return opened;
}

async function run(table, mode, work) {
  const database = await open();
  if (!database) return null;
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(table, mode);
    const request = work(transaction.objectStore(table));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onerror = () => reject(transaction.error);
  });
}

const all = async (table) => (await run(table, "readonly", (stored) => stored.getAll())) ?? [...memory[table].values()];

async function put(table, value) {
  const plain = structuredClone(value);
  memory[table].set(plain.id, plain);
  await run(table, "readwrite", (stored) => stored.put(plain));
}

async function drop(table, id) {
  memory[table].delete(id);
  await run(table, "readwrite", (stored) => stored.delete(id));
}

// What hidden channels said is never stored, and neither is what can be seen of it in ids.
function bareNode(node) {
  const { reasoning, sampled, version, ...rest } = node;
  return rest;
}

export function bare(conversation) {
  return { ...conversation, nodes: Object.fromEntries(Object.entries(conversation.nodes).map(([id, node]) => [id, bareNode(node)])) };
}

// What a file of it has: nothing that only the server which wrote it can read.
export function portable(conversation) {
  const { nodes, ...rest } = bare(conversation);
  return { ...rest, nodes: Object.fromEntries(Object.entries(nodes).map(([id, { output, continues, progress, ...node }]) => [id, node])) };
}

export async function load() {
  return (await all(CONVERSATIONS)).sort((one, other) => other.changed - one.changed);
}
export const save = (conversation) => put(CONVERSATIONS, bare(conversation));
export const remove = (id) => drop(CONVERSATIONS, id);

// An answer that is being written is small beside its conversation, and is stored by itself as it grows.
export const loadRunning = () => all(RUNNING);
export const saveRunning = (conversation, node) => put(RUNNING, { id: node.id, conversation, node: bareNode(node) });
export const removeRunning = (id) => drop(RUNNING, id);

// Does the work unless another tab does it now, which is told by false. Pages without TLS have no locks.
export async function alone(id, work) {
  if (!navigator.locks) return work();
  return navigator.locks.request(`antiphon-${id}`, { ifAvailable: true }, (lock) => (lock ? work() : false));
}
