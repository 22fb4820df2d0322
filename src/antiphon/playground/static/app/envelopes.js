// A prompt as the model read it, and the reply: each message a row, each token a pill.
import { html, copy, revealed, useEffect, useMemo, useState } from "./ui.js";
import { SPELLED, difference, foundIn, glyphs, kindOf, nameOf, rowsOf, spelledIn, textOfToken, tokensOf } from "./pieces.js";
import { both, ownersOf } from "./prompts.js";
import { askControls } from "./first_view.js";
import { t } from "./strings.js";
import { over } from "./turn.js";
export { glyphs, kindOf, rowsOf, textOfToken } from "./pieces.js";

const MOST_PILLS = 1500;
const FORMS = { text: "form_text", tokens: "form_tokens", ids: "form_ids", hex: "form_hex" };
const OWNERS = ["template", "system", "user", "assistant", "tool"];
const percent = (logprob) => `${(100 * Math.exp(logprob)).toFixed(logprob > -4.6 ? 1 : 3)} %`;
const level = (logprob) => (logprob > -0.22 ? 0 : logprob > -0.7 ? 1 : logprob > -2.3 ? 2 : 3);

export function EnvelopesView({ chat, cards }) {
  const [chosen, setChosen] = useState("");
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState("");
  const [form, setForm] = useState("tokens");
  const [wanted, setWanted] = useState("");
  const [shown, setShown] = useState("");
  const asked = chat.path();
  const path = asked.length ? asked : [{ id: "example", role: "user", text: t("card_readAsk") }];
  const answers = path.filter((node) => node.role === "assistant");
  const answer = path.at(-1)?.role === "user" ? null : answers.find((node) => node.id === chosen) ?? answers.at(-1);
  const before = answer ? answers[answers.indexOf(answer) - 1] : answers.at(-1);
  const settings = answer?.settings ?? chat.current.settings;
  const marked = `${chat.current.id} ${answer?.id ?? path.at(-1)?.id} ${answer && over(answer) ? answer.version : ""} ${chat.debug} ${JSON.stringify(settings)} ${cards.length}`;
  useEffect(() => {
    let wanted = true;
    setProblem("");
    both(chat, path, answer, before, settings).then((both) => wanted && setFound(both), (error) => wanted && (setProblem(error.message), setFound(null)));
    return () => { wanted = false; };
  }, [marked]);
  const rows = useMemo(() => (found ? rowsOf(found.prompt.pieces) : []), [found]);
  const templated = settings.api !== "completions"; // Else the prompt is a text, and nobody's but the user's.
  return html`<section class="view"><h2>${t("envelopes")}</h2>
    <p class="hint">${t("envelopesNote")}</p>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!asked.length && html`<p class="notice">${t("exampleShown")} <button type="button" onClick=${() => askControls(chat)}>${t("askExample")}</button></p>`}
    ${found && html`<div class="tools">
        <fieldset><legend>${t("form")}</legend>${Object.entries(FORMS).map(([one, word]) => html`<label class="check" key=${one}><input type="radio" name="form" checked=${form === one} onChange=${() => setForm(one)} /> ${t(word)}</label>`)}</fieldset>
        <input type="search" aria-label=${t("search")} placeholder=${t("search")} value=${wanted} onInput=${(event) => setWanted(event.target.value)} /></div>
      <div class="tools"><span class="hint">${[found.prompt.model, found.prompt.format, t("tokensInAll", { count: found.prompt.ids.length })].filter(Boolean).join(" · ")}</span>
        <span class="row"><button type="button" class="small" onClick=${() => copy(found.prompt.text)}>${t("copyAs", { name: t("form_text") })}</button>
        <button type="button" class="small" onClick=${() => copy(found.prompt.ids.join(" "))}>${t("copyAs", { name: t("form_ids") })}</button>
        <button type="button" class="small" onClick=${() => copy(`ids = [${found.prompt.ids.join(", ")}]`)}>${t("copyAs", { name: "Python" })}</button></span></div>
      ${found.prompt.unseen && html`<p class="hint">${t("unseenThoughts")}</p>`}
      ${answers.length > 1 && html`<div class="row"><label>${t("promptOf")}<select value=${answer?.id} onChange=${(event) => setChosen(event.target.value)}>
        ${answers.map((node, place) => html`<option value=${node.id} selected=${node.id === answer?.id}>${place + 1}. ${questionOf(path, node)}</option>`)}</select></label></div>`}
      ${templated && html`<label class="check"><input type="checkbox" checked=${shown === "owners"} onChange=${(event) => setShown(event.target.checked ? "owners" : "")} /> ${t("owners")}</label>`}
      ${found.former && html`<label class="check"><input type="checkbox" checked=${shown === "compared"} onChange=${(event) => setShown(event.target.checked ? "compared" : "")} /> ${t("compare")}</label>`}
      ${shown === "owners" && templated
        ? html`<${Owned} load=${() => ownersOf(chat, settings, path, answer)} marked=${marked} form=${form} wanted=${wanted.trim()} given=${found.prompt.given} />`
        : shown === "compared" && found.former ? html`<${Compared} former=${found.former} now=${found.prompt} form=${form} />` : html`<ol class="envelopes">
        ${rows.map((row, place) => html`<${Row} key=${place} row=${row} form=${form} wanted=${wanted.trim()} name=${nameOf(row)} given=${found.prompt.given} />`)}
        ${answer && html`<li class="divider" key="divider">${t("replyBelow")}</li><${Reply} key="reply" node=${answer} found=${found} form=${form} wanted=${wanted.trim()} />`}</ol>`}`}
  </section>`;
}

