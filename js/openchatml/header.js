// The header (page 2): where it ends, what it says, and the settings that rules depend on (A-O28, A-O30).

import { FormError, YamlError, parseYaml } from "./yaml.js";
import { yamlWords } from "./yaml-words.js";

const START = "<|start|>";
export const MAX_HEADER = 65_536;

/** Where a header's text ends and where the frames begin; `isEmpty`: only blanks are before them. */
export function splitHeader(source) {
  const bom = source.startsWith("\ufeff") ? 1 : 0;
  const text = source.slice(bom);
  const first = /^[ \t\r\n]*<\|start\|>/.exec(text);
  const frame = first ? first[0].length - START.length : frameIn(text);
  const fence = /^[ \t\r\n]*---[ \t]*\r?\n/.exec(text);
  const close = fence ? closingFence(text, fence[0].length, frame) : null;
  const [yamlEnd, framesAt] = close ?? [frame, frame];
  const isTooLong = framesAt > MAX_HEADER && [...text.slice(0, framesAt)].length > MAX_HEADER;
  const isEmpty = /^[ \t\r\n]*$/.test(text.slice(0, framesAt));
  return {
    bom,
    yaml: text.slice(0, yamlEnd),
    isEmpty,
    isTooLong,
    framesAt: bom + (isTooLong ? frameIn(text) : framesAt),
  };
}

/** Where a line begins with `<|start|>`; the end when none does. */
function frameIn(text) {
  return text.indexOf(`\n${START}`) + 1 || text.length;
}

function closingFence(text, from, limit) {
  const found = /(?:^|\n)(?:---|\.\.\.)[ \t]*\r?(?:\n|$)/.exec(text.slice(from - 1, limit));
  if (!found) return null;
  const start = from - 1 + found.index + 1;
  return [start, from - 1 + found.index + found[0].length];
}

/** The header as JSON, its version as text; or what is wrong with it, `{problem: {message, at, hint}}`. */
export function readHeader(yaml) {
  let fields;
  try {
    fields = parseYaml(yaml, { texts: ["version"] });
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    const { message, hint } = error instanceof FormError ? { message: error.message, hint: null } : yamlWords(error);
    return { problem: { message, hint, at: placed(yaml, error) } };
  }
  if (!isMapping(fields)) return wrong("the header is not a mapping of keys");
  if (!("version" in fields)) return wrong("the header has no version", 0, 'Begin with version: "2.2".');
  const { text, at } = fields.version;
  if (text === undefined) return wrong("the version is no word", at, 'Write version: "2.2".');
  const [, major] = /^([0-9]+)\.[0-9]+$/.exec(text) ?? [];
  if (major === undefined) return wrong(`the version '${text}' is not major.minor`, at);
  if (major !== "1" && major !== "2")
    return wrong(`unsupported version ${text}`, at, "unsupported_version: this is a reader of versions 1 and 2.");
  return { header: { ...fields, version: text } };
}

const wrong = (message, at = 0, hint = null) => ({ problem: { message, at, hint } });

/** The place of an error, or of what it is about, on a line that has something; else the last line's first word. */
function placed(yaml, error) {
  const end = yaml.trimEnd().length;
  const lineEnd = (at) => (/[\r\n]/.exec(yaml.slice(at)) ?? { index: Infinity }).index + at;
  const isWithin = (at) => at !== null && at <= Math.min(yaml.length, lineEnd(end));
  const known = [error.at, error.context].find(isWithin);
  if (known !== undefined) return known;
  const last = yaml.slice(0, end).search(/[^\r\n]*$/);
  return last + yaml.slice(last).search(/\S|$/);
}

/** What rules need to know of a header; null for a text without one. */
export function settingsOf(header) {
  const capabilities = mapping(header?.capabilities);
  const profile = mapping(mapping(header?.profiles).harmony);
  const enabled = profile.enabled === true;
  return {
    legacy: header?.version.startsWith("1.") ?? false,
    tools: words(mapping(header?.generation_settings).builtin_tools) ?? [],
    roles: words(capabilities.roles),
    channels: words(capabilities.channels),
    tokens: words(capabilities.tokens),
    harmony: enabled,
    requireChannels: enabled && (words(profile.require_channels) ?? []).length > 0,
    toolCallsIn: enabled ? orDefault(words(profile.tool_calls_in), ["commentary"]) : ["commentary"],
    builtinsIn: orDefault(words(profile.builtins_in), ["analysis", "commentary"]),
  };
}

const isMapping = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const mapping = (value) => (isMapping(value) ? value : {});
const orDefault = (list, fallback) => (list?.length ? list : fallback);

function words(value) {
  if (typeof value === "string") return [value];
  return Array.isArray(value) ? value.filter((word) => typeof word === "string") : null;
}
