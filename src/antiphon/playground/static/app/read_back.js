// A reply as it is read, piece by piece: a slider goes through the pieces, and what was read until there stands below.
import { html, revealed, useEffect, useState } from "./ui.js";
import { glyphs } from "./envelopes.js";
import { t } from "./strings.js";

const PACE = 60;
const AROUND = 60;

export function ReadBack({ reply }) {
  const { steps } = reply;
  const [at, setAt] = useState(steps.length);
  const [playing, setPlaying] = useState(false);
  useEffect(() => { setAt(steps.length); setPlaying(false); }, [steps]);
  useEffect(() => {
    if (!playing) return undefined;
    if (at >= steps.length) return setPlaying(false);
    const timer = setTimeout(() => setAt(at + 1), PACE);
    return () => clearTimeout(timer);
  }, [playing, at]);
  const { messages, aside } = readUntil(steps, at);
  const from = Math.max(0, Math.min(at - AROUND, steps.length - 2 * AROUND));
  return html`<section class="read" aria-label=${t("parsedTitle")}><h3>${t("parsedTitle")}</h3>
    <div class="acts"><button type="button" disabled=${playing} onClick=${() => { setAt(0); setPlaying(true); }}>▶ ${t("play")}</button>
      <label class="slider">${t("pieceOf", { at, count: steps.length })}<input type="range" min="0" max=${steps.length} value=${at} onInput=${(event) => { setPlaying(false); setAt(Number(event.target.value)); }} /></label></div>
    <div class="pills" dir="ltr">${from > 0 ? "… " : ""}${steps.slice(from, from + 2 * AROUND).map((step, place) => html`<bdi key=${from + place} class=${`pill${step.control ? " k-start" : ""}${from + place < at ? "" : " pill-ahead"}`}>${spelled(step)}</bdi>`)}${from + 2 * AROUND < steps.length ? " …" : ""}</div>
    ${messages.length === 0 && html`<p class="hint">${t("noMessageYet")}</p>`}
    ${messages.map((one, place) => html`<article key=${place} class="card"><p class="title">${one.header} <span class="state">${one.end === null || one.end === "none" ? t("stillOpen") : t("endedBy", { what: one.end })}</span></p>
      <div class="plain" dir="auto">${revealed(one.text.slice(0, 20_000))}</div></article>`)}
    ${aside.map((one, place) => html`<p key=${place} class="warning plain">${t("setAside", { code: one.incident })} ${revealed(one.text.slice(0, 500))}</p>`)}
  </section>`;
}

const spelled = (step) => (step.control ? revealed(step.control) : step.text ? glyphs(step.text) : "∎");

function readUntil(steps, count) {
  const messages = [];
  const aside = [];
  for (const { events } of steps.slice(0, count)) {
    for (const event of events) {
      if (event.type === "started") messages.push({ header: headerOf(event.message), text: "", end: null });
      else if (event.type === "text" && messages.length) messages.at(-1).text += event.text;
      else if (event.type === "ended") Object.assign(messages.at(-1), { header: headerOf(event.message), text: event.message.text ?? "", end: event.message.end ?? "none" });
      else if (event.type === "incident") aside.push(event);
    }
  }
  return { messages, aside };
}

const headerOf = (message) => [message.role, message.channel, message.recipient && `→ ${message.recipient}`, message.call_id].filter(Boolean).join(" · ");
