// Text cut anywhere becomes frames, as the machine of docs/openchatml.md says (§3, §6; A-O04, A-O22 … A-O25).

import { nearControl } from "./near.js";
import { ESCAPE_OR_TOKEN, openTail } from "./spelling.js";

const FOOTERS = { "<|end|>": "end", "<|call|>": "call", "<|return|>": "return" };
const MAX_HEAD = 4096;
const ENDLITERAL = "<|endliteral|>";

/**
 * Reads frames. `sink` is told of them as they come: `problem(code, message, offset, hint)`, `head(parts, offset)` where a
 * body opens, `text(text, isLiteral, offset, isEscape)`, and `end(footer, offset)`, whose footer is null for a frame cut off.
 */
export class FrameReader {
  constructor(sink, offset = 0) {
    this.sink = sink;
    this.offset = offset;
    this.buffer = "";
    this.state = "outside";
    this.skipping = false;
    this.footer = null;
  }

  feed(text) {
    const whole = this.buffer + text;
    this.buffer = "";
    let start = 0;
    for (let found = this.next(whole, start); found; found = this.next(whole, start)) {
      this.text(whole.slice(start, found.at));
      if (found.escaped) this.escape(found.spelled);
      else this.control(found.spelled);
      this.offset += found.spelled.length;
      start = found.at + found.spelled.length;
    }
    const tail = openTail(whole, start);
    this.text(whole.slice(start, tail));
    this.buffer = whole.slice(tail);
  }

  close() {
    this.text(this.buffer);
    this.buffer = "";
    if (this.state === "outside") return;
    const where = { head: "a head", body: "a message", literal: "a literal block" }[this.state];
    const hint =
      this.state === "head" ? nearControl(this.headText) : "A message ends with <|end|>, <|return|> or <|call|>.";
    this.problem("E-STREAM-TRUNCATED", `the text ends inside ${where}`, hint);
    this.footer = null;
    if (this.state !== "head") this.sink.end(null, this.offset);
    this.state = "outside";
  }

  next(text, start) {
    if (this.state === "literal") {
      const at = text.indexOf(ENDLITERAL, start);
      return at < 0 ? null : { at, spelled: ENDLITERAL, escaped: false };
    }
    ESCAPE_OR_TOKEN.lastIndex = start;
    const found = ESCAPE_OR_TOKEN.exec(text);
    return found && { at: found.index, spelled: found[0], escaped: found[1] === "<" };
  }

  problem(code, message, hint = null, offset = this.offset) {
    this.sink.problem(code, message, offset, hint);
  }

  get headText() {
    return `<|start|>${this.parts.map((part) => part.text ?? part.control).join("")}`;
  }

  text(text) {
    if (!text) return;
    if (this.state === "outside") this.skip(text);
    else if (this.state === "head") this.addToHead(text);
    else this.sink.text(text, this.state === "literal", this.offset);
    this.offset += text.length;
  }

  escape(spelled) {
    if (this.state === "outside") this.skip(spelled);
    else if (this.state === "head") this.addToHead(spelled);
    else this.sink.text(spelled.slice(1), false, this.offset, true);
  }

  control(spelled) {
    if (this.state === "outside") this.outside(spelled);
    else if (this.state === "head") this.inHead(spelled);
    else if (this.state === "body") this.inBody(spelled);
    else this.state = "body";
  }

  /** Reports a run of what stands outside frames once. */
  skip(text) {
    const blank = /^[ \t\r\n]*/.exec(text)[0].length;
    if (this.skipping || blank === text.length) return;
    this.skipping = true;
    const hint = "A frame is <|start|>ROLE<|message|>TEXT<|end|>.";
    const more = this.footer ? ` If the ${this.footer} before it is text, write <${this.footer} there.` : "";
    this.problem("E-PARSE-HEADER", "text stands outside any frame", hint + more, this.offset + blank);
  }

  outside(spelled) {
    if (spelled === "<|start|>") this.openHead();
    else this.skip(spelled);
  }

  openHead() {
    this.state = "head";
    this.skipping = false;
    this.started = this.offset;
    this.parts = [];
    this.length = 0;
  }

  addToHead(text) {
    const last = this.parts.at(-1);
    if (last?.text !== undefined) last.text += text;
    else this.parts.push({ text });
    this.length += text.length;
    if (this.length <= MAX_HEAD) return;
    const hint = "A frame is <|start|>ROLE<|message|>TEXT<|end|>.";
    this.problem("E-PARSE-HEADER", `no <|message|> within ${MAX_HEAD} characters of a head`, hint, this.started);
    this.state = "outside";
    this.skipping = true;
  }

  inHead(spelled) {
    if (spelled === "<|message|>") {
      this.state = "body";
      this.sink.head(this.parts, this.started, this.offset + spelled.length);
    } else if (spelled === "<|channel|>" || spelled === "<|constrain|>") {
      this.parts.push({ control: spelled });
    } else {
      this.problem("E-PARSE-HEADER", `${spelled} stands in a head, before any <|message|>`, nearControl(this.headText));
      this.state = "outside";
      if (spelled === "<|start|>") this.openHead();
    }
  }

  inBody(spelled) {
    if (spelled in FOOTERS) {
      this.state = "outside";
      this.footer = spelled;
      this.sink.end(FOOTERS[spelled], this.offset);
    } else if (spelled === "<|literal|>") {
      this.state = "literal";
      this.sink.text("", true, this.offset);
    } else {
      this.problem("E-PARSE-HEADER", `${spelled} stands in a body`, `As text it is written <${spelled}.`);
      this.sink.text(spelled, false, this.offset);
    }
  }
}
