// What the server stores for this key: listed, opened, deleted.
import { html, revealed, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";
import { call } from "./api.js";
import { t } from "./strings.js";

const LIST = "/playground/api/stored";
// How each kind is opened and deleted; batches are only cancelled, and sessions tell nobody what is in them.
const KINDS = {
  responses: { open: (id) => `${LIST}/responses/${id}`, drop: (id) => [`/v1/responses/${id}`] },
  conversations: { open: (id) => `${LIST}/conversations/${id}`, drop: (id) => [`/v1/conversations/${id}`] },
  completions: { open: (id) => `${LIST}/completions/${id}`, drop: (id) => [`/v1/chat/completions/${id}`] },
  sessions: { drop: (id) => ["/v1/chat/interactive", { prompt: "", request_output_len: 0, session_id: id, interactive_mode: false }] },
  files: { open: (id) => `/v1/files/${id}`, drop: (id) => [`/v1/files/${id}`] },
  batches: { open: (id) => `/v1/batches/${id}` },
};
const SHOWN = 50;

async function dropped(kind, id) {
  const [path, body] = KINDS[kind].drop(encodeURIComponent(id)); // A session's name is in the body, and needs no encoding.
  if (body) await call(path, { body: { ...body, session_id: id } });
  else await call(path, { method: "DELETE" });
}

const when = (seconds) => (seconds === null ? t("never") : new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }));

export function StoredView({ chat }) {
  const [lists, setLists] = useState(null);
  const [problem, setProblem] = useState("");
  const [opened, setOpened] = useState(null);
  const [asked, setAsked] = useState(null);
  const tried = async (work) => {
    setProblem("");
    try {
      await work();
    } catch (error) {
      setProblem(error.kind === "offline" ? t("offline") : error.message);
    }
  };
  const read = async () => setLists(await call(LIST, { method: "GET" }));
  useEffect(() => { tried(read); }, []);
  const open = (kind, id) => tried(async () => setOpened({ kind, id, document: await call(KINDS[kind].open(encodeURIComponent(id)), { method: "GET", debug: chat.debug }) }));
  const drop = (kind, ids) => tried(async () => {
    setAsked(null);
    setOpened(null);
    try {
      for (const id of ids) await dropped(kind, id);
    } finally {
      await read();
    }
  });
  if (opened) return html`<section class="view"><${Document} opened=${opened} back=${() => setOpened(null)} /></section>`;
  const some = lists && !problem && Object.keys(KINDS).filter((kind) => lists[kind].data.length);
  return html`<section class="view"><h2>${t("stored")}</h2>
    <p class="hint">${t("storedNote")}</p>
    <p class="row"><button type="button" onClick=${() => tried(read)}>${t("refresh")}</button></p>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${some && !some.length && html`<p class="notice" role="status">${t("nothingStored")}</p>`}
    ${(some || []).map((kind) => html`<${Kind} key=${kind} kind=${kind} list=${lists[kind]} open=${open} ask=${setAsked} />`)}
    ${asked && html`<${Confirm} asked=${asked} sure=${() => drop(asked.kind, asked.ids)} close=${() => setAsked(null)} />`}
  </section>`;
}

function Kind({ kind, list, open, ask }) {
  const [all, setAll] = useState(false);
  const name = t(`stored_${kind}`);
  const ids = list.data.map((one) => one.id);
  const { drop } = KINDS[kind];
  return html`<div class="tools"><h3>${name} <span class="state">${ids.length}${list.has_more ? "+" : ""}</span></h3>
      ${drop && html`<button type="button" class="small danger" onClick=${() => ask({ kind, ids })}>${t("deleteAll", { name })}</button>`}</div>
    <div class="scroll" tabindex="0" role="region" aria-label=${name}><table class="stored"><thead><tr><th scope="col">${t("id")}</th><th scope="col">${t("created")}</th><th scope="col">${t("expires")}</th><td></td></tr></thead>
      <tbody>${list.data.slice(0, all ? undefined : SHOWN).map(({ id, created_at: created, expires_at: expires }) => html`<tr key=${id}><td><code>${id}</code></td><td>${when(created)}</td><td>${when(expires)}</td><td>
        ${KINDS[kind].open && html`<button type="button" class="small" aria-label=${t("openNamed", { name: id })} onClick=${() => open(kind, id)}>${t("open")}</button>`}
        ${drop && html`<button type="button" class="small danger" aria-label=${t("deleteNamed", { name: id })} onClick=${() => ask({ kind, ids: [id] })}>${t("delete")}</button>`}</td></tr>`)}</tbody></table></div>
    ${!all && ids.length > SHOWN && html`<button type="button" onClick=${() => setAll(true)}>${t("showEach", { count: ids.length })}</button>`}`;
}

function Document({ opened, back }) {
  const top = useRef(null);
  useLayoutEffect(() => { top.current.focus(); }, []);
  return html`<div class="tools"><h2 ref=${top} tabindex="-1"><code>${opened.id}</code></h2><button type="button" onClick=${back}>${t("back")}</button></div>
    <pre class="plain whole" tabindex="0" dir="auto">${revealed(JSON.stringify(opened.document, null, 2).slice(0, 200_000))}</pre>`;
}

function Confirm({ asked, sure, close }) {
  const dialog = useRef(null);
  useLayoutEffect(() => { dialog.current.showModal(); }, []);
  return html`<dialog ref=${dialog} aria-labelledby="confirm-title" onClose=${close}>
    <h2 id="confirm-title">${asked.ids.length === 1 ? t("deleteNamed", { name: asked.ids[0] }) : t("deleteMany", { count: asked.ids.length, name: t(`stored_${asked.kind}`) })}</h2>
    <p>${t("deleteNote")}</p>
    <div class="row"><button type="button" class="primary destroys" onClick=${sure}>${t("delete")}</button><button type="button" onClick=${() => dialog.current.close()}>${t("cancel")}</button></div></dialog>`;
}
