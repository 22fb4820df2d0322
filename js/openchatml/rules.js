// The rules that span frames: ids, channels, footers, capabilities, bodies (§5 … §8; A-O01, A-O12 … A-O15, A-O30).

import { Malformed, parseYaml } from "./yaml.js";

export const isCall = (frame) => frame.role === "assistant" && ![null, "assistant", "user", "all"].includes(frame.to);
const isFunction = (frame) => frame.to?.startsWith("functions.") ?? false;
const isLegacyReply = (frame) => frame.role === "tool" && frame.author !== "tool";

/** Checks frames in their order, and gives replies and calls the ids and names that their text leaves out. */
export class Rules {
  constructor(settings, { harmony = false } = {}) {
    this.settings = settings;
    this.harmony = harmony || settings.harmony;
    this.wholeTurns = harmony;
    this.requireChannels = settings.harmony ? settings.requireChannels : harmony;
    this.open = new Map();
    this.answered = new Set();
    this.last = null;
    this.made = 0;
  }

  /** `report(code, message, offset)` is told of each error. */
  settle(frame, report) {
    const head = (message, code = "E-PARSE-HEADER") => report(code, message, frame.started + 1);
    if (this.settings.legacy) this.version1(frame, head);
    this.channels(frame, head);
    if (isCall(frame)) this.call(frame, head);
    else if (frame.role === "tool" && !frame.unknown) this.reply(frame, head);
    this.allowed(frame, head);
    this.body(frame, report);
    this.footer(frame, report);
    this.last = frame;
  }

  close(report, offset) {
    const { last } = this;
    if (
      !this.wholeTurns ||
      last?.role !== "assistant" ||
      last.end !== "end" ||
      isCall(last) ||
      last.channel === "final"
    )
      return;
    report("E-STREAM-TRUNCATED", "no <|return|> or <|call|> at the end", offset);
  }

  version1(frame, head) {
    const used =
      frame.hasChannel ||
      frame.constrain !== null ||
      frame.to !== null ||
      frame.writtenId !== null ||
      frame.intent !== null;
    const newer = ["developer", "tool"].includes(frame.role) || frame.literal || ["call", "return"].includes(frame.end);
    if (used || newer) head("a feature of version 2 in a transcript of version 1");
  }

  channels(frame, head) {
    if (!frame.hasChannel && this.requireChannels && ["assistant", "tool"].includes(frame.role)) {
      head(`the ${frame.role} message has no channel`, "E-PARSE-CHANNEL-MISSING");
      return;
    }
    if (!isCall(frame)) return;
    const allowed = isFunction(frame) ? this.settings.toolCallsIn : this.settings.builtinsIn;
    if (!allowed.includes(frame.channel))
      head(`${frame.to} is called on ${allowed.join(" or ")}, not on ${frame.channel}`);
  }

  call(frame, head) {
    if (frame.call_id === null) {
      if (!this.harmony) head("the call has no call_id");
      frame.call_id = this.newId();
    } else if (this.open.has(frame.call_id) || this.answered.has(frame.call_id)) {
      head(`the call_id ${frame.call_id} is used twice`);
    }
    this.open.set(frame.call_id, frame.to);
  }

  newId() {
    while (this.open.has(`call_${this.made}`) || this.answered.has(`call_${this.made}`)) this.made += 1;
    this.made += 1;
    return `call_${this.made - 1}`;
  }

  reply(frame, head) {
    if (frame.call_id === null && !this.findCall(frame, head)) return;
    if (!this.open.has(frame.call_id) && !this.answered.has(frame.call_id)) {
      head(`the reply to ${frame.call_id} answers no call`, "E-CALL-SCHEMA");
      return;
    }
    frame.name ??= this.open.get(frame.call_id) ?? null;
    this.open.delete(frame.call_id);
    this.answered.add(frame.call_id);
  }

  /** The oldest open call of the reply's tool (A-O15). */
  findCall(frame, head) {
    if (!isLegacyReply(frame) && !this.harmony) head("the tool's reply has no call_id");
    const found = [...this.open].find(([, tool]) => frame.name === null || frame.name === tool);
    if (!found) head(`no open call of ${frame.name} for this reply`, "E-CALL-SCHEMA");
    else frame.call_id = found[0];
    return found !== undefined;
  }

  allowed(frame, head) {
    const { roles, channels, tokens } = this.settings;
    if (
      roles &&
      !roles.some(
        (role) => role === frame.author || (role.endsWith(".*") && frame.author.startsWith(role.slice(0, -1))),
      )
    )
      head(`the role ${frame.author} is not among the header's capabilities`);
    if (channels && frame.hasChannel && !channels.includes(frame.channel))
      head(`the channel ${frame.channel} is not among the header's capabilities`);
    if (!tokens) return;
    const used = [
      "start",
      "message",
      frame.hasChannel && "channel",
      frame.constrain !== null && "constrain",
      frame.end,
    ];
    const missing = [...used, ...(frame.literal ? ["literal", "endliteral"] : [])].find(
      (name) => name && !tokens.includes(`<|${name}|>`),
    );
    if (missing) head(`<|${missing}|> is not among the header's capabilities`);
  }

  body(frame, report) {
    if (frame.constrain !== null && !isOfType(frame.body, frame.constrain)) {
      report("E-BODY-CONSTRAINT-VIOLATION", `the body is not ${frame.constrain}`, frame.bodyAt);
    } else if (
      isCall(frame) &&
      isFunction(frame) &&
      frame.end !== null &&
      [null, "json"].includes(frame.content_type)
    ) {
      if (this.harmony && frame.constrain === null) return;
      if (!isOfType(frame.body, "json") || !/^[ \t\r\n]*\{/.test(frame.body))
        report("E-CALL-SCHEMA", `the arguments of ${frame.to} are not a JSON object`, frame.bodyAt);
    }
  }

  footer(frame, report) {
    if (frame.end === "call" && !isCall(frame))
      report("E-PARSE-HEADER", "<|call|> ends a message that is no call", frame.footerAt);
    if (isCall(frame) && ["end", "return"].includes(frame.end))
      report("E-PARSE-HEADER", `the call ends with <|${frame.end}|>`, frame.footerAt);
  }
}

/** Whether a body is of a type that is known here, which json and yaml are. */
function isOfType(text, type) {
  try {
    if (type === "json") JSON.parse(text);
    if (type === "yaml") parseYaml(text);
    return true;
  } catch (error) {
    return type === "yaml" && !(error instanceof Malformed);
  }
}
