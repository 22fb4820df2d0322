// The chat: messages, tool calls, and the field to write in.
import { html, Component, copy, seconds, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";
import { keep, keptOf, useKept } from "./kept.js";
import { Markdown } from "./markdown.js";
import { t } from "./strings.js";
import { Card, problemOf } from "./card.js";
import { First } from "./first_view.js";
import { writes } from "./models.js";
import { hasSetting } from "./requests.js";
import { figuresOf } from "./time_view.js";
import { over, textOf } from "./turn.js";
import { Attach, Images, added, taking } from "./images.js";

const SHOWN = 60;

export function ChatView({ chat, cards }) {
  const path = chat.path();
  const versions = chat.versions();
  const growing = chat.growing;
  const names = cards.filter(writes).map((one) => one.id).join("\n");
  const [beside, setBeside] = useState(null); // The question whose answers stand side by side.
  useEffect(() => setBeside(null), [chat.current.id]);
  const list = useRef(null);
  const place = usePlace(chat, path, list);
  const from = Math.max(0, path.length - SHOWN - place.more);
  useEffect(() => setBeside(null), [chat.current.id]);
  return html`<div class="chat">
    <div class="messages" ref=${list} onScroll=${place.scrolled} tabindex="0" role="log" aria-label=${t("chat")} aria-busy=${growing ? "true" : "false"}>
      ${path.length === 0 && html`<${First} chat=${chat} cards=${cards} />`}
      ${chat.current.leftOut?.length > 0 && html`<p class="notice">${t("leftOutHere", { what: chat.current.leftOut.join(", ") })}</p>`}
      ${from > 0 && html`<button type="button" onClick=${() => place.showMore()}>${t("earlier", { count: from })}</button>`}
      ${path.slice(from).map((node) => html`<${Message} key=${node.id} node=${node} version=${versionOf(chat, node, beside)} chat=${chat} names=${names} beside=${beside} setBeside=${setBeside}
        count=${versions.get(node.parent)} last=${node.id === chat.current.leaf} running=${growing === node} />`)}
    </div>
    ${chat.durable && growing?.resumable && path.at(-2)?.text === t("card_lastAsk") && html`<p class="notice how" role="status">${t("lastHow")}</p>`}
    <${Writer} chat=${chat} />
  </div>`;
}

const END = { more: 0, top: 0, follow: true };

// Where the reader is in a conversation: at its end, which is followed, or at a place of theirs, or where a search led.
function usePlace(chat, path, list) {
  const { id } = chat.current;
  const [, draw] = useState(0);
  const place = useRef(null);
  if (place.current?.id !== id) place.current = { id, fresh: true, ...keptOf(`place ${id}`, END) };
  const target = path.findIndex((node) => node.id === chat.target);
  if (target >= 0) Object.assign(place.current, { follow: false, more: Math.max(place.current.more, path.length - SHOWN - target) });
  const set = (fields) => {
    const { more, top, follow } = Object.assign(place.current, fields);
    keep(`place ${id}`, follow ? undefined : { more, top, follow });
  };
  useLayoutEffect(() => {
    const { follow, fresh, top } = place.current;
    if (follow) list.current.scrollTop = list.current.scrollHeight;
    else if (fresh) list.current.scrollTop = top;
    place.current.fresh = false;
    if (target < 0) return;
    chat.target = undefined;
    const found = document.getElementById(`m${path[target].id}`);
    found.scrollIntoView({ block: "center" });
    found.tabIndex = -1; // Until the focus goes elsewhere: a click into a message gives it none.
    found.addEventListener("blur", () => found.removeAttribute("tabindex"), { once: true });
    found.focus({ preventScroll: true });
  });
  return {
    more: place.current.more,
    scrolled: ({ target: { scrollHeight, scrollTop, clientHeight } }) => set({ top: scrollTop, follow: scrollHeight - scrollTop - clientHeight < 40 }),
    showMore: () => { set({ follow: false, more: place.current.more + SHOWN }); draw((count) => count + 1); },
  };
}

class Message extends Component {
  shouldComponentUpdate(next) {
    return ["node", "version", "count", "last", "running", "names", "beside"].some((name) => next[name] !== this.props[name]);
  }

  render({ node, chat, last, names, beside, setBeside }) {
    if (node.role === "user") return html`<${UserMessage} node=${node} chat=${chat} />`;
    const all = beside === node.parent ? besides(chat, node) : [];
    if (all.length < 2) return html`<${Answer} node=${node} chat=${chat} last=${last} names=${names} setBeside=${setBeside} />`;
    return html`<div class="beside" role="group" aria-label=${t("sideBySide")}>${all.map((one) => html`<div key=${one.id} class="column"><${Answer} node=${one} chat=${chat} last=${false} />
      ${over(one) && html`<button type="button" onClick=${() => { chat.select(one); setBeside(null); }}>${t("goOnWith")}</button>`}</div>`)}</div>`;
  }
}

// The answer and the one before it to the same question; of its first, the one after it.
function besides(chat, node) {
  const all = chat.siblings(node);
  const place = Math.max(1, all.findIndex((one) => one.id === node.id));
  return all.slice(place - 1, place + 1);
}

const versionOf = (chat, node, beside) => (beside !== null && beside === node.parent ? besides(chat, node).map((one) => one.version).join() : node.version);

// Asks another model the same question, and puts its answer beside this one.
function Compare({ node, chat, names, setBeside }) {
  const others = names.split("\n").filter((one) => one && one !== node.model);
  if (!others.length) return null;
  const ask = ({ target }) => {
    const { model } = chat.current.settings;
    chat.set({ model: target.value });
    setBeside(node.parent);
    chat.again(node);
    chat.set({ model }); // It was for this answer alone.
  };
  return html`<select class="small" aria-label=${t("compareWith")} onChange=${ask}><option value="">${t("compareWith")}</option>${others.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>`;
}

function Versions({ node, chat, setBeside }) {
  const all = chat.siblings(node);
  const place = all.findIndex((one) => one.id === node.id);
  if (all.length < 2) return null;
  return html`<span class="versions">
    <button type="button" class="small" aria-label=${t("previous")} disabled=${place === 0} onClick=${() => chat.select(all[place - 1])}>‹</button>
    ${place + 1}/${all.length}
    <button type="button" class="small" aria-label=${t("next")} disabled=${place === all.length - 1} onClick=${() => chat.select(all[place + 1])}>›</button>
    ${setBeside && html`<button type="button" class="small" onClick=${() => setBeside(node.parent)}>${t("sideBySide")}</button>`}
  </span>`;
}

function UserMessage({ node, chat }) {
  const [text, setText] = useKept(`edit ${node.id}`, null);
  const [all, setAll] = useKept(`all ${node.id}`, false);
  const field = useRef(null);
  const edits = text !== null;
  const edited = useRef(edits); // A field that was open before takes no focus when it is drawn again.
  useLayoutEffect(() => { // Before the reader can have selected anything in it.
    if (edits && !edited.current) {
      field.current.focus();
      field.current.setSelectionRange(text.length, text.length);
    }
    edited.current = edits;
  }, [edits]);
  const left = () => {
    setText(null);
    document.getElementById("message")?.focus();
  };
  const sent = (event) => {
    event.preventDefault();
    left();
    chat.say(text, node.images, node.parent);
  };
  const pressed = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    left();
  };
  const shown = all ? node.text : node.text.slice(0, 20_000);
  return html`<article class="message user" id=${`m${node.id}`} aria-label=${t("you")}>
    ${text === null
      ? html`<${Images} images=${node.images} /><div class="body plain" dir="auto">${shown}</div>
        ${shown.length < node.text.length && html`<button type="button" onClick=${() => setAll(true)}>${t("showAll", { count: node.text.length })}</button>`}`
      : html`<form onSubmit=${sent}><textarea ref=${field} aria-label=${t("edit")} dir="auto" rows="3" value=${text} onKeyDown=${pressed} onInput=${(event) => setText(event.target.value)}></textarea>
        <button type="submit">${t("save")}</button> <button type="button" onClick=${left}>${t("cancel")}</button></form>`}
    <footer><${Versions} node=${node} chat=${chat} />
      ${text === null && html`<button type="button" class="small" onClick=${() => setText(node.text)}>${t("edit")}</button>
      <button type="button" class="small" onClick=${() => copy(node.text)}>${t("copy")}</button>`}</footer>
  </article>`;
}

