// A JSON Schema: what of it holds when, and where a text leaves it.
import { html, revealed, useEffect, useState } from "./ui.js";
import { Editor, Findings } from "./editor.js";
import { jsonOf } from "./json_text.js";
import { useKept, useLive } from "./live.js";
import { columnOf, lineOf, rangeOf, unitOf } from "./places.js";
import { t } from "./strings.js";
import { isJson, over, textOf } from "./turn.js";

const MOST_SCHEMA = 300_000;
const MOST_TEXT = 65_536;
const SHOWN = 160;
const LISTS = [["enforced", "whileSampling", "whileSamplingNote"], ["judged", "atTheEnd", "atTheEndNote"], ["unused", "withoutEffect", "withoutEffectNote"]];
const EXAMPLE = {
  schema: JSON.stringify({
    type: "object",
    properties: {
      city: { type: "string", minLength: 1, description: "Where." },
      sky: { enum: ["clear", "cloudy", "rain"] },
      degrees: { type: "integer", minimum: -60, maximum: 60 },
      hours: { type: "array", items: { type: "integer", minimum: 0, maximum: 23 }, uniqueItems: true, maxItems: 24 },
    },
    required: ["city", "sky"], additionalProperties: false,
  }, null, 2),
  text: '{"city":"Oslo","sky":"cl',
  question: "",
};

// The answer that is being written now, or was written last.
const answerIn = (chat) => { const last = chat.path().at(-1); return last?.role === "assistant" ? last : null; };

export function SchemaView({ chat, models }) {
  const [given, setGiven] = useKept("schema", { ...EXAMPLE, ...(chat.current.settings.schema && { schema: chat.current.settings.schema, text: "", question: "" }), strict: false, follows: false });
  const [go, setGo] = useState(null);
  const set = (fields) => setGiven({ ...given, ...fields });
  const { schema, strict, question, follows, failed } = given;
  const answer = follows ? answerIn(chat) : null;
  const text = answer ? textOf(answer) : given.text;
  useEffect(() => { if (answer && over(answer)) set({ text: textOf(answer), follows: false, failed: answer.error?.message ?? "" }); });
  const [value, wrong] = jsonOf(schema);
  const asked = value !== undefined && schema.length <= MOST_SCHEMA && text.length <= MOST_TEXT ? { schema: value, strict, compact: true, ...(text && { text }) } : null;
  const { found, problem, busy } = useLive("/v1/schemas/check", asked, models.length, answer ? 0 : undefined);
  const ask = (event) => {
    event.preventDefault();
    if (chat.path().length) chat.create();
    const { schema: former, strict: formerly, api } = chat.current.settings;
    chat.set({ schema, strict: strict ? "yes" : "", ...(api === "completions" && { api: "responses" }) });
    set({ follows: true, failed: "" });
    chat.say(question.trim() || t("questionExample"));
    chat.set({ schema: former, strict: formerly }); // It was for this question alone.
  };
  const faults = wrong ? [wrong] : found?.refused ? [refusedAt(schema, found.refused)] : [];
  const place = placeOf(text, found?.text);
  const tooLong = schema.length > MOST_SCHEMA ? schema.length : text.length > MOST_TEXT ? text.length : 0;
  return html`<section class="view wide-view"><h2>${t("schemaView")}</h2><p class="hint">${t("schemaNote")}</p>
    <div class="pair">
      <div class="side">
        <${Editor} id="schema-text" label=${t("schemaText")} value=${schema} marks=${faults} go=${go?.field === "schema" ? go : null} rows=${16} onInput=${(one) => set({ schema: one })} />
        <div class="acts">
          <label class="check"><input type="checkbox" checked=${strict} onChange=${(event) => set({ strict: event.target.checked })} /> ${t("strictSchema")}</label>
          <button type="button" onClick=${() => set({ ...EXAMPLE, follows: false, failed: "" })}>${t("anExample")}</button>
          <button type="button" disabled=${!found?.ok} onClick=${() => { chat.set({ schema, strict: strict ? "yes" : "" }); location.hash = "chat"; }}>${t("useInChat")}</button>
        </div>
      </div>
      <div class="side">
        <form class="acts asking" onSubmit=${ask}><label>${t("questionText")}<input id="schema-question" value=${question} placeholder=${t("questionExample")} onInput=${(event) => set({ question: event.target.value })} /></label>
          ${answer ? html`<button type="button" onClick=${() => chat.stop()}>${t("stop")}</button>` : html`<button type="submit" disabled=${!found?.enforced}>${t("letAnswer")}</button>`}</form>
        ${failed && html`<p class="problem" role="alert">${failed}</p>`}
        <${Editor} id="schema-answer" label=${t("answerText")} hint=${t("answerHint")} value=${text} marks=${place ? [place] : []} go=${go?.field === "text" ? go : null} rows=${8} onInput=${(one) => set({ text: one, follows: false, failed: "" })} />
        <div role="status" aria-live="polite" aria-busy=${busy ? "true" : "false"} class="outcome" data-state=${stateOf(busy, problem, found, wrong)}>
          ${!schema.trim() && html`<p class="hint">${t("schemaEmpty")}</p>`}
          ${tooLong > 0 && html`<p class="problem">${t("tooLong", { count: tooLong })}</p>`}
          ${problem && html`<p class="problem">${problem.message}</p>`}
          ${found?.text && html`<${Followed} text=${text} found=${found.text} place=${place} go=${() => setGo({ ...place, field: "text" })} />`}
        </div>
      </div>
    </div>
    ${faults.length > 0 && html`<h3>${wrong ? t("invalidJson") : t("schemaRefused")}</h3><${Findings} found=${faults} go=${(one) => setGo({ ...one, field: "schema" })} />`}
    ${found && !found.refused && html`<p class="good">${t("schemaTaken")}</p>`}
    ${found && (found.enforced.length + found.judged.length + found.unused.length > 0) && html`<div class="columns-of-three">${LISTS.map(([name, title, note]) => html`<section key=${name} class=${`when when-${name}`} aria-label=${t(title)}>
      <h3>${t(title)} <span class="state">${found[name].length}</span></h3><p class="hint">${t(note)}</p>
      ${found[name].length === 0 ? html`<p class="hint">${t("noneOfThem")}</p>` : html`<ul class="keywords">${found[name].slice(0, SHOWN).map((one, at) => html`<li key=${at}>
        <button type="button" class="place" onClick=${() => setGo({ ...markOf(schema, one.path), field: "schema" })}>${one.path}</button></li>`)}
        ${found[name].length > SHOWN && html`<li class="hint">${t("andMore", { count: found[name].length - SHOWN })}</li>`}</ul>`}
    </section>`)}</div>`}
    ${found?.engine !== null && found?.engine !== undefined && html`<details><summary>${t("engineSchema")}</summary><pre class="plain" tabindex="0" dir="auto">${revealed(JSON.stringify(found.engine, null, 2).slice(0, 100_000))}</pre></details>`}
  </section>`;
}

