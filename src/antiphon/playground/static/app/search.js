// Which conversations have a text: in their titles, or in what was said, from the last message back.
import { textOf } from "./turn.js";

const BEFORE = 16;
const BEHIND = 48;
const plain = (text) => text.toLocaleLowerCase();

// The part of a text around what was looked for, or null.
export function around(text, wanted) {
  const at = plain(text).indexOf(plain(wanted));
  if (at < 0) return null;
  const from = Math.max(0, at - BEFORE);
  const cut = (start, end) => text.slice(start, end).replace(/\s+/g, " ");
  return { before: (from ? "…" : "") + cut(from, at), found: cut(at, at + wanted.length), behind: cut(at + wanted.length, at + wanted.length + BEHIND) };
}

// One conversation after the other, so that no more than one is in memory; `hit` is called for each that has it.
export async function searched(chat, wanted, signal, hit) {
  for (const one of chat.conversations) {
    const rows = await chat.rowsOf(one);
    if (signal.aborted) return;
    const node = rows.findLast((row) => around(textOf(row), wanted));
    if (node) hit(one.id, { message: node.id, ...around(textOf(node), wanted) });
  }
}