function Answer({ node, chat, last, names, setBeside }) {
  const whole = over(node);
  const model = node.model ?? node.settings?.model;
  return html`<article class="message answer" id=${`m${node.id}`} aria-label=${t("assistant")} data-status=${node.status} data-node=${node.id}>
    <p class="who">${model || t("assistant")}</p>
    ${!whole && !node.items.length && html`<${Thinking} node=${node} />`}
    ${whole && node.usage?.reasoning > 0 && html`<p class="hint">${t("thought", { time: seconds(node.times.text ?? node.times.last ?? 0), count: node.usage.reasoning })}</p>`}
    ${chat.debug && node.reasoning && html`<details class="reasoning"><summary>${t("reasoning")}</summary><div class="plain" dir="auto">${node.reasoning}</div></details>`}
    ${groups(node.items).map((group, place) => Array.isArray(group)
      ? html`<div class="cards" key=${place}>${group.map((item) => html`<${Card} item=${item} node=${node} chat=${chat} live=${!whole} open=${whole && last} />`)}</div>`
      : html`<div key=${place} class=${group.phase === "commentary" ? "preamble" : "body"}><${Markdown} text=${group.text} /></div>`)}
    ${node.resumedAt !== undefined && html`<p class="hint" role="status">${t(node.status === "resuming" ? "resuming" : "resumed", { at: node.resumedAt + 1 })}</p>`}
    ${["stopped", "interrupted", "gone"].includes(node.status) && html`<p class="notice" role="status">${t(node.status === "stopped" && countOf(node) ? "stoppedAfter" : node.status, { count: countOf(node) })}</p>`}
    ${node.status === "done" && !["", "stop", "tool_calls"].includes(node.finish) && html`<p class="hint">${t("cutShort", { reason: node.finish })}</p>`}
    ${node.error && html`<${Failure} node=${node} chat=${chat} />`}
    ${whole && html`<footer>${setBeside && html`<${Versions} node=${node} chat=${chat} setBeside=${setBeside} />`}
      ${!node.error && html`<button type="button" class="small" onClick=${() => chat.again(node)}>${t("regenerate")}</button>`}
      ${last && isCut(node) && html`<button type="button" class="small" onClick=${() => chat.goOnWith(node)}>${t("continue")}</button>`}
      <button type="button" class="small" onClick=${() => copy(textOf(node))}>${t("copy")}</button>
      ${last && !node.error && html`<${Compare} node=${node} chat=${chat} names=${names} setBeside=${setBeside} />`}
      ${node.usage && html`<span class="hint figures" title=${t("usage", node.usage)}>${figuresOf(node).map((one) => html`<span key=${one}>${one}</span>`)}</span>`}</footer>`}
  </article>`;
}

