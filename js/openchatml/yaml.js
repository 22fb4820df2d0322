// YAML 1.2 with its core schema: the tokens of yaml-scanner.js as plain values.

import { YamlError, scan } from "./yaml-scanner.js";

export { YamlError };

const MAX_DEPTH = 16;
const CORE = [
  [/^(?:~|null|Null|NULL|)$/, () => null],
  [/^(?:true|True|TRUE)$/, () => true],
  [/^(?:false|False|FALSE)$/, () => false],
  [/^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/, Number],
  [/^0o[0-7]+$|^0x[0-9a-fA-F]+$/, Number],
  [/^[-+]?\.(?:inf|Inf|INF)$/, (text) => (text[0] === "-" ? -Infinity : Infinity)],
  [/^\.(?:nan|NaN|NAN)$/, () => NaN],
];

/** The value of one document of plain data; `texts` are keys of the root whose words are given as they are written. */
export function parseYaml(source, { texts = [] } = {}) {
  const documents = new Parser(source, { isPlainData: true }).documents();
  if (documents.length > 1) throw new YamlError("expected a single document in the stream", documents[1].document, 0);
  return documents.length ? valueOf(documents[0], texts) : null;
}

/** Throws `YamlError` where a source is no YAML, whatever it would build. */
export function checkYaml(source) {
  new Parser(source, { isPlainData: false }).documents();
}

/** Malformed as a header: YAML, and not of the form that headers have. */
export class FormError extends YamlError {}

function valueOf(node, texts = []) {
  if (node.items) return node.items.map((item) => valueOf(item));
  if (!node.pairs) return node.plain ? resolve(node.text) : node.text;
  const keys = new Set();
  for (const [key] of node.pairs) {
    if (key.text === undefined) throw new FormError("a key is no word", key.at);
    if (keys.has(key.text)) throw new FormError(`the key '${key.text}' stands twice`, key.at);
    keys.add(key.text);
  }
  return Object.fromEntries(
    node.pairs.map(([{ text }, value]) => [
      text,
      texts.includes(text) ? { text: value.text, at: value.at } : valueOf(value),
    ]),
  );
}

function resolve(text) {
  const found = CORE.find(([form]) => form.test(text));
  return found ? found[1](text) : text;
}

/** Nodes are `{at, text, plain}`, `{at, items}` and `{at, pairs}`. */
class Parser {
  constructor(source, { isPlainData }) {
    this.tokens = scan(source.startsWith("\ufeff") ? source.slice(1) : source);
    this.isPlainData = isPlainData;
    this.number = 0;
    this.depth = 0;
  }

  /** The type of the next token. */
  get next() {
    const token = this.tokens[this.number];
    if (token.type === "error") throw token.error;
    return token.type;
  }
  get at() {
    return this.tokens[this.number].at;
  }
  is(...types) {
    return types.includes(this.next);
  }
  /** Passes over the next token if it is of this type. */
  took(type) {
    if (this.next !== type) return false;
    this.number += 1;
    return true;
  }
  fail(message, context = null) {
    throw new YamlError(message, this.at, context);
  }

  documents() {
    const found = [];
    for (;;) {
      while (found.length && this.took("document end"));
      if (this.took("end")) return found;
      const at = this.at;
      while (this.took("directive"));
      const isMarked = this.took("document");
      if (!isMarked && (found.length || this.tokens[this.number - 1]?.type === "directive"))
        this.fail("did not find expected <document start>");
      const isEmpty = isMarked && this.is("directive", "document", "document end", "end");
      found.push({ ...(isEmpty ? this.empty() : this.node({ block: true })), document: at });
    }
  }

  /** What lacks behind the token before. */
  empty() {
    const before = this.tokens[this.number - 1] ?? { at: -1 };
    return { at: before.at + (before.type === "document" ? 3 : 1), text: "", plain: true };
  }

  node({ block = false, indentless = false }) {
    const at = this.at;
    if (this.is("alias")) return this.named(at);
    let named = false;
    let undefinedAt = null;
    for (let seen = ""; this.is("anchor", "tag") && this.next !== seen; named = true) {
      seen = this.next;
      const { handle, at: start } = this.tokens[this.number++];
      if (handle?.length > 2) undefinedAt ??= start;
    }
    if (undefinedAt !== null) throw new YamlError("found undefined tag handle", undefinedAt, at);
    if (named) this.refuse(at, this.tokens[this.number - 1].type);
    if (indentless && this.is("-"))
      return this.nested(at, () => ({ items: this.sequence(["-", "key", ":", "block end"]) }));
    if (this.is("scalar")) {
      const { text, plain } = this.tokens[this.number++];
      return { at, text, plain };
    }
    if (this.took("[")) return this.nested(at, () => ({ items: this.flowSequence(at) }));
    if (this.took("{")) return this.nested(at, () => ({ pairs: this.flowMapping(at) }));
    if (block && this.took("block sequence")) return this.nested(at, () => ({ items: this.blockSequence(at) }));
    if (block && this.took("block mapping")) return this.nested(at, () => ({ pairs: this.blockMapping(at) }));
    if (named) return { at, text: "", plain: true };
    return this.fail("did not find expected node content", at);
  }

  named(at) {
    this.refuse(at, "alias");
    this.number += 1;
    return { at, text: "", plain: true };
  }
  refuse(at, type) {
    if (!this.isPlainData) return;
    throw new FormError(`${type === "tag" ? "tags" : "anchors and aliases"} have no place in a header`, at);
  }
  nested(at, read) {
    this.depth += 1;
    if (this.isPlainData && this.depth > MAX_DEPTH)
      throw new FormError(`the header is nested deeper than ${MAX_DEPTH} levels`, at);
    const node = { at, ...read() };
    this.depth -= 1;
    return node;
  }

  sequence(closers) {
    const items = [];
    while (this.took("-")) items.push(this.is(...closers) ? this.empty() : this.node({ block: true }));
    return items;
  }
  blockSequence(at) {
    const items = this.sequence(["-", "block end"]);
    if (!this.took("block end")) this.fail("did not find expected '-' indicator", at);
    return items;
  }
  blockMapping(at) {
    const pairs = [];
    const part = () => (this.is("key", ":", "block end") ? this.empty() : this.node({ block: true, indentless: true }));
    while (this.took("key")) pairs.push([part(), this.took(":") ? part() : this.empty()]);
    if (!this.took("block end")) this.fail("did not find expected key", at);
    return pairs;
  }
  flowSequence(at) {
    const items = [];
    for (; !this.took("]");) {
      if (items.length && !this.took(",")) this.fail("did not find expected ',' or ']'", at);
      if (items.length && this.took("]")) break;
      const start = this.at;
      if (this.took("key")) items.push(this.nested(start, () => ({ pairs: [this.flowPair("]")] })));
      else items.push(this.node({}));
    }
    return items;
  }
  flowMapping(at) {
    const pairs = [];
    for (; !this.took("}");) {
      if (pairs.length && !this.took(",")) this.fail("did not find expected ',' or '}'", at);
      if (pairs.length && this.took("}")) break;
      pairs.push(this.took("key") ? this.flowPair("}") : [this.node({}), this.empty()]);
    }
    return pairs;
  }
  flowPair(closer) {
    const key = this.is(":", ",", closer) ? this.empty() : this.node({});
    if (!this.took(":")) return [key, this.empty()];
    return [key, this.is(",", closer) ? this.empty() : this.node({})];
  }
}
