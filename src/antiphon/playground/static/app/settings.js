// The settings of a conversation.
import { html, useRef } from "./ui.js";
import { hasSetting } from "./requests.js";
import { LANGUAGES, choose, current, t } from "./strings.js";

export function Settings({ chat, models, redraw }) {
  const settings = chat.current.settings;
  const without = (name) => !hasSetting(settings.api, name);
  const field = (name) => ({ value: settings[name], disabled: without(name), onInput: (event) => chat.set({ [name]: event.target.value }) });
  const check = (name) => ({ checked: settings[name] !== "" && !without(name), disabled: without(name), onChange: (event) => chat.set({ [name]: event.target.checked ? "yes" : "" }) });
  const option = (value, text = value) => html`<option value=${value} selected=${settings.api === value}>${text}</option>`;
  return html`<div class="settings">
    <label>${t("model")}<select ...${field("model")}><option value="">${t("byDefault")}</option>
      ${models.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
    <label>${t("api")}<select ...${field("api")}>${option("responses", "Responses")}${option("chat", "Chat Completions")}${option("completions", "Completions")}</select></label>
    <label>${t("effort")}<select ...${field("effort")}><option value="">${t("byDefault")}</option>
      ${["low", "medium", "high"].map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
    <div class="row">
      <label>${t("temperature")}<input type="number" min="0" max="2" step="0.1" ...${field("temperature")} /></label>
      <label>${t("topP")}<input type="number" min="0" max="1" step="0.05" ...${field("topP")} /></label>
    </div><div class="row">
      <label>${t("most")}<input type="number" min="1" step="1" ...${field("most")} /></label>
      <label>${t("seed")}<input type="number" step="1" ...${field("seed")} /></label>
    </div>
    <label>${t("instructions")}<textarea rows="3" dir="auto" ...${field("instructions")}></textarea></label>
    <${ServerTools} chat=${chat} />
    <label>${t("tools")}<textarea rows="3" spellcheck="false" class="code" ...${field("tools")}></textarea></label>
    <label>${t("schema")}<textarea rows="3" spellcheck="false" class="code" ...${field("schema")}></textarea></label>
    <label class="check"><input type="checkbox" ...${check("survive")} aria-describedby="survive-note" /> ${t("survive")}</label>
    <p class="hint" id="survive-note">${t("surviveNote")}</p>
    <label class="check"><input type="checkbox" ...${check("probabilities")} /> ${t("probabilities")}</label>
    ${settings.api === "completions" && html`<p class="hint">${t("completionsNote")}</p>`}
    <${Debug} chat=${chat} />
    <label>${t("language")}<select value=${current()} onChange=${(event) => { choose(event.target.value); redraw(); }}>
      ${Object.entries(LANGUAGES).map(([name, text]) => html`<option value=${name} lang=${name}>${text}</option>`)}</select></label>
  </div>`;
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