const stateOf = (busy, problem, found, wrong) => (busy ? "busy" : problem || wrong ? "problem" : found ? "ok" : "empty");

function markOf(schema, path) {
  const [from, to] = rangeOf(schema, path);
  return { from, to };
}

function refusedAt(schema, refused) {
  const { from, to } = markOf(schema, refused.path);
  const where = refused.path ? `${lineOf(schema, from)}:${columnOf(schema, from)}` : "";
  return { ...refused, from, to, where, message: refused.path ? `${refused.path}: ${refused.message}` : refused.message };
}

// The character that does not fit, or none.
function placeOf(text, followed) {
  if (!followed || followed.unexpected === null) return null;
  const from = unitOf(text, followed.fits);
  return { from, to: from + followed.unexpected.length, where: `${lineOf(text, from)}:${columnOf(text, from)}` };
}

function Followed({ text, found, place, go }) {
  const fits = unitOf(text, found.fits);
  return html`<p class=${`verdict ${found.unexpected !== null || found.fault || found.gave_up ? "problem" : found.complete ? "good" : ""}`}>${said(text, found, place)}
      ${place && html` <button type="button" class="place" onClick=${go}>${t("goTo", { place: place.where })}</button>`}</p>
    <p class="followed" dir="ltr"><span class="fits">${fits > 200 ? "…" : ""}${revealed(text.slice(Math.max(0, fits - 200), fits))}</span>${place && html`<mark>${shown(found.unexpected)}</mark><span class="behind">${revealed(text.slice(place.to, place.to + 80))}</span>`}</p>
    ${(found.admitted.length > 0 || found.others || (found.complete && found.unexpected !== null)) && html`<h3>${t("mayCome")}</h3>
      <ul class="admitted">${found.complete && html`<li class="word">${t("mayEnd")}</li>`}
        ${found.admitted.map((one, at) => html`<li key=${at}><code>${shown(one.text)}${one.to ? ` … ${shown(one.to)}` : ""}</code></li>`)}
        ${found.others && html`<li class="word">${t("anyOther")}</li>`}
        ${found.more > 0 && html`<li class="word">${t("andMore", { count: found.more })}</li>`}</ul>`}`;
}

const shown = (text) => revealed(text.replaceAll("\n", "↵").replaceAll(" ", "␣").replaceAll("\t", "→"));

// What of a text that leaves the grammar is true of its value, where it has one.
function valueOf(text, { fault }) {
  if (fault) return t("valueFails", { why: fault });
  return isJson(text) ? t("valueFits") : "";
}

function said(text, found, place) {
  if (found.gave_up) return t("grammarGaveUp", { count: found.fits });
  if (place) return `${t("leavesAt", { place: place.where, what: shown(found.unexpected) })} ${valueOf(text, found)}`;
  if (!found.complete) return t("fitsSoFar");
  return found.fault ? t("fitsAndFails", { why: found.fault }) : t("fitsWhole");
}
