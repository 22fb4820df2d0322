// Tools that messages declare under `# Tools` (7.9): which there are, and what calls of them are checked against.

import { jsonObject } from "./json.js";
import { nearest } from "./near.js";
import { Schema, SchemaError, isSchema } from "./schema.js";
import { SignatureError, readSignature } from "./signatures.js";

/** Whether a value limits a run: a whole number above 0. */
export const isDeadline = (value) => Number.isInteger(value) && value > 0;

/** The tools that are known at a place of a transcript. */
export class DeclaredTools {
  constructor(builtins) {
    this.builtins = builtins;
    this.known = new Map();
    this.spaces = new Set();
    this.whole = new Set();
  }

  /** Adds what a system's or developer's text declares, and gives `[recipient, why]` of what is not read. */
  add(text) {
    const title = /^# Tools[ \t\r]*$/m.exec(text);
    if (!title) return [];
    const [section] = text.slice(title.index + title[0].length).split(/^# (?!Tools[ \t\r]*$)\S/m);
    const titles = [...section.matchAll(/^##[ \t]+([\w.-]+)[ \t\r]*$/gm)];
    const found = titles.length ? titles : [...section.matchAll(/^namespace[ \t]+([\w.-]+)[ \t]*\{/gm)];
    return found.flatMap(({ 0: spelled, 1: name, index }, i) => {
      const part = section.slice(index + spelled.length, found[i + 1]?.index);
      const tools = [...typed(part), ...inJson(name, part)].map((tool) => ({ ...tool, to: `${name}.${tool.name}` }));
      for (const { to, parameters } of tools) this.known.set(to, { parameters, schema: new Schema(parameters) });
      (tools.length ? this.spaces : this.whole).add(name);
      return tools.filter(({ unread }) => unread).map(({ to, unread }) => [to, unread]);
    });
  }

  /** What is wrong with the arguments of a declared tool, `{message, hint, warning}`; null where nothing is. */
  problem(recipient, text) {
    const { parameters, schema } = this.known.get(recipient);
    const values = text.trim() ? jsonObject(text) : {};
    if (!values) return { message: `the arguments of ${recipient} are not a JSON object` };
    if (Object.hasOwn(values, "deadline_ms") && !Object.hasOwn(parameters?.properties ?? {}, "deadline_ms")) {
      if (!isDeadline(values.deadline_ms)) return { message: "deadline_ms is not a positive whole number" };
      delete values.deadline_ms;
    }
    if (parameters === null) return Object.keys(values).length ? { message: `${recipient} takes no arguments` } : null;
    try {
      const message = schema.problem(values, recipient);
      return message && { message };
    } catch (error) {
      if (!(error instanceof SchemaError)) throw error;
      const message = `the schema of ${recipient} cannot be used: ${error.message}`;
      return { message, hint: "The call is not checked.", warning: true };
    }
  }

  /** A hint where other tools of its namespace are declared and this one is not; null otherwise. */
  undeclared(recipient) {
    if (!this.spaces.has(recipient.split(".")[0]) || this.known.has(recipient) || this.isBuiltin(recipient))
      return null;
    const names = [...this.known.keys()];
    const close = nearest(recipient, names);
    return close ? `Did you mean ${close}?` : `Known: ${names.sort().slice(0, 40).join(", ")}.`;
  }

  /** A hint where it is a built-in tool that the header's list leaves out. */
  unlisted(recipient) {
    const space = recipient.split(".")[0];
    if (!this.builtins.length || space === "functions" || this.spaces.has(space) || this.isBuiltin(recipient))
      return null;
    return `The header has builtin_tools: ${this.builtins.join(", ")}.`;
  }

  isBuiltin(recipient) {
    const name = recipient.replace(/^functions\./, "");
    const isIn = (space) => recipient.startsWith(`${space}.`) && !`${space}.`.startsWith("functions.");
    return [...this.builtins, ...this.whole].some(
      (one) => [recipient, name, name.split("__")[0]].includes(one) || isIn(one),
    );
  }
}

/** `type name = (_: {…}) => any;` each. */
function* typed(text) {
  const found = text.matchAll(/^[ \t]*type[ \t]+([\w.-]+)[ \t]*=[ \t]*(?=\()/gm);
  for (const { 0: spelled, 1: name, index } of found) {
    try {
      yield { name, parameters: readSignature(text, index + spelled.length) };
    } catch (error) {
      if (!(error instanceof SignatureError)) throw error;
      yield { name, parameters: true, unread: error.message };
    }
  }
}

/** `{"name", "parameters"}` a line, also where it is the `function` of a chat request's tool. */
function inJson(namespace, text) {
  const lines = text.split(/[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/).filter((line) => line.startsWith("{"));
  const tools = lines.map(jsonObject).map((value) => (value && Object.hasOwn(value, "function") ? value.function : value));
  return tools
    .filter((tool) => typeof tool?.name === "string")
    .map(({ name, parameters }) => ({
      name: name.startsWith(`${namespace}.`) ? name.slice(namespace.length + 1) : name,
      parameters: isSchema(parameters) ? parameters : null,
    }));
}
