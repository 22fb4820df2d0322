// Scalars of the part of YAML that headers are written in, and what is wrong with others.

export class Malformed extends Error {}
export class Unsupported extends Error {}

const NULLS = /^(?:~|null|Null|NULL|)$/;
const TRUE = /^(?:yes|Yes|YES|true|True|TRUE|on|On|ON)$/;
const FALSE = /^(?:no|No|NO|false|False|FALSE|off|Off|OFF)$/;
const INTEGER = /^[-+]?(?:0|[1-9][0-9_]*)$/;
const FLOAT = /^[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?$/;
const OTHER_NUMBER =
  /^[-+]?(?:0[0-9_bxa-fA-F]+|\.[0-9_]+.*|\.(?:inf|Inf|INF|nan|NaN|NAN)|[0-9][0-9_]*(?::[0-5]?[0-9])+.*)$/;
/** A whole scalar between quotes, at the beginning of a text. */
export const QUOTED = /^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/;
const ESCAPES = {
  0: "\0",
  a: "\x07",
  b: "\b",
  t: "\t",
  n: "\n",
  v: "\v",
  f: "\f",
  r: "\r",
  e: "\x1b",
  " ": " ",
  '"': '"',
  "/": "/",
  "\\": "\\",
  N: "\x85",
  _: "\xa0",
};

/** A scalar: its text, and the value that YAML takes a plain one for. */
export class Scalar {
  constructor(text, plain) {
    this.text = text;
    this.plain = plain;
  }

  get value() {
    const { text } = this;
    if (!this.plain) return text;
    if (NULLS.test(text)) return null;
    if (TRUE.test(text)) return true;
    if (FALSE.test(text)) return false;
    if (INTEGER.test(text) || FLOAT.test(text)) return Number(text.replaceAll("_", ""));
    if (OTHER_NUMBER.test(text)) throw new Unsupported(`the number ${text}`);
    return text;
  }
}

/** The scalar that a text is, where it is no key. */
export function scalar(text) {
  if (text[0] === '"' || text[0] === "'") return quotedScalar(text);
  if (/:(?:[ \t]|$)/.test(text)) throw new Malformed("a mapping stands where a value is");
  return plainScalar(text);
}

/** The scalar without quotes that a text is. */
export function plainScalar(text) {
  if (/^[&*]/.test(text)) throw new Malformed("anchors and aliases have no place in a header");
  if (/^!/.test(text)) throw new Malformed("tags have no place in a header");
  if (/^[|>]/.test(text)) throw new Unsupported("a block of text");
  if (/^[,[\]{}#%@`]/.test(text) || /^[-?:](?:[ \t]|$)/.test(text)) throw new Malformed(`${text[0]} begins no word`);
  return new Scalar(text, true);
}

function quotedScalar(text) {
  const found = /^(?:"((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)')$/s.exec(text);
  if (!found) {
    if (QUOTED.test(text)) throw new Malformed("text behind a quoted scalar");
    throw new Unsupported("a quoted scalar of several lines");
  }
  return new Scalar(found[2] === undefined ? unescaped(found[1]) : found[2].replaceAll("''", "'"), false);
}

function unescaped(text) {
  return text.replace(/\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)/gs, (_, escape) => {
    if (escape.length > 1) return codePoint(parseInt(escape.slice(1), 16));
    if (escape === "L" || escape === "P") return escape === "L" ? "\u2028" : "\u2029";
    if (!(escape in ESCAPES)) throw new Malformed(`\\${escape} is no escape`);
    return ESCAPES[escape];
  });
}

function codePoint(code) {
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) throw new Malformed("an escape names no character");
  return String.fromCodePoint(code);
}
