// Where the time of the answers went, what their prompts kept of the ones before, and what the conversation used in all.
import { html, revealed, seconds } from "./ui.js";
import { askControls } from "./first_view.js";
import { t } from "./strings.js";

const SHOWN = 20;
const durations = (header) => Object.fromEntries([...(header ?? "").matchAll(/(\w+);dur=([\d.]+)/g)].map(([, name, ms]) => [name, Number(ms)]));

// By the server's own clock where it says so in a header; of an answer that is written beside its request, by its events.
export function partsOf({ times, timing, usage, items }) {
  const server = durations(timing);
  const followed = times.admitted !== undefined && server.first === undefined;
  const head = followed ? times.head ?? server.plan ?? 0 : server.plan ?? 0;
  const queue = followed ? Math.max(0, times.admitted - head) : server.queue ?? 0;
  const prefill = followed ? Math.max(0, (times.first ?? times.last) - Math.max(head, times.admitted)) : server.first ?? 0;
  const begun = head + queue + prefill;
  const wrote = Math.max(begun, times.text ?? times.last ?? begun);
  const tools = toolTime(items);
  return [
    ["plan", head], ["queue", queue], ["prefill", prefill],
    [usage?.reasoning > 0 ? "thinkingPart" : "firstWord", wrote - begun],
    ["toolsPart", tools], ["answerPart", Math.max(0, (times.end ?? times.last ?? wrote) - wrote - tools)],
  ].filter(([, ms]) => ms >= 0.5);
}

// How long the tools of the server ran; calls beside each other count once.
function toolTime(items) {
  let sum = 0;
  let until = 0;
  const ran = items.filter((item) => item.kind === "server" && item.began !== undefined && item.ended !== undefined);
  for (const { began, ended } of ran.sort((one, other) => one.began - other.began)) {
    sum += Math.max(0, ended - Math.max(began, until));
    until = Math.max(until, ended);
  }
  return sum;
}

const answerTime = (node) => partsOf(node).find(([name]) => name === "answerPart")?.[1] ?? 0;
const rateOf = (tokens, ms) => (tokens && ms > 10 ? (tokens / (ms / 1000)).toFixed(tokens / ms < 0.1 ? 1 : 0) : null);
const written = (node) => (node.usage ? node.usage.completion - node.usage.reasoning : 0);

// What is written under an answer: tokens as the server counts them, and the seconds between its events here.
export function figuresOf(node) {
  const { times, usage } = node;
  const rate = node.resumedAt === undefined ? rateOf(usage.completion, (times.end ?? times.last) - times.first) : null; // What was read late says nothing of speed.
  return [
    t("figure_tokens", { count: usage.completion }), ...(rate ? [t("figure_rate", { rate })] : []),
    ...(times.first === undefined ? [] : [t("figure_first", { time: duration(times.first) })]),
    usage.cached ? t("figure_cached", { count: usage.prompt, cached: usage.cached }) : t("figure_prompt", { count: usage.prompt }),
  ];
}

const duration = (ms) => (ms < 1000 ? `${ms.toFixed(0)} ms` : seconds(ms));

export function TimeView({ chat }) {
  const answers = chat.path().filter((node) => node.role === "assistant" && node.times?.last);
  if (!answers.length) return html`<section class="view"><h2>${t("time")}</h2><p>${t("noAnswersNote")}</p><${Legend} />
    <button type="button" class="primary" onClick=${() => askControls(chat, "time")}>${t("askExample")}</button> <span class="hint">${t("card_readAsk")}</span></section>`;
  const [asked, answer] = chat.path();
  const first = asked && answer && chat.siblings(asked).length + chat.siblings(answer).length === 2 ? answer : null; // Nothing came before it, not even another version.
  return html`<section class="view"><h2>${t("time")}</h2>
    <${Totals} answers=${answers} />
    ${answers.slice(-SHOWN).reverse().map((node) => html`<${AnswerTime} key=${node.id} node=${node} first=${node === first} question=${chat.current.nodes[node.parent]?.text} />`)}</section>`;
}

