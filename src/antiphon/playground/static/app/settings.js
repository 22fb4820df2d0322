// The settings of a conversation: of each field what counts where it is empty, and who says so.
import { html, useRef } from "./ui.js";
import { cardOf, honours, usual } from "./models.js";
import { SAMPLERS, hasSetting } from "./requests.js";
import { LANGUAGES, choose, current, t } from "./strings.js";

const APIS = { responses: "Responses", chat: "Chat Completions", completions: "Completions" };
const NUMBERS = {
  temperature: { min: 0, max: 2, step: 0.1 }, topP: { min: 0, max: 1, step: 0.05 }, topK: { min: 0, step: 1 }, minP: { min: 0, max: 1, step: 0.01 },
  repetition: { min: 0.1, max: 2, step: 0.05 }, presence: { min: -2, max: 2, step: 0.1 }, frequency: { min: -2, max: 2, step: 0.1 },
  most: { min: 1, step: 1 }, seed: { step: 1 },
};
const FIELDS = { ...SAMPLERS, most: "max_tokens", bias: "logit_bias", probabilities: "logprobs" };
const NEUTRAL = { presence: 0, frequency: 0 };

export function Settings({ chat, cards, redraw }) {
  const settings = chat.current.settings;
  const card = cardOf(cards, settings.model);
  const without = (name) => (!hasSetting(settings.api, name) ? t("noField", { api: APIS[settings.api] }) : !honours(card, FIELDS[name] ?? "max_tokens") ? t("notTaken", { engine: card.antiphon.engine }) : "");
  const field = (name) => ({ value: settings[name], disabled: without(name) !== "", title: without(name) || null, onInput: (event) => chat.set({ [name]: event.target.value }) });
  const check = (name) => ({ checked: settings[name] !== "" && !without(name), disabled: without(name) !== "", onChange: (event) => chat.set({ [name]: event.target.checked ? "yes" : "" }) });
  const option = (value) => html`<option key=${value} value=${value} selected=${settings.api === value}>${APIS[value]}</option>`;
  return html`<div class="settings">
    <label>${t("api")}<select ...${field("api")}>${Object.keys(APIS).map(option)}</select></label>
    <label>${t("instructions")}<textarea rows="3" dir="auto" ...${field("instructions")}></textarea></label>
    <label>${t("effort")}<select ...${field("effort")}><option value="">${t("byDefault")}</option>
      ${["low", "medium", "high"].map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>
    <fieldset class="choices"><legend>${t("samplers")}</legend><p class="hint" id="samplers-note">${t("samplersNote")}</p>
    <div class="fields">${Object.keys(NUMBERS).map((name) => html`<${NumberField} key=${name} name=${name} card=${card} without=${without(name)} field=${field(name)} />`)}</div></fieldset>
    <label>${t("stopStrings")}<textarea rows="1" class="code" spellcheck="false" ...${field("stop")}></textarea></label>
    <label>${t("bias")}<input type="text" class="code" spellcheck="false" placeholder="{}" ...${field("bias")} />${without("bias") && html`<span class="from">${without("bias")}</span>`}</label>
    <${ServerTools} chat=${chat} />
    <label>${t("tools")}<textarea rows="3" spellcheck="false" class="code" ...${field("tools")}></textarea></label>
    <label>${t("schema")}<textarea rows="3" spellcheck="false" class="code" ...${field("schema")}></textarea></label>
    <label class="check"><input type="checkbox" ...${check("strict")} /> ${t("strictSchema")}</label>
    <label class="check"><input type="checkbox" ...${check("survive")} aria-describedby="survive-note" /> ${t("survive")}</label>
    <p class="hint" id="survive-note">${t("surviveNote")}</p>
    <label class="check"><input type="checkbox" ...${check("probabilities")} /> ${t("probabilities")}</label>
    ${settings.api === "completions" && html`<p class="hint">${t("completionsNote")}</p>`}
    <${Debug} chat=${chat} />
    <label>${t("language")}<select value=${current()} onChange=${(event) => { choose(event.target.value); redraw(); }}>
      ${Object.entries(LANGUAGES).map(([name, text]) => html`<option value=${name} lang=${name}>${text}</option>`)}</select></label>
  </div>`;
}

// A number with the value that counts without it in grey, and below it whose value that is; or why it cannot be set.
function NumberField({ name, card, without, field }) {
  const { value, source } = usual(card, FIELDS[name]) ?? { value: NEUTRAL[name] ?? (name === "seed" ? t("randomSeed") : ""), source: "" };
  const whose = source && t(`from_${source.split(" ").at(-1)}`);
  const from = without || (field.value === "" ? whose : [value, whose].filter((one) => one !== "").join(" · "));
  return html`<div><label>${t(name)}<input type="number" ...${NUMBERS[name]} placeholder=${without ? "–" : value} aria-describedby=${from ? `from-${name}` : undefined} ...${field} /></label>
    ${from && html`<span class="from" id=${`from-${name}`}>${from}</span>`}</div>`;
}

// The tools that run at the server: those that are chosen are offered to the model.
function ServerTools({ chat }) {
  const { settings } = chat.current;
  if (!chat.listed.length) return null;
  const chosen = () => settings.serverTools.split("\n").filter(Boolean); // Asked anew: two changes may come before one drawing.
  const can = (tool) => hasSetting(settings.api, "serverTools") && (settings.api !== "responses" || tool.responses !== null);
  const toggled = (name, on) => chat.set({ serverTools: [...chosen().filter((one) => one !== name), ...(on ? [name] : [])].join("\n") });
  return html`<fieldset class="choices"><legend>${t("serverTools")}</legend>
    ${chat.listed.map((tool) => html`<label class="check" key=${tool.name} title=${tool.functions.join(", ")}><input type="checkbox" disabled=${!can(tool)}
      checked=${can(tool) && chosen().includes(tool.name)} onChange=${(event) => toggled(tool.name, event.target.checked)} /> ${tool.name}</label>`)}
    ${chat.offered && html`<p class="hint">${t("offeredAlways")}</p>`}
    ${settings.api === "responses" && chat.listed.some((tool) => !can(tool)) && html`<p class="hint">${t("chatOnly")}</p>`}</fieldset>`;
}

function Debug({ chat }) {
  const dialog = useRef(null);
  const set = (on) => {
    chat.reveal(on);
    dialog.current.close();
    chat.changed();
  };
  const changed = (event) => {
    if (!event.target.checked) set(false);
    else dialog.current.showModal();
    event.target.checked = chat.debug;
  };
  return html`<label class="check"><input type="checkbox" checked=${chat.debug} onChange=${changed} /> ${t("debug")}</label>
    <dialog ref=${dialog} aria-labelledby="debug-note"><p id="debug-note">${t("debugConfirm")}</p>
      <button type="button" onClick=${() => set(true)}>${t("show")}</button>
      <button type="button" onClick=${() => dialog.current.close()}>${t("cancel")}</button></dialog>`;
}
