// The exact requests and answers of this tab, and each as a command or a program.
import { html, copy, revealed, seconds, useState } from "./ui.js";
import { address, records } from "./api.js";
import { askControls } from "./first_view.js";
import { useKept } from "./live.js";
import { t } from "./strings.js";

const SHOWN = 500;
const ASKS = ["/v1/responses", "/v1/chat/completions", "/v1/completions"];
const asks = (record) => record.method === "POST" && ASKS.includes(record.path);
const answers = (record) => asks(record) || (record.method === "GET" && record.path.startsWith("/v1/responses/"));
const pretty = (value) => (value === undefined ? "" : JSON.stringify(value, null, 2));

// The requests of the conversations, the last question first; those that the page sends for itself only where they are wanted.
export function WireView({ chat }) {
  const [chosen, setChosen] = useState(null);
  const [filter, setFilter] = useState("");
  const [own, setOwn] = useKept("wire-own", false);
  const listed = own ? records : records.filter(answers);
  const record = listed.includes(chosen) ? chosen : listed.find(asks) ?? listed[0];
  const toggle = html`<label class="check"><input type="checkbox" checked=${own} onChange=${(event) => setOwn(event.target.checked)} /> ${t("ownTraffic")}</label>`;
  if (!record) return html`<section class="view"><h2>${t("wire")}</h2><p>${t("noRequestsNote")}</p>
    <p><button type="button" class="primary" onClick=${() => askControls(chat, "wire")}>${t("askExample")}</button> <span class="hint">${t("card_readAsk")}</span></p>${toggle}</section>`;
  const events = record.events.filter((event) => event.data.includes(filter));
  return html`<section class="view"><h2>${t("wire")}</h2>
    <label>${t("requests")}<select value=${String(listed.indexOf(record))} onChange=${(event) => setChosen(listed[event.target.value])}>
      ${listed.map((one, at) => html`<option value=${String(at)}>${one.at.toLocaleTimeString()} ${one.method} ${one.path} ${one.status ?? one.error ?? "…"}</option>`)}</select></label>
    ${toggle}
    <h3>${t("request")}</h3>
    <p class="row">${Object.entries(COPIES).map(([name, write]) => html`<button type="button" onClick=${() => copy(write(record))}>${t("copyAs", { name })}</button>`)}</p>
    <pre class="plain" tabindex="0">${`${record.method} ${record.path}\n${revealed(pretty(record.body).slice(0, 100_000))}`}</pre>
    <h3>${t("answer")} ${record.status ?? ""}</h3>
    <pre class="plain" tabindex="0">${Object.entries(record.answered ?? {}).map(([name, value]) => `${name}: ${value}\n`).join("")}${record.text ? `\n${revealed(record.text.slice(0, 100_000))}` : ""}</pre>
    ${record.events.length > 0 && html`<h3>${t("events")} (${events.length})</h3>
      <label>${t("filter")}<input type="search" value=${filter} onInput=${(event) => setFilter(event.target.value)} /></label>
      <ol class="events" tabindex="0" aria-label=${t("events")}>${events.slice(0, SHOWN).map((event) => html`<li><time>+${seconds(event.at)}</time> <code>${revealed(event.data.slice(0, 2000))}</code></li>`)}</ol>`}
  </section>`;
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const KEY = "ANTIPHON_API_KEY";

export const COPIES = {
  curl: ({ method, path, body }) => `curl -N -X ${method} ${quoted(address(path))} \\\n  -H "authorization: Bearer $${KEY}"${body === undefined ? "" : ` \\\n  -H 'content-type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`}`,
  Python: ({ method, path, body }) => [
    "import json, os, urllib.request", "",
    `request = urllib.request.Request(${JSON.stringify(address(path))}, method=${JSON.stringify(method)}, headers={`,
    `    "authorization": "Bearer " + os.environ.get("${KEY}", "none"), "content-type": "application/json",`, "})",
    ...(body === undefined ? [] : [`request.data = json.dumps(json.loads(r'''${JSON.stringify(body).replaceAll("'''", "'\\u0027'")}''')).encode()`]),
    "for line in urllib.request.urlopen(request):", '    print(line.decode(), end="")', "",
  ].join("\n"),
  Node: ({ method, path, body }) => [
    `const answer = await fetch(${JSON.stringify(address(path))}, {`, `  method: ${JSON.stringify(method)},`,
    `  headers: { authorization: \`Bearer \${process.env.${KEY} ?? "none"}\`, "content-type": "application/json" },`,
    ...(body === undefined ? [] : [`  body: JSON.stringify(${JSON.stringify(body)}),`]), "});",
    "for await (const part of answer.body) process.stdout.write(part);", "",
  ].join("\n"),
};
