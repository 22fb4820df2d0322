// Conversations from one form to another, as the server converts them.
import { html, copy, useEffect, useMemo, useRef, useState } from "./ui.js";
import { call } from "./api.js";
import { conversationOf } from "./conversation_of.js";
import { Editor, Findings } from "./editor.js";
import { useKept, useLive } from "./live.js";
import { columnOf, lineOf, rangeOf, unitAt } from "./places.js";
import { save } from "./save.js";
import { t } from "./strings.js";
import { messagesOf, functionsOf, serverCalls } from "./requests.js";

const MOST = 2_000_000;
const NAMES = { openchatml: "OpenChatML 2.2", harmony: "Harmony", "harmony-ids": "Harmony ids", "harmony-json": "Harmony JSON", chat: "Chat JSON", responses: "Responses JSON" };
const ENDINGS = { openchatml: "ocm", harmony: "txt", "harmony-ids": "txt" };
const KINDS = { semantic: "loss_semantic", derivable: "loss_derivable", spelling: "loss_spelling" };
const EXAMPLE = JSON.stringify({
  messages: [
    { role: "system", content: "Be brief." },
    { role: "user", name: "Ada", content: "What is the weather in Oslo?" },
    { role: "assistant", content: "Let me look.", tool_calls: [{ id: "w1", type: "function", function: { name: "weather", arguments: "{\"city\": \"Oslo\"}" } }] },
    { role: "tool", tool_call_id: "w1", content: "{\"sky\": \"clear\"}" },
    { role: "assistant", content: "It is clear in Oslo." },
  ],
  temperature: 0.2, user: "ada@example.org",
}, null, 2);
const FIRST = { text: EXAMPLE, from: "", to: "openchatml", lenient: false };

const named = (form) => NAMES[form] ?? form;

