// A chat template on the bench: what it writes, what is read back of it, and what it loses.
import { html, useState } from "./ui.js";
import { call } from "./api.js";
import { t } from "./strings.js";

export function TemplateView({ chat }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const check = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      const model = chat.current.settings.model;
      setFound(await call("/v1/templates/check", { body: { ...(text.trim() && { template: text }), ...(model && { model }) } }));
    } catch (error) {
      setFound(null);
      setProblem(error.message);
    }
    setBusy(false);
  };
  return html`<section class="view"><h2>${t("template")}</h2><p class="hint">${t("templateNote")}</p>
    <form onSubmit=${check}><label>${t("templateText")}<textarea class="code" rows="10" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
      <button type="submit" disabled=${busy}>${busy ? "…" : t("check")}</button></form>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${found && html`<div role="status"><p class=${found.ok ? "good" : "problem"}>${found.ok ? t("templateGood") : t("templateBad")}</p></div>
      ${Object.entries(found).filter(([name, value]) => name !== "ok" && value !== null && (!Array.isArray(value) || value.length)).map(([name, value]) => html`<details key=${name}>
        <summary>${name}</summary><pre class="plain" tabindex="0" dir="auto">${typeof value === "string" ? value : JSON.stringify(value, null, 2)}</pre></details>`)}`}
  </section>`;
}
