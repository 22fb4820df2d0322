// Whether a text is well-formed XML 1.0 without a document type, whose entities could grow.

const NAME = "[:A-Za-z_\\u00c0-\\u{effff}][:\\w.\\-\\u00b7-\\u{effff}]*";
const REFERENCE = `&(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);`;
const ATTRIBUTE = `\\s+(${NAME})\\s*=\\s*(?:"(?:[^<&"]|${REFERENCE})*"|'(?:[^<&']|${REFERENCE})*')`;
const FORBIDDEN = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;
const re = (source) => new RegExp(source, "uy");
const MARKUP = {
  comment: re("<!--(?:(?!--)[^])*-->"),
  instruction: re(`<\\?(?!xml[\\s?])${NAME}(?:\\s(?:(?!\\?>)[^])*)?\\?>`),
  data: re("<!\\[CDATA\\[(?:(?!\\]\\]>)[^])*\\]\\]>"),
  end: re(`</(${NAME})\\s*>`),
  start: re(`<(${NAME})((?:${ATTRIBUTE})*)\\s*(/?)>`),
  text: re(`(?:(?!\\]\\]>)[^<&]|${REFERENCE})+`),
};
const DECLARATION =
  /^<\?xml\s+version\s*=\s*(?:"1\.[0-9]+"|'1\.[0-9]+')(?:\s+encoding\s*=\s*(?:"[A-Za-z][\w.-]*"|'[A-Za-z][\w.-]*'))?(?:\s+standalone\s*=\s*(?:"(?:yes|no)"|'(?:yes|no)'))?\s*\?>/;

/** What is wrong with a text that is no XML, `{message, offset}`; null for one that is. */
export function xmlProblem(text) {
  const bad = FORBIDDEN.exec(text);
  if (bad) return { message: "not well-formed (invalid token)", offset: bad.index };
  const open = [];
  let hasRoot = false;
  for (let at = DECLARATION.exec(text)?.[0].length ?? 0; at < text.length;) {
    const [kind, found] = markup(text, at);
    const wrong = !kind || (kind === "end" && open.pop() !== found[1]);
    const isInside = open.length > 0 || kind === "end";
    if (wrong || (kind === "start" && hasRoot && !open.length) || (kind === "data" && !isInside))
      return { message: "not well-formed (invalid token)", offset: at };
    if (kind === "text" && !isInside && /[^ \t\r\n]/.test(found[0]))
      return { message: "text outside elements", offset: at + found[0].search(/[^ \t\r\n]/) };
    if (kind === "start") {
      const names = [...found[2].matchAll(new RegExp(ATTRIBUTE, "gu"))].map((attribute) => attribute[1]);
      if (new Set(names).size < names.length) return { message: "duplicate attribute", offset: at };
      hasRoot = true;
      if (!found.at(-1)) open.push(found[1]);
    }
    at += found[0].length;
  }
  if (open.length || !hasRoot) return { message: hasRoot ? "unclosed token" : "no element found", offset: text.length };
  return null;
}

function markup(text, at) {
  for (const [kind, pattern] of Object.entries(MARKUP)) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) return [kind, found];
  }
  return [null, null];
}
