// Places in a text: of a line and column, of a path in JSON, of so many characters; all as units of JavaScript's strings.

// The unit behind `count` characters.
export function unitOf(text, count) {
  let unit = 0;
  for (let left = count; left > 0 && unit < text.length; left -= 1) unit += text.codePointAt(unit) > 0xffff ? 2 : 1;
  return unit;
}

// The unit of a line and a column, both from 1; columns count characters.
export function unitAt(text, line, column) {
  let start = 0;
  for (let left = line - 1; left > 0; left -= 1) {
    const end = text.indexOf("\n", start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  return start + unitOf(text.slice(start, start + 2 * column), column - 1);
}

export function lineOf(text, unit) {
  let line = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < unit; at = text.indexOf("\n", at + 1)) line += 1;
  return line;
}

export const columnOf = (text, unit) => [...text.slice(text.lastIndexOf("\n", unit - 1) + 1, unit)].length + 1;

const SPACE = /[\s]*/y;
const WORD = /"(?:[^"\\]|\\.)*"|[^\s,:[\]{}"]+/y;

// Where the value at a path of JSON stands (`messages[0].role`, `.properties.a`), or the innermost one that is there.
export function rangeOf(text, path) {
  let here = [0, text.length];
  try {
    const end = (start) => skip(text, start);
    let at = blank(text, 0);
    here = [at, end(at)];
    for (let rest = path.replace(/^\./, ""); rest;) {
      const found = text[at] === "[" ? element(text, at, rest) : member(text, at, rest);
      if (!found) break;
      [at, rest] = found;
      here = [at, end(at)];
    }
  } catch { /* Not JSON, or not to its end. */ }
  return here;
}

function match(pattern, text, at) {
  pattern.lastIndex = at;
  const found = pattern.exec(text);
  if (!found) throw new SyntaxError("not JSON");
  return found[0];
}

const blank = (text, at) => at + match(SPACE, text, at).length;

// Behind the value that begins there.
function skip(text, at) {
  const tokens = /"(?:[^"\\]|\\.)*"|[[\]{}]|[^\s,:[\]{}"]+/g;
  tokens.lastIndex = at;
  for (let depth = 0, found; (found = tokens.exec(text));) {
    if ("[{".includes(found[0])) depth += 1;
    else if ("]}".includes(found[0])) depth -= 1;
    if (depth <= 0) return tokens.lastIndex;
  }
  return text.length;
}

function element(text, at, rest) {
  const index = /^\[(\d+)\]\.?/.exec(rest);
  if (!index) return null;
  let here = blank(text, at + 1);
  for (let left = Number(index[1]); left > 0; left -= 1) {
    here = blank(text, skip(text, here));
    if (text[here] !== ",") return null;
    here = blank(text, here + 1);
  }
  return [here, rest.slice(index[0].length)];
}

// The member whose name the path goes on with: the longest, for a name may hold dots.
function member(text, at, rest) {
  if (text[at] !== "{") return null;
  let best = null;
  for (let here = blank(text, at + 1); text[here] === '"';) {
    const spelled = match(WORD, text, here);
    const name = JSON.parse(spelled);
    const value = blank(text, blank(text, here + spelled.length) + 1);
    const goesOn = rest.startsWith(name) && ["", ".", "["].includes(rest.slice(name.length, name.length + 1));
    if (goesOn && (!best || name.length > best[2])) best = [value, rest.slice(name.length).replace(/^\./, ""), name.length];
    here = blank(text, skip(text, value));
    if (text[here] !== ",") break;
    here = blank(text, here + 1);
  }
  return best;
}