const countOf = (node) => node.usage?.completion ?? node.progress?.completion_tokens ?? 0;

// Whether there is a text to go on with, which ended before its end.
function isCut(node) {
  const ended = node.status === "done" && !["length", "max_output_tokens"].includes(node.finish);
  return !ended && node.items.at(-1)?.kind === "text" && textOf(node) !== "";
}

// Texts one by one, calls that follow one another together.
function groups(items) {
  const found = [];
  for (const item of items) {
    if (item.kind === "text") found.push(item);
    else if (Array.isArray(found.at(-1))) found.at(-1).push(item);
    else found.push([item]);
  }
  return found;
}

// What an answer waits for before its first word, as far as its events say so.
function stepOf(node) {
  if (!node.resumable) return node.status === "waiting" ? "waiting" : "thinking";
  if (!node.responseId) return "waiting";
  if (node.times.admitted === undefined) return "queued";
  return node.times.first === undefined && !node.progress?.completion_tokens ? "reading" : "thinking";
}

function Thinking({ node }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 200);
    return () => clearInterval(timer);
  }, []);
  const word = stepOf(node);
  const { waiting, completion_tokens: count } = node.progress ?? {};
  const known = word === "queued" ? waiting > 1 : count > 0;
  return html`<p class="hint">${t(known ? `known_${word}` : word, { time: seconds(Date.now() - node.started), waiting, count })}</p>`;
}

