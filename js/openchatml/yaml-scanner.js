// YAML's tokens, as libyaml 0.2 has them, which reads headers in most languages: indentation becomes tokens of its own.

/** YAML that is malformed. `at` is its place in the source, `context` that of what began before it, or null. */
export class YamlError extends Error {
  constructor(message, at, context = null) {
    super(message);
    this.at = at;
    this.context = context;
  }
}

const FORBIDDEN = /[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;
const ESCAPES = {
  ...{ 0: "\0", a: "\x07", b: "\b", t: "\t", "\t": "\t", n: "\n", v: "\v", f: "\f", r: "\r", e: "\x1b" },
  ...{ " ": " ", '"': '"', "/": "/", "\\": "\\", N: "\x85", _: "\xa0", L: "\u2028", P: "\u2029" },
};
const URI = /^[\w\-;/?:@&=+$.!~*'()]/;
const URI_IN_BRACKETS = /^[\w\-;/?:@&=+$,.!~*'()[\]]/;
const HEX = { x: 2, u: 4, U: 8 };
const LONGEST_KEY = 1024;

/** The tokens of a source, `{type, at, text?, plain?}`; where it is malformed the last is `{type: "error", error}`. */
export function scan(source) {
  const scanner = new Scanner(source);
  try {
    scanner.run();
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    // A token that may turn out to be a key is read only when what follows it is known, and ends of blocks with what
    // ends them.
    const open = scanner.keys.filter(Boolean).map((key) => key.number);
    scanner.tokens.splice(Math.min(scanner.whole, ...open), Infinity, { type: "error", at: error.at, error });
  }
  return scanner.tokens;
}

class Scanner {
  constructor(source) {
    this.source = source;
    this.at = 0;
    this.lineAt = 0;
    this.line = 0;
    this.tokens = [];
    this.whole = 0; // tokens before the one that is being read
    this.indent = -1;
    this.indents = [];
    this.keys = [null]; // one possible simple key a flow level
    this.keyAllowed = true;
  }

  get flow() {
    return this.keys.length - 1;
  }
  get column() {
    return this.at - this.lineAt;
  }
  /** The character `n` ahead; "" at the end. */
  ahead(n = 0) {
    return this.source[this.at + n] ?? "";
  }
  isBlank(n = 0) {
    return this.ahead(n) === " " || this.ahead(n) === "\t";
  }
  isBreak(n = 0) {
    return this.ahead(n) === "\n" || this.ahead(n) === "\r";
  }
  /** Whether a blank, a line break or the end is `n` ahead. */
  isOver(n = 0) {
    return this.isBlank(n) || this.isBreak(n) || this.at + n >= this.source.length;
  }
  /** Whether a mark of documents stands here: `---` or `...`. */
  atMark(marks = /^(?:---|\.\.\.)$/) {
    return this.column === 0 && marks.test(this.source.slice(this.at, this.at + 3)) && this.isOver(3);
  }

  skipLine() {
    this.at += this.source.startsWith("\r\n", this.at) ? 2 : 1;
    this.lineAt = this.at;
    this.line += 1;
  }
  fail(message, context = null, at = this.at) {
    throw new YamlError(message, at, context);
  }
  push(type, length = 0, more = {}) {
    this.tokens.push({ type, at: this.at, ...more });
    this.at += length;
  }

  run() {
    const bad = FORBIDDEN.exec(this.source);
    if (bad) this.fail("a control character");
    for (;;) {
      this.whole = this.tokens.length;
      this.staleKeys();
      this.toToken();
      this.staleKeys();
      this.unroll(this.at < this.source.length ? this.column : -1);
      if (this.at >= this.source.length) {
        this.staleKeys(Infinity, Infinity); // the end is on a line of its own
        return this.push("end", 0, { at: Infinity });
      }
      this.token();
    }
  }

  toToken() {
    for (;;) {
      while (this.ahead() === " " || (this.ahead() === "\t" && (this.flow || !this.keyAllowed))) this.at += 1;
      if (this.ahead() === "#") while (this.at < this.source.length && !this.isBreak()) this.at += 1;
      if (!this.isBreak()) return;
      this.skipLine();
      if (!this.flow) this.keyAllowed = true;
    }
  }

  token() {
    const next = this.ahead();
    if (this.column === 0 && next === "%") return this.directive();
    if (this.atMark()) return this.mark(next === "-" ? "document" : "document end");
    if (next === "[" || next === "{") return this.opens(next);
    if (next === "]" || next === "}") return this.closes(next);
    if (next === ",") return this.entry(",");
    if (next === "-" && this.isOver(1)) return this.entry("-");
    if (next === "?" && (this.flow || this.isOver(1))) return this.key();
    if (next === ":" && (this.flow || this.isOver(1))) return this.value();
    if (next === "&" || next === "*") return this.anchor(next === "&" ? "anchor" : "alias");
    if (next === "!") return this.tag();
    if ((next === "|" || next === ">") && !this.flow) return this.block(next === "|");
    if (next === "'" || next === '"') return this.quoted(next);
    const isPlain = /[^ \t\r\n\-?:,[\]{}#&*!|>'"%@`]/.test(next) || (next === "-" && !this.isBlank(1));
    if (isPlain || ("?:".includes(next) && !this.flow)) return this.plain();
    return this.fail("found character that cannot start any token");
  }

  // -- keys without a question mark, and indentation ------------------------------------------------------------------

  saveKey() {
    const required = !this.flow && this.indent === this.column;
    if (!this.keyAllowed) return;
    this.dropKey();
    const { at, line, column } = this;
    this.keys[this.flow] = { at, line, column, required, number: this.tokens.length };
  }
  dropKey() {
    const key = this.keys[this.flow];
    if (key?.required) this.fail("could not find expected ':'", key.at);
    this.keys[this.flow] = null;
  }
  /** A key is on one line, and not long. */
  staleKeys(line = this.line, at = this.at) {
    this.keys.forEach((key, level) => {
      if (!key || (key.line === line && this.at - key.at <= LONGEST_KEY)) return;
      if (key.required) this.fail("could not find expected ':'", key.at, at);
      this.keys[level] = null;
    });
  }
  roll(column, type, number = this.tokens.length, at = this.at) {
    if (this.flow || this.indent >= column) return;
    this.indents.push(this.indent);
    this.indent = column;
    this.tokens.splice(number, 0, { type, at });
  }
  unroll(column) {
    while (!this.flow && this.indent > column) {
      this.push("block end");
      this.indent = this.indents.pop();
    }
  }

  // -- tokens ---------------------------------------------------------------------------------------------------------

  mark(type) {
    this.unroll(-1);
    this.dropKey();
    this.keyAllowed = false;
    this.push(type, 3);
  }
  directive() {
    this.unroll(-1);
    this.dropKey();
    this.keyAllowed = false;
    const line = /^[^\r\n]*/.exec(this.source.slice(this.at))[0];
    const form = /^%(?:YAML[ \t]+1\.[12]|TAG[ \t]+![\w-]*!?[ \t]+[\w\-;/?:@&=+$,.!~*'()[\]%]+)[ \t]*(?:[ \t]#.*)?$/;
    if (!form.test(line))
      this.fail("could not find expected directive name", this.at, this.at + /^%[\w-]*/.exec(line)[0].length);
    this.push("directive", line.length);
    if (this.isBreak()) this.skipLine();
  }
  opens(next) {
    this.saveKey();
    this.keys.push(null);
    this.keyAllowed = true;
    this.push(next, 1);
  }
  closes(next) {
    this.dropKey();
    if (this.flow) this.keys.pop();
    this.keyAllowed = false;
    this.push(next, 1);
  }
  entry(next) {
    if (next === "-" && !this.flow) {
      if (!this.keyAllowed) this.fail("block sequence entries are not allowed in this context");
      this.roll(this.column, "block sequence");
    }
    this.dropKey();
    this.keyAllowed = true;
    this.push(next, 1);
  }
  key() {
    if (!this.flow && !this.keyAllowed) this.fail("mapping keys are not allowed in this context");
    this.roll(this.column, "block mapping");
    this.dropKey();
    this.keyAllowed = !this.flow;
    this.push("key", 1);
  }
  value() {
    const key = this.keys[this.flow];
    if (key) {
      this.tokens.splice(key.number, 0, { type: "key", at: key.at });
      this.roll(key.column, "block mapping", key.number, key.at);
      this.keys[this.flow] = null;
      this.keyAllowed = false;
    } else {
      if (!this.flow && !this.keyAllowed) this.fail("mapping values are not allowed in this context");
      this.roll(this.column, "block mapping");
      this.keyAllowed = !this.flow;
    }
    this.push(":", 1);
  }
  anchor(type) {
    this.saveKey();
    this.keyAllowed = false;
    const name = /^[\w-]*/.exec(this.source.slice(this.at + 1))[0];
    const end = name.length + 1;
    if (!name || !(this.isOver(end) || "?:,]}%@`".includes(this.ahead(end))))
      this.fail("did not find expected alphabetic or numeric character", this.at, this.at + end);
    this.push(type, end);
  }
  tag() {
    this.saveKey();
    this.keyAllowed = false;
    const open = /^!(?:<|[\w-]*!)?/.exec(this.source.slice(this.at))[0];
    const isWhole = open === "!<";
    const behind = this.uriEnd(this.at + open.length, isWhole ? URI_IN_BRACKETS : URI);
    if (open.length > 1 && behind === this.at + open.length)
      this.fail("did not find expected tag URI", this.at, behind);
    if (isWhole && this.source[behind] !== ">") this.fail("did not find the expected '>'", this.at, behind);
    const end = behind + isWhole;
    const length = end - this.at;
    if (!this.isOver(length) && !(this.flow && this.ahead(length) === ","))
      this.fail("did not find expected whitespace or line break", this.at, end);
    this.push("tag", length, { handle: open.endsWith("!") ? open : "!" });
  }
  /** Where the characters of a URI end, and its escaped octets of UTF-8. */
  uriEnd(at, one) {
    for (let left = 0; left || this.source[at] === "%" || one.test(this.source[at] ?? "");) {
      if (!left && this.source[at] !== "%") {
        at += 1;
        continue;
      }
      const [, hex] = /^%([0-9a-fA-F]{2})/.exec(this.source.slice(at, at + 3)) ?? [];
      if (!hex) this.fail("did not find URI escaped octet", this.at, at);
      const octet = parseInt(hex, 16);
      const size = [/^0/, /^110/, /^1110/, /^11110/].findIndex((form) => form.test(octet.toString(2).padStart(8, "0")));
      if (!left && size < 0) this.fail("found an incorrect leading UTF-8 octet", this.at, at);
      if (left && octet >> 6 !== 2) this.fail("found an incorrect trailing UTF-8 octet", this.at, at);
      left = left ? left - 1 : size;
      at += 3;
    }
    return at;
  }

  // -- scalars --------------------------------------------------------------------------------------------------------

  /** Blanks and line breaks within a scalar of several lines: what they are folded to, and whether a line broke. */
  fold(indent = 0) {
    let blanks = "";
    let breaks = 0;
    for (; this.isBlank() || this.isBreak();) {
      if (this.isBreak()) {
        this.skipLine();
        breaks += 1;
      } else {
        if (breaks && this.column < indent && this.ahead() === "\t")
          this.fail("found a tab character that violates indentation");
        if (!breaks) blanks += this.ahead();
        this.at += 1;
      }
    }
    return { text: breaks ? "\n".repeat(breaks - 1) || " " : blanks, broke: breaks > 0 };
  }

  plain() {
    this.saveKey();
    this.keyAllowed = false;
    const start = this.at;
    const indent = this.indent + 1;
    const word = this.flow ? /(?:[^ \t\r\n:,[\]{}]|:(?![ \t\r\n,?[\]{}]|$))*/y : /(?:[^ \t\r\n:]|:(?![ \t\r\n]|$))*/y;
    let text = "";
    let folded = { text: "", broke: false };
    for (; !this.atMark() && this.ahead() !== "#";) {
      word.lastIndex = this.at;
      const found = word.exec(this.source)[0];
      if (this.flow && this.ahead(found.length) === ":" && /[,?[\]{}]/.test(this.ahead(found.length + 1) || " ")) {
        this.at += found.length;
        this.fail("found unexpected ':'", start);
      }
      if (!found) break;
      text += folded.text + found;
      this.at += found.length;
      if (!this.isBlank() && !this.isBreak()) {
        folded = { text: "", broke: false };
        break;
      }
      folded = this.fold(indent);
      if (!this.flow && this.column < indent) break;
    }
    if (folded.broke) this.keyAllowed = true;
    this.tokens.push({ type: "scalar", at: start, text, plain: true });
  }

  quoted(quote) {
    this.saveKey();
    this.keyAllowed = false;
    const start = this.at;
    let text = "";
    this.at += 1;
    for (;;) {
      if (this.atMark()) this.fail("found unexpected document indicator", start);
      if (this.at >= this.source.length) this.fail("found unexpected end of stream", start);
      let joined = false;
      for (; !this.isOver();) {
        const next = this.ahead();
        if (quote === "'" && next === "'" && this.ahead(1) === "'") {
          text += "'";
          this.at += 2;
        } else if (next === quote) {
          break;
        } else if (quote === '"' && next === "\\" && this.isBreak(1)) {
          this.at += 1;
          this.skipLine();
          joined = true;
          break;
        } else if (quote === '"' && next === "\\") {
          text += this.escape(start);
        } else {
          text += next;
          this.at += 1;
        }
      }
      if (this.ahead() === quote && !joined) break;
      text += this.joined(joined);
    }
    this.at += 1;
    this.tokens.push({ type: "scalar", at: start, text, plain: false });
  }

  /** Blanks and breaks within quotes; behind an escaped break the blanks go, and further breaks stay. */
  joined(escaped) {
    if (!escaped) return this.fold().text;
    const { text, broke } = this.fold();
    return broke ? (text === " " ? "\n" : `${text}\n`) : "";
  }

  escape(start) {
    const next = this.ahead(1);
    const digits = HEX[next];
    if (!digits) {
      if (!(next in ESCAPES)) this.fail("found unknown escape character", start);
      this.at += 2;
      return ESCAPES[next];
    }
    const hex = this.source.slice(this.at + 2, this.at + 2 + digits);
    if (!/^[0-9a-fA-F]+$/.test(hex) || hex.length < digits)
      this.fail("did not find expected hexdecimal number", start, this.at + 2);
    const code = parseInt(hex, 16);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      this.fail("found invalid Unicode character escape code", start, this.at + 2);
    this.at += 2 + digits;
    return String.fromCodePoint(code);
  }

  /** A text behind `|` (literal) or `>` (folded). */
  block(literal) {
    this.dropKey();
    this.keyAllowed = true;
    const start = this.at;
    const [head, chomp, deeper] = this.blockHead(start);
    this.at += head;
    if (this.isBreak()) this.skipLine();
    let indent = deeper && Math.max(this.indent, 0) + deeper;
    let trailing;
    [trailing, indent] = this.blockBreaks(indent, start);
    let text = "";
    let leading = "";
    let wasBlank = false;
    for (; this.column === indent && this.at < this.source.length;) {
      const isBlank = this.isBlank();
      if (!literal && leading && !wasBlank && !isBlank) text += trailing ? "" : " ";
      else text += leading;
      text += trailing;
      wasBlank = isBlank;
      const line = /[^\r\n]*/y;
      line.lastIndex = this.at;
      text += line.exec(this.source)[0];
      this.at = line.lastIndex;
      leading = this.isBreak() ? "\n" : "";
      if (leading) this.skipLine();
      [trailing] = this.blockBreaks(indent, start);
    }
    if (chomp !== "-") text += leading + (chomp === "+" ? trailing : "");
    this.tokens.push({ type: "scalar", at: start, text, plain: false });
  }

  blockHead(start) {
    const found = /^[|>](?:([-+])([0-9])?|([0-9])([-+])?)?[ \t]*/.exec(this.source.slice(this.at));
    const digit = found[2] ?? found[3];
    if (digit === "0") this.fail("block scalar: found an indentation indicator equal to 0", start);
    let end = found[0].length;
    if (this.ahead(end) === "#") for (; !this.isBreak(end) && this.at + end < this.source.length;) end += 1;
    if (!this.isBreak(end) && this.at + end < this.source.length)
      this.fail("block scalar: did not find expected comment or line break", start, this.at + end);
    return [end, found[1] ?? found[4] ?? "", Number(digit ?? 0)];
  }

  /** The empty lines here, and the indentation, which the deepest decides where it is not known (0). */
  blockBreaks(indent, start) {
    let found = "";
    let deepest = 0;
    for (;;) {
      while ((!indent || this.column < indent) && this.ahead() === " ") this.at += 1;
      deepest = Math.max(deepest, this.column);
      if ((!indent || this.column < indent) && this.ahead() === "\t")
        this.fail("block scalar: found a tab character where an indentation space is expected", start);
      if (!this.isBreak()) return [found, indent || Math.max(deepest, this.indent + 1, 1)];
      found += "\n";
      this.skipLine();
    }
  }
}
