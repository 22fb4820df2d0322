// The template bench: a template, messages, their prompt, a reply, and the message that is read back of it.
import { html, copy, revealed, useEffect, useRef, useState } from "./ui.js";
import { call } from "./api.js";
import { Editor, Findings } from "./editor.js";
import { faultAt, jsonOf } from "./json_text.js";
import { useKept, useLive } from "./live.js";
import { columnOf, lineOf, rangeOf, unitAt } from "./places.js";
import { PromptRows } from "./prompt_rows.js";
import { ReadBack } from "./read_back.js";
import { t } from "./strings.js";

const OWN = "*";
const MESSAGES = JSON.stringify([{ role: "system", content: "Be brief." }, { role: "user", content: "What is the weather in Oslo?" }], null, 2);
const TOOLS = JSON.stringify([{ type: "function", function: { name: "weather", description: "The weather.", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } }], null, 2);
const REPLY = '<think>\nI had better look.\n</think>\n\nLet me see.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
const HARMONY = '<|channel|>analysis<|message|>I had better look.<|end|><|start|>assistant<|channel|>commentary to=functions.weather<|constrain|>json<|message|>{"city": "Oslo"}<|call|>';
const FIRST = { of: "", template: "", controls: "", messages: MESSAGES, tools: TOOLS, reply: null, opens: true };

// A reply with a call in the words of the format, as far as its stops say which that is.
const replyFor = (stops = []) => (stops.includes("<|call|>") ? HARMONY : REPLY + (stops[0] ?? ""));

export function TemplateView({ chat, models }) {
  const [given, setGiven] = useKept("bench", FIRST);
  const [go, setGo] = useState(null);
  const set = (fields) => setGiven({ ...given, ...fields });
  const own = given.of === OWN;
  const model = own ? "" : given.of || chat.current.settings.model;
  const source = useSource(own ? null : model, models.length);
  const [messages, badMessages] = list(given.messages, "messages");
  const [tools, badTools] = list(given.tools, "tools");
  const template = given.template.trim() ? given.template : null;
  const ready = messages && !badTools && (!own || template);
  const controls = given.controls.split("\n").map((one) => one.trim()).filter(Boolean);
  const checked = own ? { template: template ?? "", ...(controls.length && { controls }) } : { ...(model && { model }) };
  const asked = ready ? { ...checked, messages, add_generation_prompt: given.opens, ...(tools?.length && { tools }), ...(given.reply && { reply: given.reply }) } : null;
  const { found, problem, busy } = useLive("/v1/templates/try", asked, models.length);
  useEffect(() => { if (found && given.reply === null) set({ reply: replyFor(found.stop) }); }, [found]);
  const fault = problem ? placed(problem, given, own) : null;
  const marks = (field) => [badMessages, badTools, fault].filter((one) => one?.field === field);
  const faults = [badMessages, badTools, fault].filter(Boolean);
  const goIn = (field) => (go?.field === field ? go : null);
  return html`<section class="view wide-view"><h2>${t("template")}</h2><p class="hint">${t("benchNote")}</p>
    <div class="pair">
      <div class="side">
        <div class="acts">
          <label>${t("whichTemplate")}<select value=${given.of} onChange=${(event) => set({ of: event.target.value })}>
            <option value="">${t("byDefault")}</option>${models.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}<option value=${OWN}>${t("ownTemplate")}</option></select></label>
          ${!own && source.text && html`<button type="button" onClick=${() => set({ of: OWN, template: source.text, controls: source.controls })}>${t("editCopy")}</button>`}
        </div>
        ${own || source.text
          ? html`<${Editor} id="bench-template" label=${t("templateText")} value=${own ? given.template : source.text} readonly=${!own} marks=${marks("template")} go=${goIn("template")} rows=${12} onInput=${(value) => set({ template: value })} />`
          : html`<p class="hint">${found && !found.source ? t("noSource", { name: found.name }) : ""}</p>`}
        ${own && html`<label>${t("controlsText")}<textarea class="code" rows="3" spellcheck="false" value=${given.controls} onInput=${(event) => set({ controls: event.target.value })}></textarea></label>`}
        <${Editor} id="bench-messages" label=${t("messagesText")} value=${given.messages} marks=${marks("messages")} go=${goIn("messages")} rows=${10} onInput=${(value) => set({ messages: value })} />
        <${Editor} id="bench-tools" label=${t("toolsText")} value=${given.tools} marks=${marks("tools")} go=${goIn("tools")} rows=${6} onInput=${(value) => set({ tools: value })} />
        <div class="acts"><button type="button" onClick=${() => set({ tools: TOOLS })}>${t("anExample")}</button></div>
        <${Verdict} body=${checked} ready=${!own || template} />
      </div>
      <div class="side">
        <div class="titled"><h3>${t("promptTitle")} ${found && html`<span class="state">${found.ids ? t("tokensInAll", { count: found.ids.length }) : t("charactersInAll", { count: found.text.length })}</span>`}</h3>
          <div class="acts"><label class="check"><input type="checkbox" checked=${given.opens} onChange=${(event) => set({ opens: event.target.checked })} /> ${t("opensReply")}</label>
          <button type="button" disabled=${!found} onClick=${() => copy(found.text)}>${t("copy")}</button></div></div>
        <div role="status" aria-live="polite" class="outcome" aria-busy=${busy ? "true" : "false"} data-state=${busy ? "busy" : faults.length ? "problem" : found ? "ok" : "empty"}>
          <${Findings} found=${faults} go=${setGo} />
        </div>
        ${found && html`<${PromptRows} pieces=${found.pieces} />`}
        <${Editor} id="bench-reply" label=${t("replyText")} value=${given.reply ?? ""} rows=${7} onInput=${(value) => set({ reply: value })} />
        <div class="acts"><button type="button" onClick=${() => set({ reply: replyFor(found?.stop), tools: given.tools || TOOLS })}>${t("replyExample")}</button></div>
        ${found?.reply && html`<${ReadBack} reply=${found.reply} />`}
      </div>
    </div>
  </section>`;
}

