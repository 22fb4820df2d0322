// The part of YAML that headers are written in: mappings and lists by indentation or in brackets, scalars of one line,
// comments. What YAML has beyond that is `Unsupported`; what is no YAML, or has no place in a header, is `Malformed`.

import { Flow, checkDepth } from "./flow.js";
import { Malformed, QUOTED, Scalar, Unsupported, plainScalar, scalar } from "./scalars.js";

export { Malformed, Unsupported };

/** The value of one document. `texts: ["version"]` gives these keys of the root as they are written. */
export function parseYaml(source, { texts = [] } = {}) {
  const node = new Document(source).root();
  const value = plain(node);
  for (const key of texts) {
    if (node instanceof Map && node.has(key)) value[key] = node.get(key) instanceof Scalar ? node.get(key).text : "";
  }
  return value;
}

function plain(node) {
  if (node instanceof Scalar) return node.value;
  if (Array.isArray(node)) return node.map(plain);
  return Object.fromEntries([...node].map(([key, value]) => [key, plain(value)]));
}

class Document {
  constructor(source) {
    if (/[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u.test(source))
      throw new Malformed("a control character");
    if (/[\x85\u2028\u2029\ufeff]/.test(source)) throw new Unsupported("another line break");
    this.lines = contentLines(source);
    this.at = 0;
  }

  get line() {
    return this.lines[this.at];
  }

  root() {
    if (this.line === undefined) return new Scalar("", true);
    const node = this.block(-1, 1);
    if (this.line !== undefined) throw new Malformed(`${this.line.text} stands at no level`);
    return node;
  }

  /** The node of the lines that are indented further than `parent`. */
  block(parent, depth) {
    const { line } = this;
    if (line === undefined || line.indent <= parent) return new Scalar("", true);
    if (isItem(line.text)) return this.list(line.indent, depth);
    if (splitKey(line.text)) return this.mapping(line.indent, depth);
    this.at += 1;
    return this.inline(line.text, depth, parent);
  }

  mapping(indent, depth) {
    checkDepth(depth);
    const found = new Map();
    while (this.line?.indent === indent && !isItem(this.line.text)) {
      const pair = splitKey(this.line.text);
      if (!pair) throw new Malformed(`${this.line.text} is no key with a value`);
      if (found.has(pair.key)) throw new Malformed(`the key ${pair.key} stands twice`);
      this.at += 1;
      found.set(pair.key, this.value(pair.rest, indent, depth));
    }
    if (this.line?.indent > indent) throw new Malformed(`${this.line.text} is indented further than its neighbours`);
    return found;
  }

  /** What follows `key:`, on its line or below it. */
  value(rest, indent, depth) {
    if (rest) return this.inline(rest, depth + 1, indent);
    const list = this.line?.indent === indent && isItem(this.line.text);
    return list ? this.list(indent, depth + 1) : this.block(indent, depth + 1);
  }

  list(indent, depth) {
    checkDepth(depth);
    const found = [];
    while (this.line?.indent === indent && isItem(this.line.text)) {
      const rest = this.line.text.slice(1).trimStart();
      if (!rest) {
        this.at += 1;
        found.push(this.block(indent, depth + 1));
      } else if (this.line.text[1] === "\t") {
        throw new Unsupported("a tab behind a dash");
      } else {
        this.lines[this.at] = { indent: indent + this.line.text.length - rest.length, text: rest };
        found.push(this.block(indent, depth + 1));
      }
    }
    if (this.line?.indent > indent) throw new Malformed(`${this.line.text} is indented further than its neighbours`);
    return found;
  }

  /** A scalar or brackets that begin on the line before; brackets may go on over further lines. */
  inline(text, depth, parent) {
    if (/^[[{]/.test(text)) {
      const flow = new Flow(text, () => this.more());
      const node = flow.node(depth);
      flow.end();
      return node;
    }
    const node = scalar(text);
    if (this.line !== undefined && this.line.indent > parent) this.refuseContinuation(node);
    return node;
  }

  refuseContinuation(node) {
    if (node.plain && !/:(?:[ \t]|$)/.test(this.line.text)) throw new Unsupported("a scalar of several lines");
    throw new Malformed(`${this.line.text} is indented further than its neighbours`);
  }

  /** The next line of brackets, at whatever level it stands. */
  more() {
    const { line } = this;
    if (line === undefined) throw new Malformed("brackets are not closed");
    this.at += 1;
    return line.text;
  }
}

/** Lines with content, without comments and the document's own marks. */
function contentLines(source) {
  const lines = source.split(/\r\n|\r|\n/);
  const found = [];
  let ended = false;
  lines.forEach((line, i) => {
    if (/^(?:---|\.\.\.)(?:[ \t]|$)/.test(line)) {
      if (line.slice(3).trim() && !/^[ \t]+#/.test(line.slice(3))) throw new Unsupported("content behind a mark");
      if (line.startsWith("---") && (found.length || ended || i > firstMark(lines)))
        throw new Malformed("a second document");
      ended = line.startsWith("...");
      return;
    }
    const [, indent, text] = /^( *)(.*)$/s.exec(line);
    const isBlank = !text.trim() || /^[ \t]*#/.test(text);
    if (isBlank && text[0] === "\t") throw new Unsupported("a tab in a blank line");
    if (isBlank) return;
    if (text[0] === "\t") throw new Malformed("a tab as indentation");
    if (ended) throw new Malformed("text behind the document");
    if (text[0] === "%" && !indent) throw new Unsupported("a directive");
    found.push({ indent: indent.length, text: withoutComment(text) });
  });
  return found;
}

function firstMark(lines) {
  return lines.findIndex((line) => /^---/.test(line));
}

/** A `#` behind a blank begins a comment, outside quotes; a quote inside a word is a character like others. */
function withoutComment(text) {
  let quote = "";
  let last = "";
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    const before = text[i - 1] ?? " ";
    if (quote) {
      if (c === "\\" && quote === '"') i += 1;
      else if (c === quote) quote = "";
    } else if (
      (c === '"' || c === "'") &&
      /[ \t[{,:]/.test(before) &&
      (last === "" || /[[{,:]/.test(last) || (last === "-" && i === text.search(/[^- \t]/)))
    ) {
      quote = c;
    } else if (c === "#" && /[ \t]/.test(before)) {
      return text.slice(0, i).trimEnd();
    }
    if (c !== " " && c !== "\t") last = c;
  }
  return text.trimEnd();
}

const isItem = (text) => /^-(?:[ \t]|$)/.test(text);

/** `key: rest` → both; null where the text is no key with a colon. */
function splitKey(text) {
  if (/^[[{]/.test(text)) {
    if (/[\]}][ \t]*:(?:[ \t]|$)/.test(text)) throw new Malformed("a key is no word");
    return null;
  }
  if (/^\?(?:[ \t]|$)/.test(text)) throw new Malformed("a key is no word");
  const quoted = QUOTED.exec(text);
  if (!quoted && /^["']/.test(text)) throw new Unsupported("a quoted scalar of several lines");
  if (quoted) {
    const rest = text.slice(quoted[0].length);
    const colon = /^[ \t]*:(?:[ \t]+|$)/.exec(rest);
    return colon && { key: scalar(quoted[0]).text, rest: rest.slice(colon[0].length) };
  }
  const found = /^(.*?)[ \t]*:(?:[ \t]+(.*)|)$/s.exec(text);
  if (!found) return null;
  if (found[1].length > 1024) throw new Malformed("a key is longer than 1,024 characters");
  if (found[1] === "") throw new Malformed("a key is missing");
  return { key: plainScalar(found[1]).text, rest: found[2] ?? "" };
}
