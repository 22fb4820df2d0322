// The database of this page's conversations, and what becomes of one that an older page left.
export const HEADS = "heads"; // A row a conversation: its title, its settings, the message that was shown last.
export const NODES = "nodes"; // A row a message, under its conversation.
export const RUNNING = "running"; // A row an answer that is being written: what the server must forget of it.
export const DRAFTS = "drafts"; // What is written and not sent: a row a text, a row its images.
export const VERSION = 3;

const FORMER = "conversations"; // Until version 2 a row had a whole conversation.
const KEYS = { [HEADS]: "id", [NODES]: ["conversation", "id"], [RUNNING]: "id", [DRAFTS]: "id" };

// Within the transaction of the upgrade: either all of it is done, or the database is as it was.
export function upgraded({ target: { result: database, transaction } }) {
  const names = database.objectStoreNames;
  for (const [name, keyPath] of Object.entries(KEYS)) if (!names.contains(name)) database.createObjectStore(name, { keyPath });
  if (!names.contains(FORMER)) return;
  const [heads, nodes, running] = [HEADS, NODES, RUNNING].map((name) => transaction.objectStore(name));
  running.getAll().onsuccess = ({ target: { result: all } }) => {
    running.clear();
    const newer = new Map(all.filter((one) => one.node).map((one) => [one.id, one.node]));
    for (const { id, conversation, node } of all) running.put({ id, conversation, responseId: node?.responseId, resumable: Boolean(node?.resumable) });
    transaction.objectStore(FORMER).openCursor().onsuccess = ({ target: { result: cursor } }) => {
      if (!cursor) return void database.deleteObjectStore(FORMER);
      const { nodes: former, ...head } = cursor.value;
      heads.put(head);
      for (const node of rowsOf(head.id, former ?? {}, newer)) nodes.put(node);
      return cursor.continue();
    };
  };
}

// The messages of a conversation in their order; of one that was being written, as far as it came.
export function rowsOf(conversation, nodes, newer = new Map()) {
  return Object.entries(nodes).map(([id, node], at) => {
    const unfinished = ["waiting", "streaming", "resuming", "elsewhere"].includes(node.status);
    const found = unfinished ? newer.get(id) ?? { ...node, status: node.status === "elsewhere" ? "interrupted" : node.status } : node;
    return { ...found, id, conversation, at };
  });
}
