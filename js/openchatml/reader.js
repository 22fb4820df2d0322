// A transcript as header, frames, and what is wrong, with code, place and hint.

import { FrameReader } from "./frames.js";
import { MAX_HEADER, readHeader, settingsOf, splitHeader } from "./header.js";
import { openFrame } from "./head.js";
import { Rules, markerIn } from "./rules.js";
import { decode } from "./spelling.js";

/**
 * Reads a transcript, as a string, bytes, or a list of strings: `{valid, errors, warnings, header, frames}`. Where it is
 * not valid, `frames` has the best reading. Errors and warnings are `{code, message, hint, offset, line, column}` in the
 * text's order; lines and columns count characters from 1, offsets are those of JavaScript's strings. `fragment`: a
 * header may lack; `harmony`: the rules of HIP-1 whatever the header says.
 */
export function read(transcript, { fragment = false, harmony = false } = {}) {
  const text = transcript instanceof Uint8Array ? decode(transcript) : transcript;
  const reader = new Reader([text].flat());
  reader.header({ fragment });
  reader.frames(new Rules(settingsOf(reader.found.header), { harmony }));
  return reader.found;
}

/** What is wrong with a transcript, errors and warnings in the text's order; the latter have `warning: true`. */
export function validate(transcript, options) {
  const { errors, warnings } = read(transcript, options);
  const all = [...errors, ...warnings.map((one) => ({ ...one, warning: true }))];
  return all.sort((one, other) => one.offset - other.offset);
}

class Reader {
  constructor(pieces) {
    this.pieces = pieces;
    this.source = pieces.join("");
    this.wrong = [];
    this.found = { valid: true, errors: [], warnings: [], header: null, frames: [] };
  }

  header({ fragment }) {
    const { bom, yaml, isEmpty, isTooLong, framesAt } = splitHeader(this.source);
    this.framesAt = framesAt;
    if (isTooLong) {
      const hint = `A header has at most ${MAX_HEADER} characters. Is this an OpenChatML transcript?`;
      this.headerProblem("the header does not end", bom + MAX_HEADER, hint);
    } else if (!isEmpty) {
      const { header, problem } = readHeader(yaml);
      this.found.header = header ?? null;
      if (problem) this.headerProblem(problem.message, bom + problem.at, problem.hint);
    } else if (!fragment) {
      this.headerProblem("the transcript has no header", bom, 'Begin with a YAML header: version: "2.2".');
    }
  }

  headerProblem(message, offset, hint) {
    const bom = this.source.startsWith("\ufeff") ? 1 : 0;
    const other = otherForm(this.source.slice(bom)) ?? { message, hint, offset };
    this.problem("E-PARSE-HEADER", other.message, other.offset ?? bom, other.hint);
  }

  frames(rules) {
    this.rules = rules;
    const reader = new FrameReader(this, this.framesAt);
    let passed = 0;
    for (const piece of this.pieces) {
      reader.feed(piece.slice(Math.max(0, this.framesAt - passed)));
      passed += piece.length;
    }
    reader.close();
    rules.close(this.report, reader.offset);
    this.wrong.sort((one, other) => one.offset - other.offset);
    const placed = withPlaces(this.wrong, this.source);
    this.found.errors = placed.filter(({ warning }) => !warning).map(({ warning, ...error }) => error);
    this.found.warnings = placed.filter(({ warning }) => warning).map(({ warning, ...rest }) => rest);
    this.found.valid = this.found.errors.length === 0;
  }

  report = (finding) => this.wrong.push(finding);

  // -- what a FrameReader tells ---------------------------------------------------------------------------------------

  problem(code, message, offset, hint = null) {
    this.wrong.push({ code, message, offset, hint, warning: false });
  }

  head(parts, started, bodyAt) {
    const head = openFrame(parts, settingsOf(this.found.header).tools);
    this.open = { ...head, started, bodyAt, body: "", literal: false, plain: true, isUtf8: true };
    for (const { message, at, hint } of head.problems)
      this.problem("E-PARSE-HEADER", message, started + "<|start|>".length + at, hint);
  }

  text(text, isLiteral, offset, isEscape = false) {
    const { open } = this;
    open.body += text;
    open.literal ||= isLiteral;
    open.plain &&= !isLiteral && !isEscape;
    if (isLiteral || isEscape) return;
    if (open.markerAt === undefined && markerIn(text) >= 0) open.markerAt = offset + markerIn(text);
    if (text.isWellFormed() || !open.isUtf8) return;
    open.isUtf8 = false;
    const bad = text.search(/[\udc80-\udcff](?<![\ud800-\udbff].)/);
    this.problem(
      "E-PARSE-HEADER",
      "the body is not UTF-8",
      offset + Math.max(bad, 0),
      "Other bytes go into a literal block.",
    );
  }

  end(footer, footerAt) {
    const frame = { ...this.open, end: footer, footerAt };
    this.rules.settle(frame, this.report);
    this.found.frames.push(frame);
  }
}

/** Another form that a text without a readable header has: its `message` and `hint`; null for an unknown one. */
function otherForm(text) {
  if (/^\s*(?:<\|im_start\|>|<\|begin_of_text\|>|\[INST\])/.test(text))
    return { message: "this is a chat template's prompt", hint: "A prompt cannot be read back as a transcript." };
  if (!/^\s*[[{]\s*["[{]/.test(text)) return null;
  return { message: "this is JSON, not a transcript", hint: "A transcript is a YAML header, then frames." };
}

/** Errors in their order, with their lines and columns, which count characters. */
function withPlaces(errors, source) {
  let line = 1;
  let lineAt = source.startsWith("\ufeff") ? 1 : 0;
  return errors.map((error) => {
    for (let at = source.indexOf("\n", lineAt); at >= 0 && at < error.offset; at = source.indexOf("\n", lineAt)) {
      line += 1;
      lineAt = at + 1;
    }
    return { ...error, line, column: [...source.slice(lineAt, error.offset)].length + 1 };
  });
}
