// Reads OpenChatML 2.2: header, frames, attributes, bodies, errors with code and line, and views of what was read.

import { FrameReader } from "./frames.js";
import { Malformed, Unsupported, readHeader, settingsOf, splitHeader } from "./header.js";
import { openFrame } from "./head.js";
import { Rules } from "./rules.js";
import { decode } from "./spelling.js";

export { Reply } from "./reply.js";
export { calls, harmony, project, resumed, shown } from "./views.js";

/**
 * Reads a transcript, as a string, bytes, or a list of strings: `{valid, errors, header, frames}`. Where it is not
 * valid, `errors` has `{code, message, offset, line}` in the text's order and `frames` the best reading. `unsupported`
 * says what in a header is YAML beyond the part that is read here. `fragment`: a header may lack; `harmony`: the rules
 * of HIP-1 as well.
 */
export function read(transcript, { fragment = false, harmony = false } = {}) {
  const text = transcript instanceof Uint8Array ? decode(transcript) : transcript;
  const reader = new Reader([text].flat());
  reader.header({ fragment });
  reader.frames(new Rules(settingsOf(reader.found.header), { harmony }));
  return reader.found;
}

class Reader {
  constructor(pieces) {
    this.pieces = pieces;
    this.source = pieces.join("");
    this.errors = [];
    this.found = { valid: true, errors: [], header: null, frames: [] };
  }

  header({ fragment }) {
    const { yaml, framesAt, tooLong } = splitHeader(this.source);
    this.framesAt = framesAt;
    if (tooLong) this.problem("E-PARSE-HEADER", "the header does not end", 0);
    else if (yaml !== null) this.readHeader(yaml);
    else if (!fragment) this.problem("E-PARSE-HEADER", "the transcript has no header", 0);
  }

  readHeader(yaml) {
    try {
      this.found.header = readHeader(yaml);
    } catch (error) {
      if (!(error instanceof Malformed || error instanceof Unsupported)) throw error;
      if (error instanceof Unsupported) this.found.unsupported = error.message;
      this.problem("E-PARSE-HEADER", error.message, 0);
    }
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
    this.errors.sort((one, other) => one.offset - other.offset);
    this.found.errors = withLines(this.errors, this.source);
    this.found.valid = this.errors.length === 0;
  }

  report = (code, message, offset) => this.problem(code, message, offset);

  // -- what a FrameReader tells ---------------------------------------------------------------------------------------

  problem(code, message, offset) {
    this.errors.push({ code, message, offset });
  }

  head(parts, started, bodyAt) {
    this.open = {
      ...openFrame(parts, settingsOf(this.found.header).tools),
      started,
      bodyAt,
      body: "",
      literal: false,
      isUtf8: true,
    };
    for (const message of this.open.problems) this.problem("E-PARSE-HEADER", message, started);
  }

  text(text, isLiteral, offset) {
    this.open.body += text;
    this.open.literal ||= isLiteral;
    if (isLiteral || text.isWellFormed() || !this.open.isUtf8) return;
    this.open.isUtf8 = false;
    this.problem("E-PARSE-HEADER", "the body is not UTF-8", offset);
  }

  end(footer, footerAt) {
    const frame = { ...this.open, end: footer, footerAt };
    this.rules.settle(frame, this.report);
    this.found.frames.push(frame);
  }
}

/** Errors in their order, with their lines. */
function withLines(errors, source) {
  let line = 1;
  let passed = 0;
  return errors.map((error) => {
    for (let at = source.indexOf("\n", passed); at >= 0 && at < error.offset; at = source.indexOf("\n", passed)) {
      line += 1;
      passed = at + 1;
    }
    return { ...error, line };
  });
}
