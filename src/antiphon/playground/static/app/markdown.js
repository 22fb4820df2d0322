// A model's text as a document: Markdown, then DOMPurify; no HTML of its own, no images, no addresses but plain links.
import { Marked } from "../vendor/marked.js";
import DOMPurify from "../vendor/purify.js";
import { highlighted } from "./highlighting.js";
import { FORMULAS, drawFormulas } from "./math.js";
import { html, copy, useLayoutEffect, useMemo, useRef, useState, Component } from "./ui.js";
import { t } from "./strings.js";

const LONGEST_BLOCK = 20_000;
const LONGEST_SHOWN = 60_000;
const LONGEST_COLOURED = 20_000;
const AT_REST = 200; // Milliseconds without a change, after which code is coloured.
const TAGS = "a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre strong table tbody td th thead tr ul".split(" ");

const escaped = (text) => text.replace(/[&<>"']/g, (one) => `&#${one.codePointAt(0)};`);
const marked = new Marked({
  gfm: true,
  extensions: FORMULAS,
  renderer: {
    html: ({ text }) => escaped(text),
    image: ({ href, text }) => `<code>${escaped(`![${text}](${href})`)}</code>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

const CLASSES = { CODE: /^language-[\w+#.-]{1,40}$/, SPAN: /^(hljs-[\w-]+_?( [\w-]+_)?)$/, mtd: /^tml-(left|right)$/ };

function attributesChecked(node) {
  if (node.hasAttribute?.("class") && !CLASSES[node.tagName]?.test(node.className)) node.removeAttribute("class");
  if (node.tagName !== "A") return;
  const target = node.getAttribute("href") ?? "";
  if (!/^(https?:|mailto:)/i.test(target)) {
    node.removeAttribute("href");
    return;
  }
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
}
DOMPurify.addHook("afterSanitizeAttributes", attributesChecked);

export function fragmentOf(text) {
  return DOMPurify.sanitize(marked.parse(text), {
    ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["href", "start", "class"], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}

const SAMPLE = "# a\n\n*b* **c** `d` [e](https://f.example/)\n\n* g\n\n1. h\n\n> i\n\n| j |\n|---|\n| k |\n\n```l\nm\n```\n";

// Does for once, while nothing else is to be done, what would make the first answer wait.
export function warm() {
  const idle = globalThis.requestIdleCallback ?? ((work) => setTimeout(work, 200));
  idle(() => { marked.parse(SAMPLE); idle(() => fragmentOf(SAMPLE)); });
}

// Cut at blank lines outside of fences, so that a stream draws its last part only.
export function blocksOf(text) {
  const blocks = [];
  let current = [];
  let fence = "";
  for (const line of text.split("\n")) {
    const mark = line.match(/^ {0,3}(`{3,}|~{3,}|\$\$(?=\s*$))/)?.[1] ?? "";
    if (fence) {
      if (mark.startsWith(fence)) fence = "";
    } else if (mark) {
      fence = mark;
    }
    if (!fence && line.trim() === "" && current.length) {
      blocks.push(current.join("\n"));
      current = [];
    } else if (current.length || line.trim() !== "") {
      current.push(line);
    }
  }
  if (current.length) blocks.push(current.join("\n"));
  return blocks;
}

class Block extends Component {
  shouldComponentUpdate(next) {
    return next.text !== this.props.text;
  }

  render({ text }) {
    return text.length > LONGEST_BLOCK ? html`<pre class="plain" dir="auto" tabindex="0">${text}</pre>` : html`<${Marked1} text=${text} />`;
  }
}

// The code of a block in the colours of its language.
async function coloured(pre) {
  const code = pre.querySelector("code");
  const language = code?.className.replace(/^language-/, "").toLowerCase();
  if (!language || code.textContent.length > LONGEST_COLOURED) return;
  const colours = await highlighted(language, code.textContent);
  if (colours && code.isConnected) code.replaceChildren(DOMPurify.sanitize(colours, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true }));
}

const element = (name, fields) => Object.assign(document.createElement(name), fields);

// Code below a bar with its language and a button that copies it.
function copied(code) {
  const bar = element("div", { className: "code-bar" });
  const box = element("div", { className: "code-block" });
  const language = code.querySelector("code")?.className.replace(/^language-/, "") ?? "";
  bar.append(element("span", { textContent: language }), element("button", { type: "button", className: "small", textContent: t("copy"), onclick: () => copy(code.textContent) }));
  code.replaceWith(box);
  box.append(bar, code);
}

// A wide table scrolls, and breaks no word.
function scrolled(table) {
  const box = element("div", { className: "scroll", tabIndex: 0 });
  table.replaceWith(box);
  box.append(table);
}

function Marked1({ text }) {
  const place = useRef(null);
  useLayoutEffect(() => {
    const fragment = fragmentOf(text);
    for (const code of fragment.querySelectorAll("pre")) { code.setAttribute("tabindex", "0"); copied(code); }
    fragment.querySelectorAll("table").forEach(scrolled);
    place.current.replaceChildren(fragment);
    drawFormulas(place.current);
    const all = [...place.current.querySelectorAll("pre")];
    const timer = all.length ? setTimeout(() => { all.forEach(coloured); }, AT_REST) : 0;
    return () => clearTimeout(timer);
  }, [text]);
  return html`<div class="block" dir="auto" ref=${place}></div>`;
}

export function Markdown({ text }) {
  const [all, setAll] = useState(false);
  const shown = all ? text : text.slice(0, LONGEST_SHOWN);
  const blocks = useMemo(() => blocksOf(shown), [shown]);
  return html`<div class="markdown">
    ${blocks.map((block, place) => html`<${Block} key=${place} text=${block} />`)}
    ${shown.length < text.length && html`<button type="button" onClick=${() => setAll(true)}>${t("showAll", { count: text.length })}</button>`}
  </div>`;
}
