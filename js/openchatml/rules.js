// The rules that span frames: ids, channels, footers, capabilities, bodies (pages 4 … 7, 11; A-O01, A-O12 … A-O15, A-O30).

import { jsonObject, jsonProblem } from "./json.js";
import { DeclaredTools, isDeadline } from "./tools.js";
import { typeOf, typeProblem } from "./types.js";

const MARKER = /<\|(?:start|end)_(?:reflect|introspect|reason)\|>/;

export const isCall = (frame) => frame.role === "assistant" && ![null, "assistant", "user", "all"].includes(frame.to);
export const isFunction = (frame) => frame.to?.startsWith("functions.") ?? false;
const isLegacyReply = (frame) => frame.role === "tool" && frame.author !== "tool";
const isFinal = (frame) => frame.role === "assistant" && frame.channel === "final";

/** Checks frames in their order, and gives replies and calls the ids and names that their text leaves out. */
export class Rules {
  constructor(settings, { harmony = false } = {}) {
    this.settings = settings;
    this.harmony = harmony || settings.harmony;
    this.asked = harmony;
    this.wholeProfile = harmony || settings.requireChannels;
    this.tools = new DeclaredTools(settings.tools);
    this.open = new Map();
    this.answered = new Set();
    this.forms = new Set();
    this.last = null;
    this.made = 0;
  }

  /** `report({code, message, offset, hint, warning})` is told of each error and warning. */
  settle(frame, report) {
    this.frame = frame;
    this.report = report;
    if (this.settings.legacy) this.version1();
    if (this.wholeProfile) this.profile();
    if (isCall(frame)) this.call();
    this.callFooter();
    if (isCall(frame)) this.declared();
    else if (frame.role === "tool" && !frame.unknown) this.reply();
    this.body();
    if (frame.role === "system" || frame.role === "developer") this.declare();
    this.doubtful();
    this.allowed();
    this.last = frame;
  }

  close(report, offset) {
    const { last } = this;
    if (last?.role !== "assistant" || last.end !== "end" || isCall(last)) return;
    if (isFinal(last) && !this.asked) return;
    const hint = "An assistant's turn ends with a final answer or a call.";
    const message = "no <|return|> or <|call|> at the end";
    report({ code: "E-STREAM-TRUNCATED", message, offset, hint, warning: !this.asked });
  }

  /** What is wrong with a part of the head, or at its "end". */
  head(place, message, { hint = null, code = "E-PARSE-HEADER", warning = false } = {}) {
    const { started, places } = this.frame;
    const offset = started + "<|start|>".length + (places[place] ?? 0);
    this.report({ code, message, offset, hint, warning });
  }

  version1() {
    const { frame } = this;
    const used = [
      ["channel", frame.hasChannel],
      ["constrain", frame.constrain !== null],
      ["to", frame.to !== null],
      ["call_id", frame.writtenId !== null],
      ["intent", frame.intent !== null],
      ["role", ["developer", "tool"].includes(frame.role)],
      ["end", frame.literal || ["call", "return"].includes(frame.end)],
    ].find(([, isUsed]) => isUsed);
    const hint = 'Write version: "2.2" in the header.';
    if (used) this.head(used[0], "a feature of version 2 in a transcript of version 1", { hint });
  }

  /** HIP-1.2, HIP-1.4, HIP-1.6: a channel, JSON arguments that say so, and a plan on commentary that it is one. */
  profile() {
    const { frame } = this;
    if (!frame.hasChannel && ["assistant", "tool"].includes(frame.role)) {
      const hint = "The harmony profile requires one of analysis, commentary and final.";
      this.head("end", `the ${frame.role} message has no channel`, { hint, code: "E-PARSE-CHANNEL-MISSING" });
    }
    const type = frame.content_type;
    const isJson = typeOf(type) === "json" || (type === null && jsonObject(frame.body) !== null);
    if (isCall(frame) && frame.constrain === null && isJson) {
      const hint = "HIP-1.4: <|constrain|>json before <|message|>.";
      this.head("end", "the JSON arguments of the call are not marked as JSON", { hint });
    }
    const isPlan = frame.role === "assistant" && frame.hasChannel && frame.channel === "commentary" && !frame.to;
    if (isPlan && !frame.intent) {
      const hint = "HIP-1.6: intent=preamble for a plan that may be shown; status or debug for what is none.";
      this.head("channel", "the commentary to nobody has no intent", { hint });
    }
  }