function Failure({ node, chat }) {
  const { kind, message, until, code, requestId } = node.error;
  const [now, setNow] = useState(Date.now());
  const left = Math.max(0, Math.ceil((until - now) / 1000)) || 0;
  useEffect(() => {
    if (!until) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, [until]);
  const word = { rate: "rate", lost: "lost", busy: "busy", loading: "loading", offline: "offline", cut: "cut", key: "keyWrong" }[kind] ?? "refused";
  return html`<div class="failure" role="alert" data-kind=${kind}>
    <p>${t(word, { message })} ${code && html`<code>${code}</code>`}</p>
    ${requestId && html`<p class="hint">${t("requestId", { id: requestId })}</p>`}
    <button type="button" disabled=${left > 0} onClick=${() => chat.again(node)}>${left > 0 ? t("countdown", { count: left }) : t("retry")}</button>
  </div>`;
}

function Writer({ chat }) {
  const { text, images } = chat.draft;
  const [, draw] = useState(0);
  const [problem, setProblem] = useState("");
  const write = (fields) => { chat.write(fields); draw((count) => count + 1); };
  const add = (more) => write({ images: added(chat.draft.images, more) });
  const send = (event) => {
    event?.preventDefault();
    if (!(text.trim() || images.length) || chat.growing) return;
    const wrong = images.length && chat.current.settings.api === "completions" ? t("noImages") : wrongSetting(chat.current.settings);
    setProblem(wrong);
    if (wrong) return;
    write({ text: "", images: [] });
    chat.say(text, images);
  };
  const pressed = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
    if (event.key === "ArrowUp" && !text && chat.editLast()) event.preventDefault();
    if (event.key === "Escape" && chat.growing) {
      event.stopPropagation();
      chat.stop();
    }
  };
  return html`<form class="writer" onSubmit=${send} ...${taking(add)}>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <${Images} images=${images} remove=${(at) => write({ images: images.filter((_, place) => place !== at) })} />
    <div class="field"><${Attach} add=${add} /><textarea id="message" aria-label=${t("message")} placeholder=${t("message")} rows="1" dir="auto" value=${text} onInput=${(event) => write({ text: event.target.value })} onKeyDown=${pressed}></textarea>
    ${chat.growing
      ? html`<button type="button" key="stop" onClick=${() => chat.stop()}>${t("stop")}</button>`
      : html`<button type="submit" key="send" disabled=${!(text.trim() || images.length)}>${t("send")}</button>`}</div>
  </form>`;
}

function wrongSetting(settings) {
  for (const name of ["tools", "schema", "bias"]) {
    if (!settings[name].trim() || !hasSetting(settings.api, name)) continue;
    const problem = problemOf(settings[name]) || (name === "tools" && !Array.isArray(JSON.parse(settings.tools)) ? "[…]" : "");
    if (problem) return `${t(name)}: ${t("badJson", { error: problem })}`;
  }
  return "";
}
