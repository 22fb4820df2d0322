// The list of conversations: searched, named, deleted, written to files and read from them.
import { html, download, revealed, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";
import { call } from "./api.js";
import { conversationOf } from "./conversation_of.js";
import { useKept } from "./kept.js";
import { requestOf, serverCalls } from "./requests.js";
import { save } from "./save.js";
import { around, searched } from "./search.js";
import { t } from "./strings.js";

const PAUSE = 150;

// An export of this page, or a conversation in any form that the server reads.
async function taken(chat, text) {
  if (text.trimStart().startsWith("{") && JSON.parse(text).kind === "antiphon-conversations") return chat.taken(text);
  const { output, losses, findings } = await call("/v1/convert", { body: { input: text, to: "chat" }, aside: true });
  if (output === null) throw new Error(findings[0]?.message ?? t("notImported"));
  return chat.taken(conversationOf(output, losses));
}

async function asOpenChatML(chat) {
  const [, { messages, tools }] = requestOf({ ...chat.current.settings, api: "chat" }, chat.path());
  const input = JSON.stringify({ messages, ...(tools && { tools }) });
  const { output, lost, findings } = await call("/v1/convert", { body: { input, from: "chat", to: "openchatml" }, aside: true });
  if (output === null) return findings[0]?.message ?? "";
  save("conversation.ocm", output);
  const ran = serverCalls(chat.path());
  return [lost ? t("whatIsLost", { count: lost }) : "", ran ? t("serverCallsLeftOut", { count: ran }) : ""].join(" ");
}

export function Rail({ chat, chosen }) {
  const file = useRef(null);
  const [said, setSaid] = useState("");
  const [wanted, setWanted] = useKept("search", "");
  const hits = useHits(chat, wanted.trim());
  const shown = chat.conversations.filter((one) => !wanted.trim() || hits.has(one.id) || around(one.title, wanted.trim()));
  const open = (one) => { chat.open(one, hits.get(one.id)?.message); chosen(); };
  const read = async ({ target }) => {
    try {
      setSaid(t("imported", { count: await taken(chat, await target.files[0].text()) }));
      chosen();
    } catch (error) {
      setSaid(`${t("notImported")} ${error.message}`);
    }
    target.value = "";
  };
  const written = () => asOpenChatML(chat).then(setSaid, (error) => setSaid(error.message));
  const pressed = (event) => {
    if (event.key === "Enter" && shown.length) open(shown[0]);
    if (event.key === "Escape" && wanted) { setWanted(""); event.stopPropagation(); }
  };
  return html`<nav class="rail" aria-label=${t("conversations")}>
    <button type="button" class="wide" onClick=${() => { chat.create(); chosen(); }}>${t("newConversation")}</button>
    <input type="search" id="search" class="wide" aria-label=${t("searchConversations")} placeholder=${t("searchConversations")} value=${wanted} onInput=${(event) => setWanted(event.target.value)} onKeyDown=${pressed} />
    <p class="hint" role="status">${wanted.trim() && t("conversationsFound", { count: shown.length })}</p>
    <ul>${shown.map((one) => html`<${Entry} key=${one.id} chat=${chat} one=${one} hit=${wanted.trim() ? hits.get(one.id) : undefined} open=${open} />`)}</ul>
    <div class="row"><button type="button" onClick=${async () => download("antiphon-conversations.json", await chat.exported())}>${t("exportAll")}</button>
      <button type="button" onClick=${() => file.current.click()}>${t("importAll")}</button>
      <button type="button" disabled=${!chat.path().length} title=${t("asOpenChatML")} onClick=${written}>OpenChatML</button>
      <button type="button" class="danger" disabled=${!chat.conversations.length} onClick=${(event) => deleted(chat, chat.conversations, event)}>${t("deleteEach")}</button>
      <input type="file" hidden ref=${file} onChange=${read} aria-label=${t("importAll")} /></div>
    <p class="hint" role="status">${said}</p>
  </nav>`;
}

// What was found in the texts, by conversation; looked for when the typing pauses.
function useHits(chat, wanted) {
  const [hits, setHits] = useState(new Map());
  useEffect(() => {
    setHits(new Map());
    if (!wanted) return undefined;
    const abort = new AbortController();
    const look = () => searched(chat, wanted, abort.signal, (id, hit) => setHits((former) => new Map(former).set(id, hit)));
    const timer = setTimeout(look, PAUSE);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [wanted]);
  return hits;
}

// Whoever deletes by the keyboard comes to the button that undoes it.
function deleted(chat, conversations, event) {
  chat.remove(conversations);
  chat.changed(true);
  if (!event.detail) document.getElementById("undo")?.focus();
}

function Entry({ chat, one, hit, open }) {
  const name = useRef(null);
  const rename = (on) => { chat.renaming = on; chat.changed(true); }; // At once: who typed the key types on.
  const pressed = (event) => {
    if (event.key === "F2") { event.preventDefault(); rename(one); }
    if (["Delete", "Backspace"].includes(event.key)) deleted(chat, [one], event);
  };
  const named = (now) => {
    rename(null);
    if (now !== null && now.trim() !== one.title) chat.rename(one, now.trim());
    name.current?.focus();
  };
  if (chat.renaming === one) return html`<li><${NameField} title=${one.title} named=${named} /></li>`;
  const fields = { name: revealed(one.title) || t("untitled") };
  return html`<li>
    <button type="button" ref=${name} class=${chat.busy(one) ? "name busy" : "name"} dir="auto" aria-current=${one.id === chat.current.id ? "true" : "false"}
      onClick=${() => open(one)} onDblClick=${() => rename(one)} onKeyDown=${pressed}>${fields.name}${hit && html`<span class="snippet">${revealed(hit.before)}<mark>${revealed(hit.found)}</mark>${revealed(hit.behind)}</span>`}</button>
    <button type="button" class="small" aria-label=${t("renameNamed", fields)} title=${t("rename")} onClick=${() => rename(one)}>✎</button>
    <button type="button" class="small" aria-label=${t("deleteNamed", fields)} title=${t("delete")} onClick=${(event) => deleted(chat, [one], event)}>×</button></li>`;
}

function NameField({ title, named }) {
  const field = useRef(null);
  const left = useRef(false); // A key ends it, and then the field loses the focus too.
  useLayoutEffect(() => {
    field.current.value = title; // In the markup it would take back what is typed whenever the page is drawn.
    field.current.focus();
    field.current.select();
  }, []);
  const ends = (value) => {
    if (left.current) return;
    left.current = true;
    named(value);
  };
  const pressed = (event) => {
    if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
    event.stopPropagation();
    event.preventDefault();
    ends(event.key === "Enter" ? field.current.value : null);
  };
  return html`<input ref=${field} class="wide" aria-label=${t("title")} dir="auto" maxlength="200" onKeyDown=${pressed} onBlur=${() => ends(field.current.value)} />`;
}

// What was deleted a moment ago, and how to have it again.
export function Undo({ chat }) {
  const { gone } = chat;
  const waits = (on) => chat.forgetLater(chat.gone, on);
  const undo = async () => {
    await chat.undo();
    document.getElementById("content").focus();
  };
  return html`<div class="undo" role="status" aria-live="polite" onMouseEnter=${() => waits(true)} onMouseLeave=${() => waits(false)} onFocusIn=${() => waits(true)} onFocusOut=${() => waits(false)}>
    ${gone.length > 0 && html`<p>${gone.length === 1 ? t("deletedNamed", { name: revealed(gone[0].title) || t("untitled") }) : t("deletedMany", { count: gone.length })}
      <button type="button" id="undo" onClick=${undo}>${t("undo")}</button></p>`}</div>`;
}
