// Copies the libraries of package-lock.json into the package, each as one ES module, with their licences.
import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = `${here}../../src/antiphon/playground/static/vendor/`;
const MODULES = {
  "preact.js": "preact/dist/preact.mjs",
  "hooks.js": "preact/hooks/dist/hooks.mjs",
  "htm.js": "htm/dist/htm.mjs",
  "marked.js": "marked/lib/marked.esm.js",
  "purify.js": "dompurify/dist/purify.es.mjs",
  "highlight.js": "@highlightjs/cdn-assets/es/highlight.min.js",
  "temml.js": "temml/dist/temml.min.js",
};
const EXPORTS = { "temml.js": "export default temml;\n" }; // A script, not a module.
const LICENCES = { preact: "preact", htm: "htm", marked: "marked", dompurify: "dompurify", highlight: "@highlightjs/cdn-assets", temml: "temml" };

mkdirSync(target, { recursive: true });
for (const [name, source] of Object.entries(MODULES)) {
  const text = readFileSync(`${here}node_modules/${source}`, "utf8");
  // Browsers know no bare names of packages, and the maps are not copied.
  writeFileSync(target + name, text.replace(/from"preact"/g, 'from"./preact.js"').replace(/\n?\/\/# sourceMappingURL=.*\n?/g, "\n") + (EXPORTS[name] ?? ""));
}
for (const [name, from] of Object.entries(LICENCES)) {
  const version = JSON.parse(readFileSync(`${here}node_modules/${from}/package.json`, "utf8")).version;
  writeFileSync(`${target}${name}.LICENSE.txt`, `${from} ${version}\n\n${readFileSync(`${here}node_modules/${from}/LICENSE`, "utf8")}`);
}