const questionOf = (path, node) => revealed((path[path.indexOf(node) - 1]?.text ?? "").trim().slice(0, 50));

// The conversation in the colours of those whose each token is.
function Owned({ load, marked, form, wanted, given }) {
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let current = true;
    load().then((owned) => current && (setProblem(""), setFound(owned)), (error) => current && (setFound(null), setProblem(error.message)));
    return () => { current = false; };
  }, [marked]);
  const rows = useMemo(() => (found ? rowsOf(found.pieces) : []), [found]);
  if (problem) return html`<p class="problem" role="alert">${problem}</p>`;
  if (!found) return null;
  const next = found.next_turn;
  return html`<p class="legend hint">${t("ownersNote")} ${OWNERS.map((owner) => html`<span key=${owner} class=${`pill owned o-${owner}`}>${t(`owner_${owner}`)}</span>`)}
      <span class="pill owned o-assistant sampled">${t("sampledToken")}</span><span class="pill owned o-assistant dropped">${t("droppedToken")}</span></p>
    <p role="status">${next ? t(next.cause ? "nextKeeps" : "nextKeepsAll", { kept: next.kept, count: found.ids.length, cause: next.cause }) : t("noNext")}</p>
    <ol class="envelopes">${rows.map((row, place) => html`<${Row} key=${place} row=${row} form=${form === "text" ? "tokens" : form} wanted=${wanted} name=${nameOf(row)} given=${given} />`)}</ol>`;
}

// What was sampled of it, as far as it may be seen.
function Reply({ node, found, form, wanted }) {
  const tokens = (node.tokens ?? []).map(([text, bytes, logprob, top]) => ({ text, bytes, logprob, top }));
  if (!tokens.length) return html`<${Spelled} reply=${found.reply} form=${form} wanted=${wanted} />`;
  const row = [{ text: tokens.map((one) => one.text).join(""), tokens }];
  return html`<${Row} row=${row} form=${form === "ids" ? "tokens" : form} wanted=${wanted} name=${t("assistant")} />
    <li class="legend hint" key="likely">${t("likely")}</li>
    ${found.sampled !== undefined && html`<li><p class="title">${t("sampled")} <span class="state">${t("tokensInAll", { count: node.sampled.length })}</span></p>
      <div class="pills" dir="auto">${form === "ids" ? node.sampled.join(" ") : revealed(found.sampled)}</div></li>`}`;
}

// The reply as the next prompt has it, where its own tokens are not known.
function Spelled({ reply, form, wanted }) {
  const rows = useMemo(() => rowsOf(reply).filter((row) => row.some((piece) => piece.control || piece.text.trim())), [reply]);
  return html`${rows.map((row, place) => html`<${Row} key=${place} row=${row} form=${form} wanted=${wanted} name=${place ? nameOf(row) : t("assistant")} />`)}
    <li class="legend hint" key="legend">${t("noTokens")}</li>`;
}

