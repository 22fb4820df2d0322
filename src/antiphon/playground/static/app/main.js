// The page: its bar, its views, and the state of the server.
import { html, render, batched, seconds, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";
import { call, setKey } from "./api.js";
import { Chat } from "./chat.js";
import { ChatView } from "./chat_view.js";
import { EnvelopesView } from "./envelopes.js";
import { warm } from "./markdown.js";
import { useKept } from "./kept.js";
import { Picker } from "./models.js";
import { Rail, Undo } from "./rail.js";
import { SchemaView } from "./schema_view.js";
import { Settings } from "./settings.js";
import { Shortcuts, askedBy } from "./shortcuts.js";
import { state as storing } from "./store.js";
import { current, t } from "./strings.js";
import { TimeView } from "./time_view.js";
import { WireView } from "./wire_view.js";

const VIEWS = { chat: ChatView, envelopes: EnvelopesView, time: TimeView, schema: SchemaView, wire: WireView };
const LATER = { template: "TemplateView", convert: "ConvertView", stored: "StoredView" }; // Loaded when they are opened.
const TITLES = { schema: "schemaView" };
const GROUPS = [["", ["chat"]], ["see", ["envelopes", "time", "wire"]], ["try", ["template", "schema", "convert"]], ["", ["stored"]]];
const POLL = 2000;

const server = { state: "starting", models: [], cards: [], wrong: false };
const draw = batched(() => render(html`<${Page} />`, document.getElementById("app")), 50);
const chat = new Chat((now = false) => {
  if (Object.values(chat.current.nodes ?? {}).some((node) => node.error?.kind === "key")) server.state = "key";
  if (now) draw.now();
  else draw();
});

async function connect() {
  try {
    await call("/health", { method: "GET", aside: true });
    server.cards = (await call("/v1/models", { method: "GET", aside: true })).data;
    server.models = server.cards.map((one) => one.id);
    const { offered, durable, tools } = await call("/playground/api/tools", { method: "GET", aside: true });
    Object.assign(chat, { offered, durable, listed: tools });
    server.state = "ready";
    server.wrong = false;
    loaded.then(() => chat.goOn());
  } catch (error) {
    server.wrong = error.kind === "key" && server.state === "key";
    server.since = error.kind === "loading" ? server.since ?? Date.now() : undefined;
    server.state = { key: "key", loading: "loading", offline: "offline" }[error.kind] ?? "busy";
    server.message = error.message;
    if (server.state !== "key") setTimeout(connect, Math.max(POLL, (error.retryAfter ?? 0) * 1000));
  }
  draw();
}

function viewNamed() {
  const name = location.hash.slice(1);
  return name in VIEWS || name in LATER ? name : "chat";
}

const Loading = () => html`<section class="view" aria-busy="true"></section>`;

const Away = () => html`<section class="view"><p class="problem" role="status">${t("offline")}</p></section>`;

// A file that did not come is requested under another name: some browsers remember that it was not there.
function load(name, shown, attempt = 0) {
  VIEWS[name] = shown;
  import(`./${name}_view.js${attempt ? `?${attempt}` : ""}`).then((loaded) => { VIEWS[name] = loaded[LATER[name]]; }, () => {
    VIEWS[name] = Away;
    setTimeout(load, POLL, name, Away, attempt + 1);
  }).then(draw);
}

function viewOf(name) {
  if (!VIEWS[name]) load(name, Loading);
  return VIEWS[name];
}

function Page() {
  const [panel, setPanel] = useKept("panel", "");
  const [listed, setListed] = useState(false);
  const name = viewNamed();
  const toggle = (which) => setPanel(panel === which ? "" : which);
  const chosen = () => { if (panel === "rail") setPanel(""); location.hash = "chat"; };
  const rail = () => { if (getComputedStyle(document.querySelector(".rail")).display === "none") setPanel("rail"); };
  const acts = {
    search: () => { rail(); focusOn("#search"); },
    create: () => { chat.create(); chosen(); focusOn("#message"); },
    settings: () => { toggle("settings"); focusOn("aside :is(select, input)"); },
    shortcuts: () => setListed(true),
    rename: () => { if (chat.conversations.includes(chat.current)) { rail(); chat.renaming = chat.current; draw.now(); } },
  };
  useEffect(() => {
    const pressed = (event) => {
      const act = acts[askedBy(event)];
      if (act) event.preventDefault();
      act?.();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
  const escaped = ({ target }) => {
    if (target.closest("dialog")) return;
    if (panel) setPanel("");
    else if (name === "chat" && chat.growing) chat.stop();
  };
  return html`<div class="page" data-panel=${panel} onKeyDown=${(event) => event.key === "Escape" && escaped(event)}>
    <a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); document.getElementById("content").focus(); }}>${t("skip")}</a>
    <header class="bar">
      <button type="button" class="drawer" aria-expanded=${panel === "rail" ? "true" : "false"} onClick=${() => toggle("rail")}>${t("conversations")}</button>
      <h1>Antiphon</h1>
      <nav class="views" aria-label=${t("views")}>${GROUPS.map(([group, views], at) => html`<div key=${at} class="group" data-open=${views.includes(name) ? "yes" : "no"}>
        ${group && html`<a class="of-group" href=${`#${views[0]}`}>${t(group)}</a>`}
        ${views.map((one) => html`<a key=${one} id=${one} href=${`#${one}`} aria-current=${one === name ? "page" : "false"}>${t(TITLES[one] ?? one)}</a>`)}</div>`)}</nav>
      <${Picker} chat=${chat} cards=${server.cards} />
      <button type="button" class="keys" aria-label=${t("shortcuts")} title=${`${t("shortcuts")} (?)`} onClick=${() => setListed(true)}>?</button>
      <button type="button" class="gear" aria-expanded=${panel === "settings" ? "true" : "false"} onClick=${() => toggle("settings")}>${t("settings")}</button>
    </header>
    ${chat.debug && html`<p class="debug" role="status">${t("debugOn")}</p>`}
    <${State} />
    ${storing.problem && html`<p class="banner" role="alert">${["outdated", "blocked"].includes(storing.problem) ? t(storing.problem) : t("notStored", { message: storing.problem })}</p>`}
    <div class="columns">
      <${Rail} chat=${chat} chosen=${chosen} />
      <main id="content" tabindex=${name === "chat" ? "-1" : "0"}><${viewOf(name)} chat=${chat} models=${server.models} cards=${server.cards} /></main>
      ${panel === "settings" && html`<aside aria-label=${t("settings")}><${Settings} chat=${chat} cards=${server.cards} redraw=${draw} />
        <button type="button" onClick=${() => setPanel("")}>${t("close")}</button></aside>`}
    </div>
    <${Undo} chat=${chat} />
    ${listed && html`<${Shortcuts} close=${() => setListed(false)} />`}
    ${server.state === "key" && html`<${KeyDialog} />`}
  </div>`;
}

// The next key is for this element, which is drawn at once.
function focusOn(which) {
  draw.now();
  document.querySelector(which)?.focus();
}

function State() {
  if (!["loading", "offline", "busy"].includes(server.state)) return null;
  return html`<div class="banner" role="status" data-state=${server.state}><span>${t(server.state, { message: server.message, time: seconds(Date.now() - (server.since ?? Date.now())) })}</span>
    ${server.state === "loading" && html`<progress aria-label=${t("loading")}></progress>`}
    <button type="button" onClick=${connect}>${t("retry")}</button></div>`;
}

function KeyDialog() {
  const dialog = useRef(null);
  const field = useRef(null);
  useLayoutEffect(() => { if (!dialog.current.open) dialog.current.showModal(); }, []);
  const given = (event) => {
    event.preventDefault();
    setKey(field.current.value.trim());
    for (const node of Object.values(chat.current.nodes)) if (node.error?.kind === "key") node.error.kind = "refused";
    connect();
  };
  return html`<dialog ref=${dialog} aria-labelledby="key-title" onCancel=${(event) => event.preventDefault()}>
    <form onSubmit=${given}><h2 id="key-title">${t("keyTitle")}</h2><p>${t("keyNote")}</p>
      ${server.wrong && html`<p class="problem" role="alert">${t("keyWrong")}</p>`}
      <label>${t("keyLabel")}<input type="password" autocomplete="off" ref=${field} required /></label>
      <button type="submit">${t("use")}</button></form></dialog>`;
}

document.getElementById("app").replaceChildren(); // What stood there for browsers without JavaScript.
document.documentElement.lang = current();
addEventListener("hashchange", draw.now);
addEventListener("offline", () => { server.state = "offline"; draw(); });
addEventListener("online", connect);
draw();
const loaded = chat.load();
connect();
warm();
