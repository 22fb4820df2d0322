// The list of conversations.
import { html, download, revealed, useRef, useState } from "./ui.js";
import { call } from "./api.js";
import { conversationOf } from "./conversation_of.js";
import { requestOf, serverCalls } from "./requests.js";
import { save } from "./save.js";
import { t } from "./strings.js";

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
  const read = async ({ target }) => {
    try {
      setSaid(t("imported", { count: await taken(chat, await target.files[0].text()) }));
    } catch (error) {
      setSaid(`${t("notImported")} ${error.message}`);
    }
    target.value = "";
  };
  const written = () => asOpenChatML(chat).then(setSaid, (error) => setSaid(error.message));
  return html`<nav class="rail" aria-label=${t("conversations")}>
    <button type="button" class="wide" onClick=${() => { chat.create(); chosen(); }}>${t("newConversation")}</button>
    <ul>${chat.conversations.map((one) => html`<li key=${one.id}>
      <button type="button" class=${chat.running(one) ? "name busy" : "name"} dir="auto" aria-current=${one.id === chat.current.id ? "true" : "false"} onClick=${() => { chat.open(one); chosen(); }}>${revealed(one.title) || t("untitled")}</button>
      <button type="button" class="small" aria-label=${t("deleteNamed", { name: revealed(one.title) })} onClick=${() => chat.remove(one)}>×</button></li>`)}</ul>
    <div class="row"><button type="button" onClick=${() => download("antiphon-conversations.json", chat.exported())}>${t("exportAll")}</button>
      <button type="button" onClick=${() => file.current.click()}>${t("importAll")}</button>
      <button type="button" disabled=${!chat.path().length} title=${t("asOpenChatML")} onClick=${written}>OpenChatML</button>
      <input type="file" hidden ref=${file} onChange=${read} aria-label=${t("importAll")} /></div>
    <p class="hint" role="status">${said}</p>
  </nav>`;
}
