// Tools that messages declare under `# Tools` (7.9): which there are. Their arguments are not checked here.

import { nearest } from "./near.js";

/** The tools that are known at a place of a transcript. */
export class DeclaredTools {
  constructor(builtins) {
    this.builtins = builtins;
    this.known = new Set();
    this.spaces = new Set();
    this.whole = new Set();
  }

  /** Adds what a system's or developer's text declares. */
  add(text) {
    const title = /^# Tools[ \t\r]*$/m.exec(text);
    if (!title) return;
    const [section] = text.slice(title.index + title[0].length).split(/^# (?!Tools[ \t\r]*$)\S/m);
    const titles = [...section.matchAll(/^##[ \t]+([\w.-]+)[ \t\r]*$/gm)];
    const found = titles.length ? titles : [...section.matchAll(/^namespace[ \t]+([\w.-]+)[ \t]*\{/gm)];
    found.forEach(({ 0: spelled, 1: name, index }, i) => {
      const names = functionNames(name, section.slice(index + spelled.length, found[i + 1]?.index));
      for (const one of names) this.known.add(`${name}.${one}`);
      (names.length ? this.spaces : this.whole).add(name);
    });
  }

  /** A hint where other tools of its namespace are declared and this one is not; null otherwise. */
  undeclared(recipient) {
    if (!this.spaces.has(recipient.split(".")[0]) || this.known.has(recipient) || this.isBuiltin(recipient))
      return null;
    const close = nearest(recipient, [...this.known]);
    return close ? `Did you mean ${close}?` : `Known: ${[...this.known].sort().slice(0, 40).join(", ")}.`;
  }

  /** A hint where it is a built-in tool that the header's list leaves out. */
  unlisted(recipient) {
    const space = recipient.split(".")[0];
    if (!this.builtins.length || space === "functions" || this.spaces.has(space) || this.isBuiltin(recipient))
      return null;
    return `The header has builtin_tools: ${this.builtins.join(", ")}.`;
  }

  isBuiltin(recipient) {
    const name = recipient.replace(/^functions\./, "").split("__")[0];
    return [...this.builtins, ...this.whole].some(
      (one) => recipient === one || recipient.startsWith(`${one}.`) || name === one,
    );
  }
}

function functionNames(namespace, text) {
  const typed = [...text.matchAll(/^[ \t]*type[ \t]+([\w.-]+)[ \t]*=[ \t]*(?=\()/gm)].map((found) => found[1]);
  const lines = text.split("\n").filter((line) => line.startsWith("{"));
  return [...typed, ...lines.map(nameIn).filter((name) => typeof name === "string")].map((name) =>
    name.startsWith(`${namespace}.`) ? name.slice(namespace.length + 1) : name,
  );
}

function nameIn(line) {
  try {
    const value = JSON.parse(line);
    return (value.function ?? value)?.name;
  } catch {
    return null;
  }
}
