// The list of conversations.
import { html, download, revealed, useRef, useState } from "./ui.js";
import { t } from "./strings.js";

export function Rail({ chat, chosen }) {
  const file = useRef(null);
  const [said, setSaid] = useState("");
  const read = async ({ target }) => {
    try {
      setSaid(t("imported", { count: await chat.taken(await target.files[0].text()) }));
    } catch {
      setSaid(t("notImported"));
    }
    target.value = "";
  };
  return html`<nav class="rail" aria-label=${t("conversations")}>
    <button type="button" class="wide" onClick=${() => { chat.create(); chosen(); }}>${t("newConversation")}</button>
    <ul>${chat.conversations.map((one) => html`<li key=${one.id}>
      <button type="button" class=${chat.running(one) ? "name busy" : "name"} dir="auto" aria-current=${one.id === chat.current.id ? "true" : "false"} onClick=${() => { chat.open(one); chosen(); }}>${revealed(one.title) || t("untitled")}</button>
      <button type="button" class="small" aria-label=${t("deleteNamed", { name: revealed(one.title) })} onClick=${() => chat.remove(one)}>×</button></li>`)}</ul>
    <div class="row"><button type="button" onClick=${() => download("antiphon-conversations.json", chat.exported())}>${t("exportAll")}</button>
      <button type="button" onClick=${() => file.current.click()}>${t("importAll")}</button>
      <input type="file" accept="application/json,.json" hidden ref=${file} onChange=${read} aria-label=${t("importAll")} /></div>
    <p class="hint" role="status">${said}</p>
  </nav>`;
}
