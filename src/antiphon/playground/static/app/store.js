// Conversations, stored in this browser only (IndexedDB; in memory where there is none).
const NAME = "antiphon-playground";
const TABLE = "conversations";
const memory = new Map();
let opened;

function open() {
  opened ??= new Promise((resolve) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(TABLE, { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(null);
  }).catch(() => null);
  return opened;
}

async function run(mode, work) {
  const database = await open();
  if (!database) return null;
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(TABLE, mode);
    const request = work(transaction.objectStore(TABLE));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onerror = () => reject(transaction.error);
  });
}

export async function load() {
  const stored = (await run("readonly", (table) => table.getAll())) ?? [...memory.values()];
  return stored.sort((one, other) => other.changed - one.changed);
}

// What hidden channels said is never stored.
export function bare(conversation) {
  const nodes = Object.fromEntries(Object.entries(conversation.nodes).map(([id, node]) => {
    const { reasoning, version, ...rest } = node;
    return [id, rest];
  }));
  return { ...conversation, nodes };
}

export async function save(conversation) {
  const plain = structuredClone(bare(conversation));
  memory.set(plain.id, plain);
  await run("readwrite", (table) => table.put(plain));
}

export async function remove(id) {
  memory.delete(id);
  await run("readwrite", (table) => table.delete(id));
}
