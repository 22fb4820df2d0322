// The prompt as the model reads it: each message a row, each token a pill.
import { html, copy, revealed, useEffect, useMemo, useState } from "./ui.js";
import { call } from "./api.js";
import { t } from "./strings.js";
import { functionsOf, messagesOf } from "./turn.js";

const MOST_PILLS = 1500;
const FORMS = { text: "form_text", tokens: "form_tokens", ids: "form_ids", hex: "form_hex" };
const KINDS = [["channel", /channel/i], ["constrain", /constrain/i], ["return", /return/i], ["call", /call|tool/i], ["message", /message|header/i], ["start", /start|end|begin|turn|bos|eos|eot|eom|<\/?s>/i]];

export const kindOf = (spelling) => KINDS.find(([, pattern]) => pattern.test(spelling))?.[0] ?? "other";
const opens = (spelling) => /start(?!.*header.*end)|begin/i.test(spelling) && !/end/i.test(spelling);
const closes = (spelling) => /end(?!_header)|eot|eom|eos|call\|>|return|<\/s>/i.test(spelling) && !/header/i.test(spelling);

// Pieces by messages: a row begins where a control opens one, or after one that closes one.
export function rowsOf(pieces) {
  const rows = [];
  let fresh = true;
  for (const piece of pieces) {
    const spelling = piece.control ?? "";
    if (fresh || (spelling && opens(spelling) && rows.at(-1).some((one) => one.text?.trim()))) rows.push([]);
    fresh = Boolean(spelling) && closes(spelling);
    rows.at(-1).push(piece);
  }
  return rows;
}

export const glyphs = (text) => revealed(text.replaceAll(" ", "·").replaceAll("\n", "↵").replaceAll("\t", "→"));

const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

export function textOfToken(hex) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytesOf(hex));
  } catch {
    return hex.replace(/../g, "\\x$&"); // Part of a character.
  }
}

export function EnvelopesView({ chat }) {
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState("");
  const [form, setForm] = useState("tokens");
  const path = chat.path();
  const asked = path.at(-1)?.role === "assistant" ? path.slice(0, -1) : path;
  const marked = `${chat.current.id} ${asked.at(-1)?.id} ${JSON.stringify(chat.current.settings)}`;
  useEffect(() => {
    let wanted = true;
    setProblem("");
    if (!asked.length) return setFound(null);
    rendered(chat.current.settings, asked).then((answer) => wanted && setFound(answer), (error) => wanted && (setProblem(error.message), setFound(null)));
    return () => { wanted = false; };
  }, [marked]);
  const rows = useMemo(() => (found ? rowsOf(found.pieces) : []), [found]);
  return html`<section class="view"><h2>${t("envelopes")}</h2>
    <p class="hint">${t("envelopesNote")}</p>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!asked.length && html`<p class="hint">${t("noMessages")}</p>`}
    ${found && html`<div class="row"><fieldset><legend>${t("form")}</legend>${Object.entries(FORMS).map(([one, word]) => html`<label class="check" key=${one}><input type="radio" name="form" checked=${form === one} onChange=${() => setForm(one)} /> ${t(word)}</label>`)}</fieldset></div>
      <p class="hint">${found.model} · ${found.format} · ${t("tokensInAll", { count: found.ids.length })}</p>
      <p class="row"><button type="button" onClick=${() => copy(found.text)}>${t("copyAs", { name: t("form_text") })}</button>
        <button type="button" onClick=${() => copy(found.ids.join(" "))}>${t("copyAs", { name: t("form_ids") })}</button>
        <button type="button" onClick=${() => copy(`ids = [${found.ids.join(", ")}]`)}>${t("copyAs", { name: "Python" })}</button></p>
      <ol class="envelopes">${rows.map((row, place) => html`<${Row} key=${place} row=${row} form=${form} />`)}</ol>`}
  </section>`;
}

function rendered(settings, path) {
  const tools = functionsOf(settings.tools).map((one) => ({ type: "function", function: one }));
  return call("/v1/render", { body: {
    ...(settings.model && { model: settings.model }), ...(tools.length && { tools }),
    ...(settings.effort && { reasoning_effort: settings.effort }),
    messages: messagesOf(settings, path), return_piece_tokens: true,
  } });
}

function Row({ row, form }) {
  const [all, setAll] = useState(false);
  const tokens = row.flatMap((piece) => piece.tokens.map((token) => ({ ...token, control: piece.control })));
  const shown = all ? tokens : tokens.slice(0, MOST_PILLS);
  const spelled = row.some((piece) => /<\|[^|\s]{1,40}\|>|<\/?(?:s|think|tool_call)>|\[\/?INST\]/.test(piece.text ?? ""));
  return html`<li><p class="title">${nameOf(row)} <span class="state">${t("tokensInAll", { count: tokens.length })}</span></p>
    ${spelled && html`<p class="warning">${t("spelled")}</p>`}
    <div class="pills" dir="ltr">${form === "text"
      ? row.map((piece, place) => html`<span key=${place} class=${piece.control ? `pill k-${kindOf(piece.control)}` : "plain"} dir="auto">${revealed((piece.control ?? piece.text).slice(0, 20_000))}</span>`)
      : shown.map((token, place) => html`<${Pill} key=${place} token=${token} form=${form} />`)}</div>
    ${form !== "text" && shown.length < tokens.length && html`<button type="button" onClick=${() => setAll(true)}>${t("showTokens", { count: tokens.length })}</button>`}
  </li>`;
}

function Pill({ token, form }) {
  const text = token.control ?? glyphs(textOfToken(token.bytes));
  const bytes = token.bytes.replace(/../g, "$& ").trim();
  const body = { ids: String(token.id), hex: bytes }[form] ?? text;
  return html`<bdi class=${token.control ? `pill k-${kindOf(token.control)}` : `pill h${(token.id * 2654435761 % 4294967296) % 6}`} title=${`${token.id} · ${bytes} · ${text}`}>${body}${token.control && form === "tokens" ? html` <small>${token.id}</small>` : ""}</bdi>`;
}

// What stands between the control that opens a message and its body: its role, and in Harmony its channel.
function nameOf(row) {
  const header = row.find((piece) => piece.text?.trim())?.text ?? "";
  return header.trimStart().split("\n")[0].slice(0, 40) || row.find((piece) => piece.control)?.control || "…";
}
