// Whether a text is TOML 1.0: its grammar, and that no key or table is defined twice.

const BARE = "[A-Za-z0-9_-]+";
const BASIC = String.raw`"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\(?:[btnfr"\\]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))*"`;
const LITERAL = String.raw`'[^'\x00-\x08\x0a-\x1f\x7f]*'`;
const KEY = new RegExp(`[ \\t]*(${BARE}|${BASIC}|${LITERAL})[ \\t]*`, "y");
const LONG_BASIC = String.raw`"""(?:[^"\\\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\\(?:[btnfr"\\]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[ \t]*\r?\n\s*)|"{1,2}(?!"))*"{3,5}(?!")`;
const LONG_LITERAL = String.raw`'''(?:[^'\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|'{1,2}(?!'))*'{3,5}(?!')`;
const DAY = String.raw`[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])`;
const TIME = String.raw`(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?`;
const DATE = String.raw`${DAY}(?:[Tt ]${TIME}(?:[Zz]|[-+](?:[01][0-9]|2[0-3]):[0-5][0-9])?)?|${TIME}`;
const DIGITS = "[0-9](?:_?[0-9])*";
const NUMBER = String.raw`0x[0-9a-fA-F](?:_?[0-9a-fA-F])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*|[-+]?(?:inf|nan|(?:0|[1-9](?:_?[0-9])*)(?:\.${DIGITS})?(?:[eE][-+]?${DIGITS})?)`;
const ATOM = new RegExp(`${LONG_BASIC}|${LONG_LITERAL}|${BASIC}|${LITERAL}|true|false|${DATE}|${NUMBER}`, "y");
const SPACE = /(?:[ \t\n]|\r\n|#[^\x00-\x08\x0a-\x1f\x7f]*)*/y;
const LINE_END = /[ \t]*(?:#[^\x00-\x08\x0a-\x1f\x7f]*)?(?:\r?\n|$)/y;

class Malformed extends Error {}

/** What is wrong with a text that is no TOML, `{message, offset}`; null for one that is. */
export function tomlProblem(text) {
  const reader = new Reader(text);
  try {
    reader.document();
    return null;
  } catch (error) {
    if (!(error instanceof Malformed) && !(error instanceof RangeError)) throw error;
    return { message: error.message, offset: 0 };
  }
}

/** A table is a map; `closed`: it was written as a value. `lists` are arrays of tables, `named` tables with a head. */
class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.root = new Map();
    this.named = new Set();
    this.dotted = new Set();
  }

  fail(message) {
    throw new Malformed(`${message} at ${this.at}`);
  }
  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found;
  }
  took(text) {
    if (!this.text.startsWith(text, this.at)) return false;
    this.at += text.length;
    return true;
  }
  expect(text) {
    if (!this.took(text)) this.fail(`no ${text}`);
  }

  document() {
    let table = this.root;
    for (this.match(SPACE); this.at < this.text.length; this.match(SPACE)) {
      if (this.took("[[")) table = this.head("]]");
      else if (this.took("[")) table = this.head("]");
      else this.pair(table, this.dotted);
      if (!this.match(LINE_END)) this.fail("more on the line");
    }
  }

  keys() {
    const found = [];
    do {
      const key = this.match(KEY);
      if (!key) this.fail("no key");
      found.push(
        /^["']/.test(key[1]) ? (key[1][0] === "'" ? key[1].slice(1, -1) : JSON.parse(escaped(key[1]))) : key[1],
      );
    } while (this.took("."));
    return found;
  }

  head(closer) {
    const keys = this.keys();
    this.expect(closer);
    const table = keys.slice(0, -1).reduce((one, key) => this.inner(one, key), this.root);
    const last = keys.at(-1);
    const found = table.get(last);
    if (closer === "]]") {
      if (found !== undefined && !found.tables) this.fail("a key twice");
      const list = found ?? Object.assign([], { tables: true });
      table.set(last, list);
      list.push(new Map());
      return list.at(-1);
    }
    if (
      found !== undefined &&
      (!(found instanceof Map) || found.closed || this.named.has(found) || this.dotted.has(found))
    )
      this.fail("a table twice");
    const made = found ?? new Map();
    table.set(last, made);
    this.named.add(made);
    return made;
  }

  inner(table, key) {
    const found = table.get(key);
    if (found?.tables) return found.at(-1);
    if (found !== undefined && (!(found instanceof Map) || found.closed)) this.fail("no table");
    if (found === undefined) table.set(key, new Map());
    return table.get(key);
  }

  pair(table, dotted) {
    const keys = this.keys();
    this.expect("=");
    this.match(/[ \t]*/y);
    for (const key of keys.slice(0, -1)) {
      if (table.get(key)?.tables || this.named.has(table.get(key))) this.fail("a table that is defined already");
      table = this.inner(table, key);
      dotted.add(table);
    }
    if (table.has(keys.at(-1))) this.fail("a key twice");
    table.set(keys.at(-1), this.value());
  }

  value() {
    if (this.took("[")) return this.array();
    if (this.took("{")) return this.inline();
    const found = this.match(ATOM);
    if (!found) this.fail("no value");
    const surrogate = [...found[0].matchAll(/\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))/g)]
      .map((escape) => parseInt(escape[1] ?? escape[2], 16))
      .some((code) => code > 0x10ffff || (code >= 0xd800 && code < 0xe000));
    if (surrogate && found[0].startsWith('"')) this.fail("an escape that names no character");
    return found[0];
  }
  array() {
    for (this.match(SPACE); !this.took("]"); this.match(SPACE)) {
      this.value();
      this.match(SPACE);
      if (this.took(",")) continue;
      this.expect("]");
      break;
    }
    return [];
  }
  inline() {
    const table = new Map();
    const dotted = new Set();
    this.match(/[ \t]*/y);
    if (!this.took("}")) {
      do this.pair(table, dotted);
      while ((this.match(/[ \t]*/y), this.took(",")));
      this.expect("}");
    }
    return Object.assign(table, { closed: true });
  }
}

const escaped = (text) => text.replace(/\\U([0-9a-fA-F]{8})/g, (_, hex) => String.fromCodePoint(parseInt(hex, 16)));
