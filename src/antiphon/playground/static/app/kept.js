// What a reader left somewhere, kept while this tab lives: over a look at another view, and over a reload.
import { useState } from "./ui.js";

const NAME = "kept";
const MOST = 2_000_000; // Characters: all that a tab may store is a few megabytes.
const values = read();

function read() {
  try {
    return new Map(Object.entries(JSON.parse(sessionStorage.getItem(NAME) ?? "{}")));
  } catch {
    return new Map(); // A tab may be forbidden to store.
  }
}

// The largest are left out where all do not fit.
function written() {
  let room = MOST;
  const sizes = [...values].map(([name, value]) => [name, value, JSON.stringify(value)?.length ?? 0]).sort((one, other) => one[2] - other[2]);
  const fitting = sizes.filter(([, , size]) => (room -= size) > 0).map(([name, value]) => [name, value]);
  try {
    sessionStorage.setItem(NAME, JSON.stringify(Object.fromEntries(fitting)));
  } catch { /* Kept in memory only. */ }
}

export const keptOf = (name, first) => values.get(name) ?? first;

// Undefined forgets it.
export function keep(name, value) {
  if (value === undefined) values.delete(name);
  else values.set(name, value);
}

// As `useState`, for what has a name in the whole page.
export function useKept(name, first) {
  const [, draw] = useState(0);
  const set = (value) => {
    keep(name, value === first ? undefined : value);
    draw((count) => count + 1);
  };
  return [keptOf(name, first), set];
}

addEventListener("pagehide", written);
document.addEventListener("visibilitychange", () => { if (document.hidden) written(); });
