// Formulas of a text, in TeX between dollars or \( \) and \[ \]: each becomes MathML, and the library that writes it is loaded with the first.
import DOMPurify from "../vendor/purify.js";

const LONGEST = 4000;
const LIMITS = { maxExpand: 100, maxSize: [20, 100], throwOnError: true };
const TAGS = "math menclose mfrac mi mn mo mover mpadded mphantom mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover".split(" ");
const ATTRIBUTES = "accent accentunder class depth display displaystyle fence form height linethickness lspace mathvariant maxsize minsize notation rspace scriptlevel separator stretchy voffset width".split(" ");
const DISPLAYED = /^ {0,3}(?:\$\$([^$]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n|$)/;
const INLINE = /^(?:\$\$([^$\n]+?)\$\$|\\\[([^\n]+?)\\\])|^(?:\$(?![\s$])((?:\\[^\n]|[^\\$\n])+?)(?<!\s)\$(?!\w)|\\\(([^\n]+?)\\\))/;

// "$5 and 6$" is a price: a number and then words, with nothing that TeX would have.
const isPrice = (tex) => /^\d[\d.,]*\s/.test(tex) && !/[\\^_={}+*/<>-]/.test(tex);
const escaped = (text) => text.replace(/[&<>"']/g, (one) => `&#${one.codePointAt(0)};`);
const spelled = (kind, tex) => `<code class="language-math-${kind}">${escaped(tex.trim())}</code>`;

export const FORMULAS = [
  {
    name: "displayed", level: "block", start: (text) => text.match(/^ {0,3}(?:\$\$|\\\[)/m)?.index,
    tokenizer(text) {
      const found = DISPLAYED.exec(text);
      return found ? { type: "displayed", raw: found[0], tex: found[1] ?? found[2] } : undefined;
    },
    renderer: ({ tex }) => `<p>${spelled("display", tex)}</p>`,
  },
  {
    name: "formula", level: "inline", start: (text) => text.match(/\$|\\[([]/)?.index,
    tokenizer(text) {
      const [raw, two, square, one, round] = INLINE.exec(text) ?? [];
      if (raw === undefined || (one !== undefined && isPrice(one))) return undefined;
      const displayed = two ?? square;
      return { type: "formula", raw, tex: displayed ?? one ?? round, kind: displayed === undefined ? "inline" : "display" };
    },
    renderer: ({ tex, kind }) => spelled(kind, tex),
  },
];

let library = null;

// Puts MathML in the place of each formula; what is no TeX stays as it was written.
export function drawFormulas(root) {
  const all = [...root.querySelectorAll(':not(pre) > code[class^="language-math-"]')].filter((one) => one.textContent.length <= LONGEST);
  if (!all.length) return;
  if (library) all.forEach(draw);
  else import("../vendor/temml.js").then((loaded) => { library = loaded.default; all.forEach(draw); }, () => {});
}

function draw(code) {
  const displayMode = code.className === "language-math-display";
  try {
    const mathml = library.renderToString(code.textContent, { ...LIMITS, displayMode }).replace(/ style="[^"]*"/g, ""); // The policy has no inline style.
    const fragment = DOMPurify.sanitize(mathml, { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ATTRIBUTES, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true });
    const math = fragment.firstElementChild;
    if (math?.localName !== "math") return;
    if (displayMode) math.setAttribute("tabindex", "0"); // A wide one scrolls.
    code.replaceWith(fragment);
  } catch { /* Not TeX. */ }
}