export function ConvertView({ chat, models }) {
  const [given, setGiven] = useKept("convert", FIRST);
  const [forms, setForms] = useState({ from: [], to: [], templates: [] });
  const [go, setGo] = useState(null);
  const [said, setSaid] = useState("");
  const file = useRef(null);
  const set = (fields) => { setSaid(""); setGiven({ ...given, ...fields }); };
  useEffect(() => { call("/v1/convert", { method: "GET", aside: true }).then(setForms, () => {}); }, [models.length]); // With a key, once it is given.
  const { text, from, to, lenient } = given;
  const asked = text.trim() && text.length <= MOST ? { input: text, to, ...(from && { from }), ...(lenient && { lenient }) } : null;
  const { found, problem, busy } = useLive("/v1/convert", asked, models.length);
  const faults = useMemo(() => (found?.findings ?? []).map((one) => placed(text, one)), [found, text]);
  const swap = () => found?.ok && set({ text: found.output, from: "", to: forms.to.includes(found.from) ? found.from : to });
  const validate = async () => {
    try {
      const checked = await call("/v1/convert", { body: { input: text, ...(from && { from }) } });
      setSaid(checked.ok ? t("validInput", { name: named(checked.from) }) : "");
      if (!checked.ok) setGo({ ...placed(text, checked.findings.find((one) => !one.warning)) });
    } catch (error) {
      setSaid(error.message);
    }
  };
  const openInChat = async () => {
    try {
      const { output, losses, findings } = await call("/v1/convert", { body: { input: text, to: "chat", ...(from && { from }), ...(lenient && { lenient }) } });
      if (output === null) return setSaid(findings[0]?.message ?? "");
      await chat.taken(conversationOf(output, losses));
      location.hash = "chat";
    } catch (error) {
      setSaid(error.message);
    }
    return undefined;
  };
  const read = async ({ target }) => {
    if (target.files[0]) set({ text: await target.files[0].text(), from: "" });
    target.value = "";
  };
  const own = () => {
    const ran = serverCalls(chat.path());
    set({ text: JSON.stringify({ messages: messagesOf(chat.current.settings, chat.path()), ...toolsOf(chat.current.settings) }, null, 2), from: "" });
    setSaid(ran ? t("serverCallsLeftOut", { count: ran }) : "");
  };
  return html`<section class="view wide-view"><h2>${t("convert")}</h2><p class="hint">${t("convertNote")}</p>
    <div class="pair">
      <div class="side">
        <div class="acts">
          <label>${t("convertFrom")}<select id="convert-from" value=${from} onChange=${(event) => set({ from: event.target.value })}>
            <option value="">${found?.from && !from ? t("detectedForm", { name: named(found.from) }) : t("detectForm")}</option>
            ${forms.from.map((one) => html`<option key=${one} value=${one}>${named(one)}</option>`)}</select></label>
          <label class="check"><input type="checkbox" checked=${lenient} onChange=${(event) => set({ lenient: event.target.checked })} /> ${t("lenient")}</label>
        </div>
        <${Editor} id="convert-input" label=${t("convertInput")} value=${text} marks=${faults.filter((one) => one.where)} go=${go} rows=${16} onInput=${(value) => set({ text: value })} />
        <div class="acts">
          <button type="button" disabled=${!text.trim()} onClick=${validate}>${t("validateInput")}</button>
          <button type="button" onClick=${() => file.current.click()}>${t("openFile")}</button>
          <input type="file" hidden ref=${file} onChange=${read} aria-label=${t("openFile")} />
          <button type="button" disabled=${!chat.path().length} onClick=${own}>${t("fromConversation")}</button>
          <button type="button" onClick=${() => set({ text: EXAMPLE, from: "" })}>${t("anExample")}</button>
        </div>
      </div>
      <div class="side">
        <div class="acts">
          <label>${t("convertTo")}<select id="convert-to" value=${to} onChange=${(event) => set({ to: event.target.value })}>
            <optgroup label=${t("ownForms")}>${(forms.to.length ? forms.to : [to]).map((one) => html`<option key=${one} value=${one}>${named(one)}</option>`)}</optgroup>
            ${forms.templates.length > 0 && html`<optgroup label=${t("chatTemplates")}>${forms.templates.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</optgroup>`}</select></label>
          <button type="button" disabled=${!found?.ok || !forms.from.includes(found.to)} onClick=${swap}>⇄ ${t("swapForms")}</button>
        </div>
        <${Editor} id="convert-output" label=${t("convertOutput")} value=${found?.output ?? ""} readonly=${true} rows=${16} />
        <div class="acts">
          <button type="button" disabled=${!found?.output} onClick=${() => { copy(found.output); setSaid(t("copied")); }}>${t("copy")}</button>
          <button type="button" disabled=${!found?.output} onClick=${() => save(`conversation.${ENDINGS[found.to] ?? (NAMES[found.to] ? "json" : "txt")}`, found.output)}>${t("saveFile")}</button>
          <button type="button" disabled=${!found?.ok} onClick=${openInChat}>${t("openInChat")}</button>
        </div>
      </div>
    </div>
    <div class="outcome" role="status" aria-live="polite" aria-busy=${busy ? "true" : "false"} data-state=${busy ? "busy" : problem ? "problem" : found ? (found.ok ? "ok" : "faulty") : "empty"}>
      ${said && html`<p class="good">${said}</p>`}
      ${!text.trim() && html`<p class="hint">${t("emptyInput")}</p>`}
      ${text.length > MOST && html`<p class="problem">${t("tooLong", { count: text.length })}</p>`}
      ${problem && html`<p class="problem">${problem.message}</p>`}
      ${faults.length > 0 && html`<h3>${t("faults", { count: faults.length })}</h3><${Findings} found=${faults} go=${setGo} />`}
      ${found && html`<${Outcome} found=${found} />`}
    </div>
  </section>`;
}

function toolsOf(settings) {
  try {
    const tools = functionsOf(settings.tools).map((one) => ({ type: "function", function: one }));
    return tools.length ? { tools } : {};
  } catch {
    return {};
  }
}

// A finding with its place in the text, by line and column or by a path of JSON.
function placed(text, finding) {
  if (finding.line !== null) {
    const from = unitAt(text, finding.line, finding.column ?? 1);
    const word = /^[^\s<|]+|^<\|?\w*\|?>?|^./su.exec(text.slice(from, from + 80));
    return { ...finding, from, to: from + (word?.[0].length ?? 0), where: t("atPlace", finding) };
  }
  if (!finding.path) return { ...finding, from: 0, to: 0, where: "" };
  const [from, to] = rangeOf(text, finding.path);
  return { ...finding, from, to, where: `${lineOf(text, from)}:${columnOf(text, from)}`, message: `${finding.path}: ${finding.message}` };
}

function Outcome({ found }) {
  if (!found.ok) return null;
  return html`${found.warnings.length > 0 && html`<h3>${t("repairs", { count: found.warnings.length })}</h3><ul class="findings">${found.warnings.slice(0, 50).map((one) => html`<li class="finding finding-warning plain">${one}</li>`)}</ul>`}
    ${found.lost === 0 ? html`<p class="good">${t("nothingLost")}</p>` : html`<h3>${t("whatIsLost", { count: found.lost })}</h3>
      <ul class="losses">${found.losses.slice(0, 100).map((one, at) => html`<li key=${at}><span class=${`tag tag-${one.kind}`}>${t(KINDS[one.kind])}</span> <code class="plain">${one.path}</code>
        <span class="plain">${one.what} ${one.becomes === null ? t("leftOut") : t("becomes", { what: one.becomes })}</span></li>`)}
        ${found.lost > 100 && html`<li class="hint">${t("andMore", { count: found.lost - 100 })}</li>`}</ul>`}`;
}
