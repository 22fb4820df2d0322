// A call of a tool: what it was given, how far it is, what came of it.
import { html, seconds, useEffect, useState } from "./ui.js";
import { t } from "./strings.js";
import { useKept, useLive } from "./live.js";
import { functionsOf } from "./requests.js";
import { calls } from "./turn.js";

// The server's own words for what became of a call.
const CODES = { "E-TOOL-TIMEOUT": "state_timeout", "E-TOOL-CANCELLED": "state_cancelled" };
const STATES = { called: "state_written", running: "state_running", in_progress: "state_running", completed: "state_ok", failed: "state_error", incomplete: "state_cancelled", cancelled: "state_cancelled" };

function stateOf(item, live) {
  if (CODES[item.code]) return CODES[item.code];
  if (item.kind === "call" && item.state === "called" && !live) return "state_asked";
  if (!live && ["called", "running", "in_progress"].includes(item.state)) return "state_cancelled"; // With its answer.
  return STATES[item.state] ?? "state_running";
}

export function Card({ item, node, chat, live, open }) {
  const state = stateOf(item, live);
  const problem = live || item.kind !== "call" ? "" : problemOf(item.arguments);
  const asks = item.kind === "call" && item.result === undefined && open && !problem;
  return html`<div class="card" role="group" aria-label=${`${t("toolCall")} ${item.name}`} data-state=${state}>
    <p class="title"><code>${item.name}</code> <span class="state">${t(state)}${item.kind === "server" && html` <${Lasted} item=${item} node=${node} live=${live} />`}</span></p>
    <pre class="plain" tabindex="0" dir="auto" aria-label=${t("arguments")}>${item.arguments}</pre>
    ${problem && html`<p class="problem">${t("notJson")}: ${problem}</p>`}
    ${asks && html`<${Fault} item=${item} node=${node} />`}
    ${item.result !== undefined && item.result !== "" && html`<${Result} name=${placeOf(item, node)} result=${String(item.result)} />`}
    ${asks && html`<${ResultForm} item=${item} node=${node} chat=${chat} />`}
  </div>`;
}

const placeOf = (item, node) => `${node.id} ${node.items.indexOf(item)}`;

function Result({ name, result }) {
  const [open, setOpen] = useKept(`open ${name}`, false);
  return html`<details open=${open} onToggle=${(event) => event.target.open !== open && setOpen(event.target.open)}><summary>${t("result")}</summary><pre class="plain" tabindex="0" dir="auto">${result}</pre></details>`;
}

// Why the arguments are not what the function's schema asks for, where they are not.
function Fault({ item, node }) {
  const schema = schemaOf(item.name, node.settings?.tools ?? "");
  const { found } = useLive("/v1/schemas/check", schema ? { schema, text: item.arguments || "{}" } : null);
  return found?.text?.fault ? html`<p class="problem">${t("notFitting", { why: found.text.fault })}</p>` : null;
}

function schemaOf(name, tools) {
  try {
    return functionsOf(tools).find((one) => one.name === name)?.parameters ?? null;
  } catch {
    return null;
  }
}

// How long the server has run it, or ran it.
function Lasted({ item, node, live }) {
  const [, tick] = useState(0);
  const runs = live && item.ended === undefined;
  useEffect(() => {
    if (!runs) return undefined;
    const timer = setInterval(() => tick((count) => count + 1), 200);
    return () => clearInterval(timer);
  }, [runs]);
  if (item.began === undefined || (!runs && item.ended === undefined)) return null;
  return html`<time>${seconds(Math.max(0, (runs ? Date.now() - node.started : item.ended) - item.began))}</time>`;
}

export function problemOf(text) {
  try {
    JSON.parse(text || "{}");
    return "";
  } catch (error) {
    return error.message;
  }
}

const CANCELLED = JSON.stringify({ error: "The user cancelled this call." });

function ResultForm({ item, node, chat }) {
  const [text, setText] = useKept(`result ${placeOf(item, node)}`, "");
  const give = (result, state) => {
    setText("");
    chat.give(node, item, result, state);
  };
  const given = (event) => {
    event.preventDefault();
    give(text);
  };
  const several = calls(node).filter((one) => one.result === undefined).length > 1;
  return html`<form onSubmit=${given}>
    <label>${t("giveResult", { name: item.name })}<textarea rows="2" dir="auto" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
    <div class="row"><button type="submit">${several ? t("giveThis") : t("sendResults")}</button>
      <button type="button" onClick=${() => give(CANCELLED, "cancelled")}>${t("cancelCall")}</button></div>
  </form>`;
}
