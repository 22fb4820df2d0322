// The types that a body may promise behind `<|constrain|>` (6.1), and what is wrong with one that is of another.

import { jsonProblem } from "./json.js";
import { tomlProblem } from "./toml.js";
import { xmlProblem } from "./xml.js";
import { YamlError, checkYaml } from "./yaml.js";
import { yamlWords } from "./yaml-words.js";

const NAMES = {
  json: /^(?:json|(?:application|text)\/json|.*\+json)$/,
  yaml: /^(?:ya?ml|(?:application|text)\/(?:x-)?yaml|.*\+yaml)$/,
  toml: /^(?:application\/)?toml$/,
  xml: /^(?:xml|(?:application|text)\/xml|.*\+xml)$/,
};
const CHECKS = {
  json: jsonProblem,
  toml: tomlProblem,
  xml: xmlProblem,
  yaml(text) {
    try {
      checkYaml(text);
      return null;
    } catch (error) {
      if (!(error instanceof YamlError)) throw error;
      return { ...yamlWords(error), offset: Math.min(error.at, text.length) };
    }
  },
};

/** The type that a name stands for, one of json, yaml, toml and xml; null for another. */
export function typeOf(name) {
  const word = (name ?? "").split(";")[0].trim().toLowerCase();
  return Object.keys(NAMES).find((type) => NAMES[type].test(word)) ?? null;
}

/** What is wrong with a body of that type, `{message, offset, hint}`; null where nothing is, or nobody knows the type. */
export function typeProblem(text, name) {
  const type = typeOf(name);
  const found = type && CHECKS[type](text);
  if (!found) return null;
  const hint = type === "json" ? `The head promises <|constrain|>${name}.` : null;
  return { hint, ...found, message: `the body is not ${type.toUpperCase()}: ${found.message}` };
}
