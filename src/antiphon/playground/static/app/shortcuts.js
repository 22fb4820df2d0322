// The keys of the page, and the list of them.
import { html, useLayoutEffect, useRef } from "./ui.js";
import { t } from "./strings.js";

const MAC = /Mac|iPhone|iPad/.test(navigator.platform);
const MOD = MAC ? "⌘" : "Ctrl";
// What each does, and its keys; those without a name of their own are heard where they belong.
const KEYS = [
  ["keySearch", [MOD, "K"]], ["keyNew", [MOD, "Shift", "O"]], ["keySettings", [MOD, "."]], ["keySend", ["Enter"]], ["keyLine", ["Shift", "Enter"]],
  ["keyEdit", ["↑"]], ["keyStop", ["Esc"]], ["keyRename", ["F2"]], ["keyDelete", ["Delete"]], ["keyList", ["?"], [MOD, "/"]],
];
const FIELDS = "textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=range], [type=file])";

// What a key of a Latin keyboard, or the one in its place, asks for. A key alone asks nothing while one writes.
export function askedBy(event) {
  const { key, code, shiftKey: shift } = event;
  if (event.defaultPrevented || event.isComposing || event.altKey || event.repeat || document.querySelector("dialog[open]")) return "";
  const held = MAC ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
  const is = (letter) => key.toLowerCase() === letter || (!/^[a-z]$/i.test(key) && code === `Key${letter.toUpperCase()}`);
  if (held && is("k") && !shift) return "search";
  if (held && is("o") && shift) return "create";
  if (held && key === ".") return "settings";
  if (held && key === "/") return "shortcuts";
  if (event.ctrlKey || event.metaKey || event.target.closest?.(FIELDS)) return "";
  return { "?": "shortcuts", F2: "rename" }[key] ?? "";
}

export function Shortcuts({ close }) {
  const dialog = useRef(null);
  useLayoutEffect(() => { dialog.current.showModal(); }, []);
  return html`<dialog ref=${dialog} class="shortcuts" aria-labelledby="shortcuts-title" onClose=${close} onClick=${(event) => event.target === dialog.current && dialog.current.close()}>
    <h2 id="shortcuts-title">${t("shortcuts")}</h2>
    <dl>${KEYS.map(([word, ...ways]) => html`<div key=${word}><dt>${t(word)}</dt><dd>${ways.map((keys, at) => html`${at ? ` ${t("or")} ` : ""}${keys.map((one) => html`<kbd>${one}</kbd>`)}`)}</dd></div>`)}</dl>
    <button type="button" autofocus onClick=${() => dialog.current.close()}>${t("close")}</button></dialog>`;
}