// The text of a model's own template, and its controls.
function useSource(model, again) {
  const [known, setKnown] = useState({ text: "", controls: "" });
  useEffect(() => {
    let current = true;
    setKnown({ text: "", controls: "" });
    if (model === null) return undefined;
    call(`/v1/tokenizer_info${model ? `?model=${encodeURIComponent(model)}` : ""}`, { method: "GET", aside: true })
      .then((info) => current && setKnown({ text: info.chat_template ?? "", controls: info.additional_special_tokens.slice(0, 4000).join("\n") }), () => {});
    return () => { current = false; };
  }, [model, again]);
  return known;
}

// A list of JSON, alone or in a request, or what is wrong with it.
function list(text, field) {
  if (!text.trim()) return [field === "tools" ? [] : null, null];
  const [value, wrong] = jsonOf(text);
  const found = Array.isArray(value) ? value : value?.[field];
  if (Array.isArray(found)) return [found, null];
  return [null, { ...(wrong ?? faultAt(text, 0, t("noList"))), field }];
}

// Where the server's error belongs: a line of the template, or a place in the messages or tools.
function placed(problem, given, own) {
  const line = /\(line (\d+) of the template\)/.exec(problem.message)?.[1];
  const plain = { code: problem.code, message: problem.message, from: 0, to: 0, where: "" };
  if (line && own) {
    const from = unitAt(given.template, Number(line), 1);
    const end = given.template.indexOf("\n", from);
    return { ...plain, field: "template", from, to: end < 0 ? given.template.length : end, where: `${line}:1` };
  }
  const field = /^(messages|tools)\b/.exec(problem.param ?? "")?.[1];
  if (!field || problem.param === field) return { ...plain, field: "" };
  const [from, to] = rangeOf(given[field], problem.param.slice(field.length));
  return { ...plain, field, from, to, where: `${lineOf(given[field], from)}:${columnOf(given[field], from)}` };
}

function Verdict({ body, ready }) {
  const [state, setState] = useState({ found: null, problem: "", busy: false });
  const spelled = JSON.stringify(body);
  useEffect(() => setState({ found: null, problem: "", busy: false }), [spelled]);
  const check = async () => {
    setState({ found: null, problem: "", busy: true });
    try {
      setState({ found: await call("/v1/templates/check", { body }), problem: "", busy: false });
    } catch (error) {
      setState({ found: null, problem: error.message, busy: false });
    }
  };
  const { found, problem, busy } = state;
  const end = useRef(null);
  useEffect(() => { if (found || problem) end.current.scrollIntoView({ block: "nearest" }); }, [found, problem]);
  return html`<section class="round" aria-label=${t("verdict")}><h3>${t("verdict")}</h3><p class="hint">${t("verdictNote")}</p>
    <button type="button" disabled=${busy || !ready} onClick=${check}>${busy ? t("working") : t("check")}</button>
    <div role="status" aria-live="polite" ref=${end}>
      ${problem && html`<p class="problem">${problem}</p>`}
      ${found && html`<p class=${found.ok ? "good" : "problem"}>${found.ok ? t("templateGood") : t("templateBad")}</p>
        ${found.lost.length > 0 && html`<ul class="findings">${found.lost.map((one, at) => html`<li key=${at} class="finding plain">${one}</li>`)}</ul>`}`}
    </div>
    ${found && Object.entries(found).filter(([name, value]) => !["ok", "lost"].includes(name) && value !== null && Object.keys(value).length > 0).map(([name, value]) => html`<details key=${name}>
      <summary>${name}</summary><pre class="plain" tabindex="0" dir="auto">${revealed((typeof value === "string" ? value : JSON.stringify(value, null, 2)).slice(0, 100_000))}</pre></details>`)}
  </section>`;
}
