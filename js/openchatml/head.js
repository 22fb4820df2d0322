// A frame's head: what is between `<|start|>` and `<|message|>` (page 5; A-O02, A-O05 … A-O10).

import { didYouMean } from "./near.js";
import { CONTROLS, TOKEN, decodeValue } from "./spelling.js";

export const ROLES = ["system", "developer", "user", "assistant", "tool"];
export const CHANNELS = ["analysis", "commentary", "final"];
export const ATTRIBUTES = ["to", "call_id", "name", "intent", "content_type"];
export const INTENTS = ["preamble", "status", "debug"];
const IN_TAG = ["to", "intent", "content_type"];
const TOOL_AUTHOR = /^(?!functions\.[^.]*\.)[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*$/;
const CHANNEL = "<|channel|>";
const CONSTRAIN = "<|constrain|>";
/** A word without the control characters around it. */
const bare = (word) => word.replace(/^[\0-\x20]+|[\0-\x20]+$/g, "");
const isControl = (part) => CONTROLS.includes(part.control);
/** A word in quotes, as messages name it. */
const named = (word) => `'${word}'`;

/** The namespaces that recipients and authors may name (A-O06, A-O43). */
class ToolNames {
  constructor(declared) {
    this.namespaces = ["functions", "browser", "python", ...declared];
  }

  knows(name) {
    const dot = name.indexOf(".");
    if (dot < 0) return this.namespaces.includes(name) && name !== "functions";
    return this.namespaces.includes(name.slice(0, dot)) && dot + 1 < name.length;
  }

  addresses(recipient) {
    return recipient === null || recipient === "assistant" || this.knows(recipient);
  }

  qualify(name) {
    return name.includes(".") || this.knows(name) ? name : `functions.${name}`;
  }

  didYouMean(name, otherwise) {
    const dot = name.indexOf(".");
    if (dot < 0) return `Did you mean functions.${name}? ${otherwise}`;
    return dot + 1 < name.length ? didYouMean(name.slice(0, dot), this.namespaces, otherwise) : otherwise;
  }
}

/**
 * The fields of a frame whose head has these `parts`, each `{text}` or `{control}`. `problems` are `{message, at, hint}`
 * and `places` where its parts are, both counted from the head's first character. Without a channel it is final (5.9).
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
      ...{ role: "user", author: "", name: null, to: null, call_id: null, intent: null, channel: null },
      ...{ content_type: null, constrain: null, unknown: false, problems: [], places: {} },
    };
  }

  read(parts) {
    const { head } = this;
    const sections = new Set();
    let section = null;
    let at = 0;
    for (const part of parts) {
      if (isControl(part)) {
        this.enter(part.control, sections, at);
        section = part.control;
      } else if (section === null) this.start(part.text, at);
      else if (section === CHANNEL) this.channel(part.text, at);
      else this.constrain(part.text, at);
      at += (part.text ?? part.control).length;
    }
    head.places.end = at;
    if (!parts.length || isControl(parts[0])) this.problem(0, "the frame has no role");
    for (const control of sections)
      if (head[control.slice(2, -2)] === null) this.problem(at, `nothing follows ${control}`);
    this.settle(at);
    return head;
  }

  problem(at, message, hint = null) {
    this.head.problems.push({ at, message, hint });
  }
  place(name, at) {
    this.head.places[name] = at;
  }
  /** Words and their places. */
  words(text, base) {
    return [...text.matchAll(/[^ \t]+/g)].map((found) => [found[0], base + found.index]);
  }

  enter(control, sections, at) {
    const hint = control === CHANNEL ? "Each message has exactly one channel." : "A body has one type.";
    if (sections.has(control)) this.problem(at, `${control} stands twice in one head`, hint);
    else if (control === CHANNEL && sections.has(CONSTRAIN))
      this.problem(at, `${CHANNEL} stands after ${CONSTRAIN}`, "The channel comes first.");
    sections.add(control);
  }

  start(text, base) {
    const [role, ...attributes] = this.words(text, base);
    if (!role || role[1] > base) this.problem(base, "the frame has no role", "A role follows <|start|> at once.");
    if (!role) return;
    this.seen.clear();
    for (const [word, at] of attributes) this.attribute(word, at, ATTRIBUTES);
    this.role(...role);
  }

  role(word, at) {
    const { head } = this;
    head.author = word;
    this.place("role", at);
    const role = bare(word);
    if (ROLES.includes(role)) {
      head.role = role;
      if (word !== role) this.problem(at, `${named(word)} is no role`, "Only blanks and tabs may follow a role.");
      return;
    }
    head.role = "tool";
    head.name = word.toWellFormed();
    head.unknown = !TOOL_AUTHOR.test(word) || !(this.tools.knows(word) || this.values.has("to"));
    if (!head.unknown) return;
    const hint = "system, developer, user, assistant, tool, or a tool's qualified name.";
    this.problem(at, `unknown role ${named(word)}`, didYouMean(word, ROLES, hint));
  }

  channel(text, base) {
    const [first, ...attributes] = this.words(text, base);
    if (!first) return;
    this.seen.clear();
    const channel = this.value(...first);
    if (first[1] > base) this.problem(base, `a blank stands between ${CHANNEL} and the channel`);
    if (this.head.channel === null) {
      this.head.channel = channel || null;
      this.place("channel", first[1]);
      if (!CHANNELS.includes(channel)) {
        const hint = didYouMean(channel, CHANNELS, "analysis, commentary or final.");
        this.problem(first[1], `unknown channel ${named(channel)}`, hint);
      }
    }
    for (const [word, at] of attributes) this.attribute(word, at, IN_TAG);
  }

  constrain(text, base) {
    const [first, ...attributes] = this.words(text, base);
    if (!first) return;
    if (this.head.constrain === null) {
      this.head.constrain = this.value(...first) || null;
      this.place("constrain", first[1]);
    }
    for (const [word, at] of attributes) {
      this.problem(at, `${named(word)} follows the constrained type`);
      this.attribute(word, at, ATTRIBUTES);
    }
  }

  attribute(word, at, allowed) {
    const equals = word.indexOf("=");
    const key = word.slice(0, Math.max(equals, 0));
    if (!ATTRIBUTES.includes(key)) {
      const hint = "Attributes are to, call_id, name, intent and content_type; a blank in a value is written %20.";
      const better = equals < 0 ? hint : didYouMean(key, ATTRIBUTES, hint);
      return this.problem(at, `${named(word)} is no attribute of a frame`, better);
    }
    if (!allowed.includes(key)) this.problem(at, `${key}= belongs into the start section`);
    const value = this.value(word.slice(equals + 1), at + equals + 1);
    const other = this.values.get(key);
    if (this.seen.has(key) && other === value) return this.problem(at, `${key}= stands twice`);
    this.seen.add(key);
    if (other === undefined) {
      this.values.set(key, value);
      this.place(key, at);
    } else if (other !== value) {
      this.problem(at, `${key}= has two values, ${named(other)} and ${named(value)}`);
    }
  }

  value(raw, at) {
    const end = TOKEN.exec(raw)?.index ?? /^[!-~]*/.exec(raw)[0].length;
    if (raw && end === raw.length) return decodeValue(raw);
    const hint = "A value is visible ASCII without controls; other characters are percent-encoded.";
    this.problem(at + end, raw ? `${named(raw)} is no value of an attribute` : "the value is empty", hint);
    return bare(decodeValue(raw).toWellFormed());
  }

  settle(end) {
    const { head, values } = this;
    head.to = values.get("to") || null;
    head.call_id = values.get("call_id") || null;
    head.intent = values.get("intent") || null;
    this.settleName(values.get("name") || null, end);
    if (!this.tools.addresses(head.to)) {
      const hint = "assistant, functions.x, browser.x, python, or a namespace that the header declares.";
      this.problem(head.places.to, `unknown recipient ${named(head.to)}`, this.tools.didYouMean(head.to, hint));
    }
    if (head.intent !== null && !INTENTS.includes(head.intent)) {
      const hint = didYouMean(head.intent, INTENTS, "preamble, status or debug.");
      this.problem(head.places.intent, `unknown intent ${named(head.intent)}`, hint);
    }
    const hint = values.get("content_type") || null;
    head.content_type = head.constrain ?? hint;
    if (head.constrain !== null && hint !== null && hint !== head.constrain)
      this.problem(head.places.content_type, `content_type=${hint} is not what ${CONSTRAIN} says`);
  }

  settleName(name, end) {
    const { head } = this;
    if (head.role !== "tool") head.name = name;
    else if (head.author !== "tool") {
      if (name !== null && this.tools.qualify(name) !== head.name)
        this.problem(head.places.name, `the reply of ${named(head.name)} is named ${named(name)}`);
    } else if (name === null) this.problem(end, "a tool's reply has no name=", "Write tool name=functions.x.");
    else head.name = this.tools.qualify(name);
  }
}
