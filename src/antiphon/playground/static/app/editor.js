// A field for text with the numbers of its lines, marks at those that something is wrong with, and a place to go to.
import { html, useEffect, useLayoutEffect, useRef } from "./ui.js";
import { t } from "./strings.js";
import { lineOf } from "./places.js";

const MOST_LINES = 5000;

// `marks` are [{from, to, warning}] in units of `value`; `go` is one of them, selected anew whenever it is another object.
export function Editor({ id, label, value, onInput, marks = [], go = null, rows = 14, readonly = false, hint = "" }) {
  const area = useRef(null);
  const gutter = useRef(null);
  const scrolled = () => { if (gutter.current) gutter.current.scrollTop = area.current.scrollTop; };
  useLayoutEffect(scrolled);
  useEffect(() => { if (go) select(area.current, go); }, [go]);
  const marked = new Map(marks.map((one) => [lineOf(value, one.from), one]));
  const hinted = hint ? `${id}-hint` : undefined;
  return html`<div class="editor">
    <label class="editor-label" for=${id}>${label}</label>
    <div class="editor-body">
      <pre class="gutter" aria-hidden="true" ref=${gutter}>${numbers(value, marked)}</pre>
      <textarea id=${id} class="code" rows=${rows} ref=${area} wrap="off" spellcheck="false" autocapitalize="off" autocomplete="off" dir="ltr" readonly=${readonly}
        aria-invalid=${marks.some((one) => !one.warning) ? "true" : "false"} aria-describedby=${hinted} value=${value} onScroll=${scrolled} onInput=${(event) => onInput?.(event.target.value)}></textarea>
    </div>
    ${hint && html`<p class="hint" id=${hinted}>${hint}</p>`}</div>`;
}

function numbers(value, marked) {
  const count = Math.min(MOST_LINES, value.split("\n", MOST_LINES).length);
  if (!marked.size) return Array.from({ length: count }, (_, at) => at + 1).join("\n");
  return Array.from({ length: count }, (_, at) => {
    const mark = marked.get(at + 1);
    return mark ? [html`<span class=${`mark ${mark.warning ? "mark-warning" : "mark-error"}`}>${at + 1}</span>`, "\n"] : `${at + 1}\n`;
  });
}

// Selects a place and scrolls it into the middle.
function select(area, { from, to }) {
  area.focus();
  area.setSelectionRange(from, Math.max(to, from));
  const height = parseFloat(getComputedStyle(area).lineHeight) || 20;
  area.scrollTop = Math.max(0, (lineOf(area.value, from) - 1) * height - area.clientHeight / 2);
  const column = from - (area.value.lastIndexOf("\n", from - 1) + 1);
  area.scrollLeft = Math.max(0, column * height * 0.4 - area.clientWidth / 2);
}

// What is wrong, each with its place; a press goes there. `found` are [{code, message, hint, where, from, to, warning}].
export function Findings({ found, go }) {
  if (!found.length) return null;
  return html`<ul class="findings">${found.slice(0, 50).map((one, at) => html`<li key=${at} class=${one.warning ? "finding finding-warning" : "finding"}>
    ${one.where && html`<button type="button" class="place" aria-label=${t("goTo", { place: one.where })} onClick=${() => go({ ...one })}>${one.where}</button>`}
    <code>${one.code}</code> <span class="plain">${one.message}</span>
    ${one.hint && html`<span class="hint plain">${one.hint}</span>`}</li>`)}
    ${found.length > 50 && html`<li class="hint">${t("andMore", { count: found.length - 50 })}</li>`}</ul>`;
}
