// Spelling: the nine controls, escapes, percent-encoding in heads, text from bytes (§3; A-O05, A-O22, A-O24).

const NAMES = ["start", "channel", "message", "call", "constrain", "return", "end", "literal", "endliteral"];
export const CONTROLS = NAMES.map((name) => `<|${name}|>`);
export const TOKEN = new RegExp(String.raw`<\|(?:${NAMES.join("|")})\|>`);
/** A control, or an escape: a control behind one more `<`. */
export const ESCAPE_OR_TOKEN = new RegExp(String.raw`(<?)(<\|(?:${NAMES.join("|")})\|>)`, "g");

const LONGEST = Math.max(...CONTROLS.map((control) => control.length));
const PREFIXES = new Set(CONTROLS.flatMap((control) => [...control].map((_, n) => control.slice(0, n)).slice(1)));

/** Where a tail begins that may yet become a control or an escape; the text's end when there is none. */
export function openTail(text, start) {
  const at = text.lastIndexOf("<");
  if (at < Math.max(start, text.length - LONGEST + 1) || !PREFIXES.has(text.slice(at))) return text.length;
  return at > start && text[at - 1] === "<" ? at - 1 : at;
}

const fatal = () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Bytes as text; a byte that is not UTF-8 becomes a lone surrogate, U+DC80 to U+DCFF. */
export function decode(bytes) {
  try {
    return fatal().decode(bytes);
  } catch {
    return decodeByteByByte(bytes);
  }
}

function decodeByteByByte(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length;) {
    const length = [4, 3, 2, 1].find((n) => isCharacter(bytes.subarray(i, i + n), n));
    text += length ? fatal().decode(bytes.subarray(i, i + length)) : String.fromCharCode(0xdc00 + bytes[i]);
    i += length ?? 1;
  }
  return text;
}

function isCharacter(bytes, length) {
  if (bytes.length !== length) return false;
  try {
    return [...fatal().decode(bytes)].length === 1;
  } catch {
    return false;
  }
}

/** A text as a body that reads as it: escaped, with literal blocks where an escape says it not (A-O22 … A-O25). */
export function spellBody(text) {
  const head = text.replace(/<+$/, "");
  const tail = text.slice(head.length);
  const escaped = (part) => part.replace(new RegExp(TOKEN, "g"), "<$&");
  const spelled = head.split(/((?<!<)<*[\udc80-\udcff]+)/).map((part, i) => (i % 2 ? literal(part) : escaped(part)));
  return spelled.join("") + (tail && literal(tail));
}

const literal = (text) => `<|literal|>${text}<|endliteral|>`;

/** A value for a head: it can neither end the head nor begin another attribute (A-O05). Null where nothing can be. */
export function encodeValue(value) {
  if (!value || !value.isWellFormed()) return null;
  return value.replace(/[^!#$&-;=?-{}~]/gu, (character) =>
    [...new TextEncoder().encode(character)]
      .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`)
      .join(""),
  );
}

/** The value of an attribute without its percent-encoding; as it stands where that is not UTF-8. */
export function decodeValue(value) {
  if (!value.includes("%") || !value.isWellFormed()) return value;
  const encoder = new TextEncoder();
  const parts = value
    .split(/%([0-9A-Fa-f]{2})/)
    .map((part, i) => (i % 2 ? [parseInt(part, 16)] : [...encoder.encode(part)]));
  try {
    return fatal().decode(Uint8Array.from(parts.flat()));
  } catch {
    return value;
  }
}