  isUsed(id) {
    return this.open.has(id) || this.answered.has(id);
  }

  call() {
    const { frame } = this;
    if (frame.call_id === null) {
      if (!this.harmony) this.head("end", "the call has no call_id", { hint: "Each call carries a unique call_id=." });
      while (this.isUsed(`call_${this.made}`)) this.made += 1;
      frame.call_id = `call_${this.made}`;
    } else if (this.isUsed(frame.call_id)) {
      this.head("call_id", `the call_id '${frame.call_id}' is used twice`, { hint: "Unique in the transcript." });
    }
    if (!this.open.has(frame.call_id)) this.open.set(frame.call_id, frame.to);
    const { toolCallsIn, builtinsIn } = this.settings;
    const allowed = isFunction(frame) ? toolCallsIn : builtinsIn;
    if (allowed.includes(frame.channel) || (!frame.hasChannel && this.wholeProfile)) return;
    const what = isFunction(frame) ? "functions" : "built-in tools";
    const message = `${what} are called on ${allowed.join(" or ")}, not on ${frame.channel}`;
    this.head(frame.hasChannel ? "channel" : "end", message);
  }

  declared() {
    const { to } = this.frame;
    const undeclared = this.tools.undeclared(to);
    const hint = undeclared ?? this.tools.unlisted(to);
    if (hint) this.head("to", `${to} is not declared`, { hint, code: "E-CALL-SCHEMA", warning: !undeclared });
  }

  declare() {
    for (const [recipient, problem] of this.tools.add(this.frame.body)) {
      const message = `the arguments of ${recipient} are declared in a way that is not read: ${problem}`;
      this.bodyProblem("E-CALL-SCHEMA", { message, hint: "Its calls are not checked.", warning: true });
    }
  }

  callFooter() {
    const { end } = this.frame;
    if (end === null || (end === "call") === isCall(this.frame)) return;
    if (end === "call")
      this.footer("<|call|> ends a message that is no call", "Only an assistant's message to a tool ends so.");
    else this.footer(`the call ends with <|${end}|>`, "A call ends with <|call|>.");
  }

  footer(message, hint = null, warning = false) {
    this.report({ code: "E-PARSE-HEADER", message, offset: this.frame.footerAt, hint, warning });
  }

  reply() {
    const { frame } = this;
    const code = "E-CALL-SCHEMA";
    if (frame.call_id === null) {
      const hint = "A reply echoes the call_id of its call.";
      if (!isLegacyReply(frame) && !this.harmony) this.head("end", "the tool's reply has no call_id", { hint });
      const found = [...this.open].find(([, tool]) => frame.name === null || frame.name === tool);
      if (!found) return this.head("role", `no open call of ${frame.name} for this reply`, { code });
      frame.call_id = found[0];
    }
    if (!this.isUsed(frame.call_id))
      return this.head("call_id", `the reply to '${frame.call_id}' answers no call`, { code });
    const called = this.open.get(frame.call_id);
    this.open.delete(frame.call_id);
    this.answered.add(frame.call_id);
    if (called === undefined) this.head("call_id", `'${frame.call_id}' was answered before`, { code, warning: true });
    else if (frame.name === null) frame.name = called;
    else if (called !== frame.name)
      this.head("name", `${frame.name} answers a call of ${called}`, { code, warning: true });
  }

  allowed() {
    const { frame, settings } = this;
    const { roles, channels, tokens } = settings;
    const isGlob = (role) => role.endsWith(".*") && frame.author.startsWith(role.slice(0, -1));
    if (roles && !roles.some((role) => role === frame.author || isGlob(role)))
      this.unlisted("role", `the role '${frame.author}'`);
    if (channels && frame.hasChannel && !channels.includes(frame.channel))
      this.unlisted("channel", `the channel '${frame.channel}'`);
    const used = [
      ...[frame.hasChannel && "channel", frame.constrain !== null && "constrain"],
      ...(frame.literal ? ["literal", "endliteral"] : []),
      ...["start", "message", frame.end],
    ].filter(Boolean);
    const missing = tokens && used.map((name) => `<|${name}|>`).find((token) => !tokens.includes(token));
    if (missing) this.unlisted("role", missing);
  }

  unlisted(place, what) {
    this.head(place, `${what} is not among the header's capabilities`);
  }

