// Lists and mappings in brackets, of the part of YAML that headers are written in.

import { Malformed, QUOTED, Scalar, Unsupported, scalar } from "./scalars.js";

const MAX_DEPTH = 16;

/** Throws `Malformed` for a list or mapping that is nested too deeply. */
export function checkDepth(depth) {
  if (depth > MAX_DEPTH) throw new Malformed(`nested deeper than ${MAX_DEPTH} levels`);
}

/** Lists and mappings in brackets; `more` gives the next line. */
export class Flow {
  constructor(text, more) {
    this.text = text;
    this.nextLine = more;
    this.at = 0;
  }

  skip() {
    for (;;) {
      this.at += /^[ \t]*/.exec(this.text.slice(this.at))[0].length;
      if (this.at < this.text.length) return this.text[this.at];
      this.text = this.nextLine();
      this.at = 0;
    }
  }

  node(depth) {
    const first = this.skip();
    if (first === "[" || first === "{") {
      checkDepth(depth);
      this.at += 1;
      return first === "[" ? this.list(depth) : this.mapping(depth);
    }
    return this.scalar();
  }

  list(depth) {
    const found = [];
    while (this.skip() !== "]") {
      if (this.skip() === ",") throw new Malformed("a comma without a value");
      found.push(this.node(depth + 1));
      if (this.at < this.text.length && this.skip() === ":") throw new Unsupported("a pair in a list");
      this.separator("]");
    }
    this.at += 1;
    return found;
  }

  mapping(depth) {
    const found = new Map();
    while (this.skip() !== "}") {
      const key = this.node(depth + 1);
      if (!(key instanceof Scalar)) throw new Malformed("a key is no word");
      if (found.has(key.text)) throw new Malformed(`the key ${key.text} stands twice`);
      if (this.skip() === ":") {
        this.at += 1;
        const next = this.skip();
        found.set(key.text, next === "," || next === "}" ? new Scalar("", true) : this.node(depth + 1));
      } else {
        found.set(key.text, new Scalar("", true));
      }
      this.separator("}");
    }
    this.at += 1;
    return found;
  }

  separator(closer) {
    const next = this.skip();
    if (next === ",") this.at += 1;
    else if (next !== closer) throw new Malformed(`${next} stands where , or ${closer} is expected`);
  }

  scalar() {
    const rest = this.text.slice(this.at);
    const quoted = QUOTED.exec(rest);
    const word = quoted ? quoted[0] : /^(?:[^,[\]{}:]|:(?![ \t,[\]{}]|$))*/.exec(rest)[0];
    if (!quoted && /^["']/.test(rest)) throw new Unsupported("a quoted scalar of several lines");
    if (!quoted && /^:[,[\]{}]/.test(rest.slice(word.length)))
      throw new Unsupported("a colon without a blank behind it");
    this.at += word.length;
    if (!word) throw new Malformed(`${rest[0]} begins no word`);
    const goesOn = !quoted && this.at === this.text.length && !/[,\]}]/.test(this.skip());
    if (goesOn) throw new Unsupported("a scalar of several lines");
    return scalar(word.trimEnd());
  }

  end() {
    const rest = this.text.slice(this.at).trim();
    if (rest) throw new Malformed(`${rest} stands behind a bracket`);
  }
}
