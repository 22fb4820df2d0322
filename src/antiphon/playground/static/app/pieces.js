// A rendered prompt as rows of tokens: messages, what a control is, what is found in them, what two prompts have in common.
import { revealed } from "./ui.js";

const KINDS = [["channel", /channel/i], ["constrain", /constrain/i], ["return", /return/i], ["call", /call|tool/i], ["message", /message|header/i], ["start", /start|end|begin|turn|bos|eos|eot|eom|<\/?s>/i]];
export const SPELLED = /<\|[^|\s]{1,40}\|>|<\/?(?:s|think|tool_call)>|\[\/?INST\]/g;

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

// What stands between the control that opens a message and its body: its role, and in Harmony its channel.
export function nameOf(row) {
  const header = row.find((piece) => piece.text?.trim())?.text ?? "";
  return header.trimStart().split("\n")[0].slice(0, 40) || row.find((piece) => piece.control)?.control || "…";
}

export const tokensOf = (row) => row.flatMap((piece) => piece.tokens.map((token) => ({ ...token, control: piece.control })));

// Tokens as pieces again: a control by itself, all that is between two controls together.
export function piecesOf(tokens) {
  const pieces = [];
  for (const token of tokens) {
    if (token.control || !pieces.length || pieces.at(-1).control) pieces.push({ control: token.control, tokens: [] });
    pieces.at(-1).tokens.push(token);
  }
  return pieces.map((piece) => (piece.control ? piece : { ...piece, text: textOfToken(piece.tokens.map((token) => token.bytes).join("")) }));
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

// Tokens as one text, and where in it each begins; `controls` says what stands for a control.
function joined(tokens, controls) {
  const starts = [];
  let text = "";
  for (const token of tokens) {
    starts.push(text.length);
    text += token.control ? controls(token.control) : textOfToken(token.bytes);
  }
  return { starts, text };
}

function addPlaces(places, starts, at, end) {
  for (let place = starts.findLastIndex((start) => start <= at); place < starts.length && starts[place] < end; place += 1) places.add(place);
}

// The places of the tokens that a text is found in, or whose id it is.
export function foundIn(tokens, wanted) {
  const places = new Set();
  if (!wanted) return places;
  const { starts, text } = joined(tokens, (control) => control);
  tokens.forEach((token, place) => { if (String(token.id) === wanted) places.add(place); });
  const [where, what] = [text.toLowerCase(), wanted.toLowerCase()];
  for (let at = where.indexOf(what); at >= 0; at = where.indexOf(what, at + what.length)) addPlaces(places, starts, at, at + what.length);
  return places;
}

// The places of text tokens that spell a control, of those that are in `given`; null: any.
export function spelledIn(tokens, given = null) {
  const places = new Set();
  const { starts, text } = joined(tokens, () => "\u0000");
  for (const { 0: spelling, index } of text.matchAll(SPELLED)) if (given === null || given.includes(spelling)) addPlaces(places, starts, index, index + spelling.length);
  return places;
}

// What two prompts share at their beginning and at their end, and what is between: lost of the one, new in the other.
export function difference(former, now, same = (one, other) => one.id === other.id) {
  let kept = 0;
  while (kept < Math.min(former.length, now.length) && same(former[kept], now[kept])) kept += 1;
  let end = 0;
  while (end < Math.min(former.length, now.length) - kept && same(former[former.length - 1 - end], now[now.length - 1 - end])) end += 1;
  return { kept, lost: former.slice(kept, former.length - end), added: now.slice(kept, now.length - end), end };
}