// `given`: what the client sent, in which a control may be spelled. What a template itself spells is no surprise.
function Row({ row, form, wanted, name, given = null, kind = "" }) {
  const [all, setAll] = useState(false);
  const [at, setAt] = useState(null);
  const tokens = useMemo(() => tokensOf(row), [row]);
  const hits = useMemo(() => foundIn(tokens, wanted), [tokens, wanted]);
  const spelling = useMemo(() => spelledIn(tokens, given), [tokens, given]);
  if (wanted && !hits.size) return null;
  const shown = all ? tokens : tokens.slice(0, MOST_PILLS);
  const moved = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || form === "text") return;
    event.preventDefault();
    setAt(Math.min(shown.length - 1, Math.max(0, (at ?? (step > 0 ? -1 : 1)) + step)));
  };
  const pressed = (event) => setAt(event.target.closest("[data-at]") ? Number(event.target.closest("[data-at]").dataset.at) : null);
  return html`<li class=${kind}><p class="title">${name} <span class="state">${t("tokensInAll", { count: tokens.length })}${wanted ? ` · ${t("found", { count: hits.size })}` : ""}</span></p>
    ${spelling.size > 0 && html`<p class="warning">${t("spelled")}</p>`}
    <div class="pills" dir="ltr" tabindex="0" role="group" aria-label=${name} onKeyDown=${moved} onClick=${pressed}>${form === "text"
      ? row.map((piece, place) => (piece.control ? html`<span key=${place} class=${`pill k-${kindOf(piece.control)}`}>${piece.control}</span>` : html`<${Text} key=${place} text=${piece.text} />`))
      : shown.map((token, place) => html`<${Pill} key=${place} place=${place} token=${token} form=${form} hit=${hits.has(place) || at === place} spells=${spelling.has(place)} />`)}</div>
    ${at !== null && shown[at] && form !== "text" && html`<p class="hint" role="status">${t("tokenNumber", { at })}: ${detailOf(shown[at])}</p>`}
    ${form !== "text" && shown.length < tokens.length && html`<button type="button" onClick=${() => setAll(true)}>${t("showTokens", { count: tokens.length })}</button>`}
  </li>`;
}

// A text in which what spells a control is marked.
function Text({ text }) {
  const shown = text.slice(0, 20_000);
  const parts = [];
  let from = 0;
  for (const match of shown.matchAll(SPELLED)) {
    parts.push(revealed(shown.slice(from, match.index)), html`<mark>${match[0]}</mark>`);
    from = match.index + match[0].length;
  }
  return html`<span class="plain" dir="auto">${parts}${revealed(shown.slice(from))}</span>`;
}

const hexOf = (token) => token.bytes.replace(/../g, "$& ").trim();
const glyphsOf = (token) => token.control ?? glyphs(textOfToken(token.bytes));

function detailOf(token) {
  const likely = token.logprob === undefined ? [] : [`${percent(token.logprob)} (${token.logprob.toFixed(3)})`];
  const others = token.top?.length ? [token.top.map(([text, logprob]) => `${glyphs(text)} ${percent(logprob)}`).join(", ")] : [];
  const whose = token.owner ? [t(`owner_${token.owner}`), ...(token.part ? [t(`part_${token.part}`)] : []), ...(token.sampled ? [t("sampledToken")] : []), ...(token.dropped ? [t("droppedToken")] : [])] : [];
  return [glyphsOf(token), ...whose, ...(token.id === undefined ? [] : [`${t("id")} ${token.id}`]), hexOf(token), ...likely, ...others].join(" · ");
}

function Pill({ token, form, place, hit, spells }) {
  const body = { ids: String(token.id), hex: hexOf(token) }[form] ?? glyphsOf(token);
  const colour = token.owner ? `owned o-${token.owner}${token.sampled ? " sampled" : ""}${token.dropped ? " dropped" : ""}${token.control ? " control" : ""}` : token.control ? `k-${kindOf(token.control)}` : token.logprob === undefined ? `h${(token.id * 2654435761 % 4294967296) % 6}` : `l${level(token.logprob)}`;
  return html`<bdi class=${`pill ${colour}${hit ? " hit" : ""}${spells ? " spells" : ""}`} data-at=${place} title=${detailOf(token)}>${body}${token.control && form === "tokens" ? html` <small>${token.id}</small>` : ""}</bdi>`;
}

// This prompt against the one before: what was kept, what is not there any more, what came.
function Compared({ former, now, form }) {
  const parts = useMemo(() => difference(tokensOf(former.pieces), tokensOf(now.pieces)), [former, now]);
  const row = (tokens) => [{ tokens, text: "" }];
  const shownAs = form === "text" ? "tokens" : form;
  return html`<p role="status">${t("compared", { kept: parts.kept + parts.end, lost: parts.lost.length, added: parts.added.length })}</p>
    <div class="bar-of-time" aria-hidden="true">${[["kept", parts.kept], ["changed", parts.lost.length], ["new", parts.added.length], ["kept", parts.end]].filter(([, count]) => count).map(([name, count]) => html`<span class=${`part p-${name}`} style=${{ flexGrow: count }}></span>`)}</div>
    <ol class="envelopes">${parts.lost.length > 0 && html`<${Pieces} key="lost" row=${row(parts.lost)} form=${shownAs} name=${t("lostTokens")} kind="lost" />`}
      ${parts.added.length > 0 && html`<${Pieces} key="added" row=${row(parts.added)} form=${shownAs} name=${t("newTokens")} kind="new" />`}</ol>`;
}

// Tokens that are taken from several pieces keep their controls.
function Pieces({ row, ...rest }) {
  const pieces = row[0].tokens.map((token) => ({ control: token.control, tokens: [token], text: "" }));
  return html`<${Row} row=${pieces} wanted="" ...${rest} />`;
}