function Totals({ answers }) {
  const used = answers.filter((node) => node.usage);
  const sum = (of) => used.reduce((all, node) => all + of(node), 0);
  const prompt = sum((node) => node.usage.prompt);
  const cached = sum((node) => node.usage.cached);
  const shown = [
    ["answers", answers.length], ["promptTokens", prompt.toLocaleString()], ["cachedShare", prompt ? `${Math.round((100 * cached) / prompt)} %` : "–"],
    ["completionTokens", sum((node) => node.usage.completion).toLocaleString()], ["rateOfTokens", rateOf(sum(written), sum(answerTime)) ?? "–"],
  ];
  return html`<dl class="totals" aria-label=${t("totals")}>${shown.map(([name, value]) => html`<div key=${name}><dt>${t(name)}</dt><dd>${value}</dd></div>`)}</dl>`;
}

// The parts that an answer may have, before there is one.
function Legend() {
  const parts = ["plan", "queue", "prefill", "thinkingPart", "toolsPart", "answerPart"];
  return html`<div class="timing"><div class="bar-of-time" aria-hidden="true">${[1, 2, 4, 5, 3, 9].map((share, at) => html`<span key=${at} class=${`part p-${parts[at]}`} style=${{ flexGrow: share }}></span>`)}</div>
    <dl>${parts.map((name) => html`<div key=${name}><dt><span class=${`key p-${name}`}></span>${t(name)}</dt></div>`)}</dl></div>`;
}

function AnswerTime({ node, first, question }) {
  const parts = partsOf(node);
  const rate = rateOf(written(node), answerTime(node));
  const share = node.usage?.prompt ? node.usage.cached / node.usage.prompt : 0;
  return html`<article class="timing" aria-label=${t("answer")}>
    <p class="title">${revealed((question ?? "").trim().slice(0, 80)) || t("answer")} <span class="state">${node.model}</span></p>
    <div class="bar-of-time" aria-hidden="true">${parts.flatMap(([name, ms]) => (name === "prefill" && share
      ? [["cached", ms * share], ["prefill", ms * (1 - share)]] : [[name, ms]])).map(([name, ms]) => html`<span key=${name} class=${`part p-${name}`} style=${{ flexGrow: ms }}></span>`)}</div>
    <dl>${parts.map(([name, ms]) => html`<div key=${name}><dt><span class=${`key p-${name}`}></span>${t(name)}</dt><dd>${duration(ms)}</dd></div>`)}
      ${share > 0 && html`<div><dt><span class="key p-cached"></span>${t("cachedPart")}</dt><dd>${Math.round(100 * share)} %</dd></div>`}
      ${rate && html`<div><dt>${t("rateOfTokens")}</dt><dd>${rate}</dd></div>`}</dl>
    ${node.usage && html`<p class="hint">${t("usage", node.usage)}</p>`}
    ${node.prefix && html`<${Prefix} prefix=${node.prefix} total=${node.usage?.prompt ?? 0} first=${first} />`}
    ${node.requestId && html`<p class="hint">${t("requestId", { id: node.requestId })}</p>`}
  </article>`;
}

function Prefix({ prefix, total, first }) {
  const { kept, former, lost } = prefix;
  if (former === null || first) return html`<h3>${t("prefix")}</h3><p>${t(first ? "firstPrompt" : "noFormer")}</p>`;
  return html`<h3>${t("prefix")}</h3>
    <div class="bar-of-time" aria-hidden="true"><span class="part p-kept" style=${{ flexGrow: kept }}></span><span class="part p-new" style=${{ flexGrow: Math.max(0, total - kept) }}></span></div>
    <p>${lost ? `${t("kept", { kept, former })} ${t("lostFrom", { at: lost.at, why: t(`cause_${lost.cause}`) })}` : t("keptAll", { former })}</p>`;
}
