// JSON, checked at any depth and with the place of its first fault; JSON.parse says neither in the same way everywhere.

const STRING = /"(?:[^"\\\0-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const ATOM = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null/y;
const BLANKS = /[ \t\r\n]*/y;
const DEEP = 1000;

/** What is wrong with a text that is no JSON, `{message, offset}`, its start where it is nested deeply; else null. */
export function jsonProblem(text) {
  const open = [];
  const found = scan(text, open);
  return found && open.length > DEEP ? { ...found, offset: 0 } : found;
}

function scan(text, open) {
  let expected = "value"; // or "first item", "first key", "key", ":", "more", "end"
  for (let at = behind(BLANKS, text, 0); ; at = behind(BLANKS, text, at)) {
    const next = text[at];
    if (expected === "end") return next === undefined ? null : { message: "Extra data", offset: at };
    const closes = expected === "more" || expected.startsWith("first");
    if (closes && next !== undefined && next === open.at(-1)) {
      open.pop();
      at += 1;
    } else if (expected === "more" || expected === ":") {
      if (next !== (expected === ":" ? ":" : ","))
        return { message: `Expecting '${expected === ":" ? ":" : ","}' delimiter`, offset: at };
      expected = expected === ":" || open.at(-1) === "]" ? "value" : "key";
      at += 1;
      continue;
    } else if (expected.endsWith("key")) {
      if (next !== '"') return { message: "Expecting property name enclosed in double quotes", offset: at };
      const end = behind(STRING, text, at);
      if (end === at) return brokenString(text, at);
      at = end;
      expected = ":";
      continue;
    } else if (next === "[" || next === "{") {
      open.push(next === "[" ? "]" : "}");
      expected = next === "[" ? "first item" : "first key";
      at += 1;
      continue;
    } else {
      const end = behind(next === '"' ? STRING : ATOM, text, at);
      if (end === at) {
        if (next === '"') return brokenString(text, at);
        return /^(?:NaN|-?Infinity)/.test(text.slice(at, at + 9))
          ? { message: "NaN and Infinity are no JSON", offset: 0, hint: null }
          : { message: "Expecting value", offset: at };
      }
      at = end;
    }
    expected = open.length ? "more" : "end";
  }
}

/** What is wrong with the string that begins at `at`. */
function brokenString(text, at) {
  const good = /(?:[^"\\\0-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/y;
  const end = behind(good, text, at + 1);
  if (end >= text.length && /\\u[0-9a-fA-F]{4}$/.test(text))
    return { message: "Invalid \\uXXXX escape", offset: text.length - 5 };
  if (end >= text.length || (text.endsWith("\\") && end === text.length - 1))
    return { message: "Unterminated string", offset: at };
  if (text[end] !== "\\") return { message: "Invalid control character", offset: end };
  if (text[end + 1] === "u") return { message: "Invalid \\uXXXX escape", offset: end + 1 };
  return { message: "Invalid \\escape", offset: end };
}

function behind(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

/** The JSON object that a text is; null when it is none. */
export function jsonObject(text) {
  if (!/^[ \t\r\n]*\{/.test(text) || jsonProblem(text)) return null;
  return JSON.parse(text);
}
