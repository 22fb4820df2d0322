// A frame's head: what is between `<|start|>` and `<|message|>` (§6, §15; A-O02, A-O05 … A-O10).

import { CONTROLS, TOKEN, decodeValue } from "./spelling.js";

export const CHANNELS = ["analysis", "commentary", "final"];
const ROLES = ["system", "developer", "user", "assistant", "tool"];
const ATTRIBUTES = ["to", "call_id", "name", "intent", "content_type"];
const IN_TAG = ["to", "intent", "content_type"];
const INTENTS = ["preamble", "status", "debug"];
const TOOL_AUTHOR = /^(?!functions\.[^.]*\.)[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*$/;
const CHANNEL = "<|channel|>";
const CONSTRAIN = "<|constrain|>";
/** A word without the control characters around it. */
const bare = (word) => word.replace(/^[\0-\x20]+|[\0-\x20]+$/g, "");
const isControl = (part) => CONTROLS.includes(part.control);

/** The namespaces that recipients and authors may name (A-O06, A-O43). */
class ToolNames {
  constructor(declared) {
    this.namespaces = new Set(["functions", "browser", "python", ...declared]);
  }

  knows(name) {
    const dot = name.indexOf(".");
    if (dot < 0) return this.namespaces.has(name) && name !== "functions";
    return this.namespaces.has(name.slice(0, dot)) && dot + 1 < name.length;
  }

  addresses(recipient) {
    return recipient === null || recipient === "assistant" || this.knows(recipient);
  }

  qualify(name) {
    return name.includes(".") || this.knows(name) ? name : `functions.${name}`;
  }
}

/**
 * The fields of a frame whose head has these `parts`, each `{text}` or `{control}`; `problems` says what is wrong.
 * Without a channel it is final (§5).
 */
export function openFrame(parts, declared) {
  const head = new HeadParser(new ToolNames(declared)).read(parts);
  return { ...head, hasChannel: head.channel !== null, channel: head.channel ?? "final", writtenId: head.call_id };
}

class HeadParser {
  constructor(tools) {
    this.tools = tools;
    this.values = new Map();
    this.seen = new Set();
    this.head = {
      role: "user",
      author: "",
      name: null,
      to: null,
      call_id: null,
      intent: null,
      channel: null,
      content_type: null,
      constrain: null,
      unknown: false,
      problems: [],
    };
  }

  read(parts) {
    const { head } = this;
    const sections = new Set();
    let section = null;
    for (const part of parts) {
      if (isControl(part)) {
        this.enter(part.control, sections);
        section = part.control;
      } else if (section === null) this.start(part.text);
      else if (section === CHANNEL) this.channel(part.text);
      else this.constrain(part.text);
    }
    if (!parts.length || isControl(parts[0])) this.problem("the frame has no role");
    if (sections.has(CHANNEL) && head.channel === null) this.problem(`nothing follows ${CHANNEL}`);
    if (sections.has(CONSTRAIN) && head.constrain === null) this.problem(`nothing follows ${CONSTRAIN}`);
    this.settle();
    return head;
  }

  problem(message) {
    this.head.problems.push(message);
  }

  enter(control, sections) {
    if (sections.has(control)) this.problem(`${control} stands twice in one head`);
    else if (control === CHANNEL && sections.has(CONSTRAIN)) this.problem(`${CHANNEL} stands after ${CONSTRAIN}`);
    sections.add(control);
  }

  start(text) {
    const words = [...text.matchAll(/[^ \t]+/g)];
    if (!words.length || words[0].index) this.problem("the frame has no role");
    if (!words.length) return;
    this.seen.clear();
    for (const word of words.slice(1)) this.attribute(word[0], ATTRIBUTES);
    this.role(words[0][0]);
  }

  role(word) {
    const { head } = this;
    head.author = word;
    const role = bare(word);
    if (ROLES.includes(role)) {
      head.role = role;
      if (word !== role) this.problem(`${JSON.stringify(word)} is no role`);
      return;
    }
    head.role = "tool";
    head.name = word.toWellFormed();
    head.unknown = !TOOL_AUTHOR.test(word) || !(this.tools.knows(word) || this.values.has("to"));
    if (head.unknown) this.problem(`unknown role ${JSON.stringify(word)}`);
  }

  channel(text) {
    const words = [...text.matchAll(/[^ \t]+/g)];
    if (!words.length) return;
    this.seen.clear();
    const channel = this.value(words[0][0]);
    if (words[0].index) this.problem(`a blank stands between ${CHANNEL} and the channel`);
    if (this.head.channel === null) {
      this.head.channel = channel || null;
      if (!CHANNELS.includes(channel)) this.problem(`unknown channel ${JSON.stringify(channel)}`);
    }
    for (const word of words.slice(1)) this.attribute(word[0], IN_TAG);
  }

  constrain(text) {
    const words = [...text.matchAll(/[^ \t]+/g)];
    if (!words.length) return;
    this.head.constrain ??= this.value(words[0][0]) || null;
    for (const word of words.slice(1)) {
      this.problem(`${JSON.stringify(word[0])} follows the constrained type`);
      this.attribute(word[0], ATTRIBUTES);
    }
  }

  attribute(word, allowed) {
    const equals = word.indexOf("=");
    const key = word.slice(0, Math.max(equals, 0));
    if (!ATTRIBUTES.includes(key)) return this.problem(`${JSON.stringify(word)} is no attribute of a frame`);
    if (!allowed.includes(key)) this.problem(`${key}= belongs into the start section`);
    if (this.seen.has(key)) return this.problem(`${key}= stands twice`);
    this.seen.add(key);
    const value = this.value(word.slice(equals + 1));
    if (!this.values.has(key)) this.values.set(key, value);
    else if (this.values.get(key) !== value) this.problem(`${key}= has two values`);
  }

  value(raw) {
    if (/^[!-~]+$/.test(raw) && !TOKEN.test(raw)) return decodeValue(raw);
    this.problem(`${JSON.stringify(raw)} is no value of an attribute`);
    return bare(decodeValue(raw).toWellFormed());
  }

  settle() {
    const { head, values } = this;
    head.to = values.get("to") || null;
    head.call_id = values.get("call_id") || null;
    head.intent = values.get("intent") || null;
    this.settleName(values.get("name") || null);
    if (!this.tools.addresses(head.to)) this.problem(`unknown recipient ${JSON.stringify(head.to)}`);
    if (head.intent !== null && !INTENTS.includes(head.intent))
      this.problem(`unknown intent ${JSON.stringify(head.intent)}`);
    const hint = values.get("content_type") || null;
    head.content_type = head.constrain ?? hint;
    if (head.constrain !== null && hint !== null && hint !== head.constrain)
      this.problem(`content_type=${hint} is not what ${CONSTRAIN} says`);
  }

  settleName(name) {
    const { head } = this;
    if (head.role !== "tool") head.name = name;
    else if (head.author !== "tool") {
      if (name !== null && this.tools.qualify(name) !== head.name)
        this.problem(`the reply of ${head.name} is named ${name}`);
    } else if (name === null) this.problem("a tool's reply has no name=");
    else head.name = this.tools.qualify(name);
  }
}