  /** A place in a body is exact where it is spelled as it reads. */
  bodyProblem(code, { message, offset = 0, hint = null, warning = false }) {
    const { bodyAt, plain } = this.frame;
    this.report({ code, message, offset: bodyAt + (plain ? offset : 0), hint, warning });
  }

  body() {
    const { frame } = this;
    const broken = frame.constrain !== null && typeProblem(frame.body, frame.constrain);
    if (broken) this.bodyProblem("E-BODY-CONSTRAINT-VIOLATION", broken);
    if (frame.role === "tool" && !frame.unknown) this.envelope();
    if (!isCall(frame)) return;
    const isDeclared = this.tools.known.has(frame.to);
    const wrong = broken ? null : (this.misshapen() ?? (isDeclared && this.tools.problem(frame.to, frame.body)));
    if (wrong) this.bodyProblem("E-CALL-SCHEMA", wrong);
    const { deadline_ms } = (!isDeclared && frame.body.includes("deadline_ms") && jsonObject(frame.body)) || {};
    if (deadline_ms !== undefined && !isDeadline(deadline_ms))
      this.bodyProblem("E-CALL-SCHEMA", { message: "deadline_ms is not a positive whole number", warning: true });
  }

  /** A function's arguments are a JSON object, unless their type is another; in Harmony, if they say so. */
  misshapen() {
    const { to, body, content_type, constrain, end } = this.frame;
    const isTyped = content_type === null || typeOf(content_type) === "json";
    if (!isFunction(this.frame) || end === null || !isTyped || (constrain === null && this.harmony)) return null;
    const wrong = jsonProblem(body);
    if (!wrong && /^[ \t\r\n]*\{/.test(body)) return null;
    return { message: `the arguments of ${to} are not a JSON object`, offset: wrong?.offset ?? 0 };
  }

  /** 7.6: an envelope says what went wrong, exactly when something did. */
  envelope() {
    const value = jsonObject(this.frame.body);
    if (typeof value?.ok !== "boolean") return;
    const { ok, error = null } = value;
    const code = "E-CALL-SCHEMA";
    if (ok && error !== null) this.bodyProblem(code, { message: "the reply says ok, and has an error", warning: true });
    if (
      ok ||
      (error &&
        (typeof error === "string" ||
          (typeof error === "object" && !Array.isArray(error) && Object.keys(error).length)))
    )
      return;
    const hint = 'A tool says what went wrong: {"ok": false, "error": {"code": "E-TOOL-TIMEOUT", "message": "…"}}';
    this.bodyProblem(code, { message: "the reply says that the tool failed, and not why", hint, warning: true });
  }

  /** What is allowed, and perhaps not meant. */
  doubtful() {
    const { frame } = this;
    if (frame.role === "assistant") this.mixed();
    const isThought = frame.hasChannel && frame.channel === "analysis";
    if (frame.role === "assistant" && !isThought && frame.markerAt !== undefined) {
      const hint = "Reasoning belongs to analysis, with its markers.";
      const message = "a reflection marker stands outside analysis";
      this.report({ code: "E-PERM-VISIBILITY", message, offset: frame.markerAt, hint, warning: true });
    }
    if (!["assistant", "tool"].includes(frame.role)) this.forms.clear();
    if (frame.end === "return" && !isFinal(frame) && !isCall(frame) && !frame.unknown)
      this.footer("<|return|> ends a message that is no final answer", null, true);
  }

  /** 7.10: a turn calls with frames or with JSON's `tool_calls`. */
  mixed() {
    const { frame } = this;
    const hasCalls = frame.body.includes('"tool_calls"') && "tool_calls" in (jsonObject(frame.body) ?? {});
    if (!isCall(frame) && !hasCalls) return;
    const isMixed = this.forms.has(!isCall(frame));
    this.forms.add(isCall(frame));
    if (!isMixed) return;
    this.forms.clear();
    const hint = "A turn never mixes <|call|> and tool_calls; write each call as a frame.";
    const message = "the turn calls with <|call|> and with tool_calls";
    this.head("role", message, { hint, code: "E-CALL-SCHEMA", warning: true });
  }
}

/** Where a reflection marker begins in a text of a body; -1 where there is none. */
export const markerIn = (text) => text.search(MARKER);
/** A text without reflection markers. */
export const withoutMarkers = (text) => text.replace(new RegExp(MARKER, "g"), "");
