// The exact requests and answers of this tab, and each as a command or a program.
import { html, copy, revealed, seconds, useState } from "./ui.js";
import { address, records } from "./api.js";
import { t } from "./strings.js";

const SHOWN = 500;
const pretty = (value) => (value === undefined ? "" : JSON.stringify(value, null, 2));

export function WireView() {
  const [chosen, setChosen] = useState(null);
  const [filter, setFilter] = useState("");
  const record = records.includes(chosen) ? chosen : records.find((one) => !one.aside) ?? records[0];
  if (!record) return html`<section class="view"><h2>${t("wire")}</h2><p class="hint">${t("noRequests")}</p></section>`;
  const events = record.events.filter((event) => event.data.includes(filter));
  return html`<section class="view"><h2>${t("wire")}</h2>
    <label>${t("requests")}<select value=${String(records.indexOf(record))} onChange=${(event) => setChosen(records[event.target.value])}>
      ${records.map((one, at) => html`<option value=${String(at)}>${one.at.toLocaleTimeString()} ${one.method} ${one.path} ${one.status ?? one.error ?? "…"}</option>`)}</select></label>
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
