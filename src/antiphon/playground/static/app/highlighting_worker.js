import highlighter from "../vendor/highlight.js";

onmessage = ({ data: { id, language, code } }) => {
  const known = highlighter.getLanguage(language) !== undefined;
  postMessage({ id, html: known ? highlighter.highlight(code, { language, ignoreIllegals: true }).value : null });
};
