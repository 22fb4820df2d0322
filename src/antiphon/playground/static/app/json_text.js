// JSON texts that are typed: their value, or the place where they stop being JSON.
import { columnOf, lineOf } from "./places.js";
import { t } from "./strings.js";

const TOKEN = /([{}[\],:])|("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w))/y;
const BLANK = /[ \t\r\n]*/y;

// [value, null], or [undefined, fault]; a blank text has neither.
export function jsonOf(text) {
  if (!text.trim()) return [undefined, null];
  try {
    return [JSON.parse(text), null];
  } catch {
    const from = faultOf(text);
    const what = from < text.length ? String.fromCodePoint(text.codePointAt(from)) : "";
    return [undefined, faultAt(text, from, what ? t("cannotCome", { what }) : t("endsEarly"))];
  }
}

export const faultAt = (text, from, message) => ({ code: "not_json", message, from, to: Math.min(from + 1, text.length), where: `${lineOf(text, from)}:${columnOf(text, from)}` });

// The unit of the first token that cannot stand where it does. What may come is a value, a name, or a sign.
function faultOf(text) {
  const open = [];
  let awaited = "value";
  for (let at = 0; ;) {
    BLANK.lastIndex = at;
    at += BLANK.exec(text)[0].length;
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text);
    const next = found && after(awaited, found, open);
    if (!next) return at;
    awaited = next;
    at += found[0].length;
  }
}

function after(awaited, [token, sign, string], open) {
  const over = () => (open.length === 0 ? "nothing" : "comma");
  if (sign === "}" || sign === "]") {
    const fits = ["comma", sign === "}" ? "name or end" : "value or end"].includes(awaited) && open.at(-1) === (sign === "}" ? "{" : "[");
    if (fits) open.pop();
    return fits && over();
  }
  if (awaited === "comma") return sign === "," && (open.at(-1) === "{" ? "name" : "value");
  if (awaited === "colon") return sign === ":" && "value";
  if (awaited.startsWith("name")) return string && "colon";
  if (!awaited.startsWith("value")) return null;
  if (token === "{" || token === "[") {
    open.push(token);
    return token === "{" ? "name or end" : "value or end";
  }
  return !sign && over();
}
