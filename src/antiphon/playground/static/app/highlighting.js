// Code in the colours of its language: a worker does it, so that no text of a model can keep the page busy.
const PATIENCE = 2000;

let policy; // One for the page, which may have each name once.
let worker = null;
let last = 0;
const waiting = new Map();

function started() {
  policy ??= globalThis.trustedTypes?.createPolicy("highlighting", { createScriptURL: (url) => url });
  const address = new URL("./highlighting_worker.js", import.meta.url).href;
  const made = new Worker(policy?.createScriptURL(address) ?? address, { type: "module" });
  made.onmessage = ({ data: { id, html } }) => { waiting.get(id)?.(html); waiting.delete(id); };
  return made;
}

// The code as HTML whose elements are spans with classes; null where the language is unknown, or it takes too long.
export function highlighted(language, code) {
  try {
    worker ??= started();
  } catch {
    return Promise.resolve(null); // A browser without workers of modules.
  }
  const id = ++last;
  const answer = new Promise((resolve) => { waiting.set(id, resolve); });
  worker.postMessage({ id, language, code });
  const late = new Promise((resolve) => { setTimeout(resolve, PATIENCE, undefined); });
  return Promise.race([answer, late]).then((html) => (html === undefined ? givenUp() : html));
}

// What still waits stays as it is; the next code has another worker.
function givenUp() {
  worker?.terminate();
  worker = null;
  for (const resolve of waiting.values()) resolve(null);
  waiting.clear();
  return null;
}
