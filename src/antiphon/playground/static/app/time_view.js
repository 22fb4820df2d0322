// Where the time of the last answer went, and what its prompt kept of the one before.
import { html, seconds } from "./ui.js";
import { t } from "./strings.js";

const durations = (header) => Object.fromEntries([...(header ?? "").matchAll(/(\w+);dur=([\d.]+)/g)].map(([, name, ms]) => [name, Number(ms)]));

export function partsOf(node) {
  const server = durations(node.timing);
  const begun = (server.plan ?? 0) + (server.queue ?? 0) + (server.first ?? 0);
  const said = Math.max(begun, node.times.text ?? node.times.last ?? begun);
  return [
    ["plan", server.plan ?? 0], ["queue", server.queue ?? 0], ["prefill", server.first ?? 0],
    [node.usage?.reasoning > 0 ? "thinkingPart" : "firstWord", said - begun], ["answerPart", Math.max(0, (node.times.end ?? node.times.last ?? said) - said)],
  ].filter(([, ms]) => ms > 0);
}

export function TimeView({ chat }) {
  const answers = chat.path().filter((node) => node.role === "assistant" && node.times?.last);
  if (!answers.length) return html`<section class="view"><h2>${t("time")}</h2><p class="hint">${t("noAnswers")}</p></section>`;
  return html`<section class="view"><h2>${t("time")}</h2>
    ${answers.slice(-20).reverse().map((node) => html`<${AnswerTime} key=${node.id} node=${node} />`)}</section>`;
}

function AnswerTime({ node }) {
  const parts = partsOf(node);
  const answer = parts.find(([name]) => name === "answerPart")?.[1] ?? 0;
  const rate = node.usage && answer ? (node.usage.completion / (answer / 1000)).toFixed(1) : null;
  return html`<article class="timing" aria-label=${t("answer")}>
    <div class="bar-of-time" aria-hidden="true">${parts.map(([name, ms]) => html`<span key=${name} class=${`part p-${name}`} style=${{ flexGrow: ms }}></span>`)}</div>
    <dl>${parts.map(([name, ms]) => html`<div key=${name}><dt><span class=${`key p-${name}`}></span>${t(name)}</dt><dd>${ms < 1000 ? `${ms.toFixed(0)} ms` : seconds(ms)}</dd></div>`)}
      ${rate && html`<div><dt>${t("rateOfTokens")}</dt><dd>${rate}</dd></div>`}</dl>
    ${node.usage && html`<p class="hint">${t("usage", node.usage)}</p>`}
    ${node.prefix && html`<${Prefix} prefix=${node.prefix} total=${node.usage?.prompt ?? 0} />`}
    ${node.requestId && html`<p class="hint">${t("requestId", { id: node.requestId })}</p>`}
  </article>`;
}

function Prefix({ prefix, total }) {
  const { kept, former, lost } = prefix;
  return html`<h3>${t("prefix")}</h3>
    <div class="bar-of-time" aria-hidden="true"><span class="part p-kept" style=${{ flexGrow: kept }}></span><span class="part p-new" style=${{ flexGrow: Math.max(0, total - kept) }}></span></div>
    <p>${former === null ? t("noFormer") : t("kept", { kept, former })} ${lost && t("lostAt", { at: lost.at, message: lost.message, cause: lost.cause })}</p>`;
}
