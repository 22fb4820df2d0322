// TypeScript-like types, as messages declare the arguments of tools (7.9), as JSON Schema.

const BLANK = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/.source.slice(1, -1);
const TOKEN = new RegExp(
  `([${BLANK}]*)(?:(?<comment>//[^\\n]*)|(?<text>"(?:[^"\\\\\\n]|\\\\[^\\n])*"|'(?:[^'\\\\\\n]|\\\\[^\\n])*')` +
    `|(?<mark>=>|[{}()[\\]<>|&,;:?=])|(?<word>[^${BLANK}{}()[\\]<>|&,;:?="']+))`,
  "y",
);
const KINDS = ["string", "number", "integer", "boolean", "null", "object"];
const DEEPEST = 50;

/** A declaration of arguments that is not read. */
export class SignatureError extends Error {}

/** The schema of the argument of `(_: type) => any`, which begins at `at`; null where there is none. */
export function readSignature(text, at) {
  const reader = new TypeReader(text, at);
  reader.expect("(");
  let schema = null;
  if (!reader.skip(")")) {
    if (reader.next().kind !== "word") throw new SignatureError("the argument has no name");
    reader.expect(":");
    schema = reader.type();
    reader.skip(",");
    reader.expect(")");
  }
  reader.expect("=>");
  return schema;
}

class TypeReader {
  constructor(text, at) {
    this.text = text;
    this.read = at;
    this.tokens = [];
    this.at = 0;
    this.depth = 0;
  }

  peek() {
    if (this.at === this.tokens.length) this.tokens.push(this.token());
    return this.tokens[this.at];
  }

  token() {
    TOKEN.lastIndex = this.read;
    const found = TOKEN.exec(this.text);
    if (!found) return { kind: "end", text: "the end", newLine: true };
    this.read = TOKEN.lastIndex;
    const [kind, text] = Object.entries(found.groups).find(([, spelled]) => spelled !== undefined);
    return { kind, text, newLine: found[1].includes("\n") };
  }

  next() {
    const token = this.peek();
    this.at += 1;
    return token;
  }

  expect(mark) {
    const { text } = this.next();
    if (text !== mark) throw new SignatureError(`${text} stands where ${mark} is expected`);
  }

  /** Whether the next token is the mark, which is passed then. */
  skip(mark) {
    const isNext = this.peek().text === mark;
    if (isNext) this.at += 1;
    return isNext;
  }

  comments(isTaken = () => true) {
    const texts = [];
    while (this.peek().kind === "comment" && isTaken(this.peek())) texts.push(this.next().text.slice(2).trim());
    return texts;
  }

  type() {
    this.depth += 1;
    if (this.depth > DEEPEST) throw new SignatureError(`a type is nested more than ${DEEPEST} levels deep`);
    const notes = this.comments();
    const all = () => this.joined("&", () => this.suffixed(), (parts) => ({ allOf: parts }));
    const schema = this.joined("|", all, anyOf);
    this.depth -= 1;
    return described(schema, notes);
  }

  /** Parts between marks; one may stand before the first, and comments behind each. */
  joined(mark, part, join) {
    this.skip(mark);
    const parts = [part()];
    while (this.passesTo(mark)) parts.push(part());
    return parts.length === 1 ? parts[0] : join(parts);
  }

  passesTo(mark) {
    const { at } = this;
    this.comments();
    if (this.skip(mark)) return true;
    this.at = at;
    return false;
  }

  suffixed() {
    let schema = this.primary();
    while (this.skip("[")) {
      this.expect("]");
      schema = { type: "array", items: schema };
    }
    return schema;
  }

  primary() {
    const { kind, text } = this.next();
    if (kind === "text") return { const: unquoted(text) };
    if (text === "{") return this.object();
    if (text === "(") {
      const schema = this.type();
      this.expect(")");
      return schema;
    }
    if (kind !== "word") throw new SignatureError(`${text} is no type`);
    if (KINDS.includes(text)) return { type: text };
    if (text === "any" || text === "unknown") return {};
    return text === "Array" || text === "Record" ? this.generic(text) : { const: literal(text) };
  }

  generic(name) {
    this.expect("<");
    const parts = [this.type()];
    while (this.skip(",")) parts.push(this.type());
    this.expect(">");
    if (name === "Array") return { type: "array", items: parts[0] };
    return { type: "object", additionalProperties: parts.at(-1) };
  }

  object() {
    const properties = new Map();
    const required = new Set();
    const schema = { type: "object" };
    let notes = this.comments();
    while (!this.skip("}")) {
      if (this.skip("[")) schema.additionalProperties = this.index();
      else {
        const name = this.key();
        if (!this.skip("?")) required.add(name);
        this.expect(":");
        properties.set(name, this.property(notes));
      }
      notes = this.comments();
    }
    return { ...schema, properties: Object.fromEntries(properties), required: [...required] };
  }

  key() {
    const { kind, text } = this.next();
    if (kind !== "word" && kind !== "text") throw new SignatureError(`${text} is no name of a property`);
    return kind === "text" ? unquoted(text) : text;
  }

  /** `[key: string]: type`, behind its bracket. */
  index() {
    this.key();
    this.expect(":");
    this.type();
    this.expect("]");
    this.expect(":");
    return this.property([]);
  }

  property(notes) {
    const schema = this.type();
    const behind = () => this.comments(({ newLine }) => !newLine);
    const more = behind();
    if (this.skip(",") || this.skip(";")) more.push(...behind());
    return described(schema, [...notes, ...more]);
  }
}

const described = (schema, notes) => (notes.some(Boolean) ? { ...schema, description: notes.join("\n") } : schema);

function literal(word) {
  try {
    return JSON.parse(word);
  } catch {
    throw new SignatureError(`${word} is no type that is read`);
  }
}

function unquoted(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text.slice(1, -1);
  }
}

/** Prompts of gpt-oss have no parentheses around the items of an array: `"a" | "b"[]`, `string | null[]`. */
function anyOf(parts) {
  let last = parts.at(-1);
  let arrays = 0;
  for (; last.items; last = last.items) arrays += 1;
  // Nobody means an array of nothing but one value.
  const isValue = "const" in last || (last.type === "null" && last.description === undefined);
  let schema = oneOf(isValue ? [...parts.slice(0, -1), last] : parts);
  for (; isValue && arrays; arrays -= 1) schema = { type: "array", items: schema };
  return schema;
}

function oneOf(parts) {
  const have = (keyword) => parts.every((part) => Object.keys(part).join() === keyword);
  if (have("const")) return { enum: parts.map((part) => part.const) };
  return have("type") ? { type: parts.map((part) => part.type) } : { anyOf: parts };
}
