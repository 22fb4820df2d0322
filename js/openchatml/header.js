// The header (§2): where it ends, what it says, and the settings that rules depend on (A-O28, A-O30).

import { Malformed, Unsupported, parseYaml } from "./yaml.js";

const START = "<|start|>";
const MAX_HEADER = 65_536;

/** What a text begins with: `yaml` (null where only blanks are before the frames), and where the frames begin. */
export function splitHeader(source) {
  const bom = source.startsWith("\ufeff") ? 1 : 0;
  const text = source.slice(bom);
  const first = /^[ \t\r\n]*<\|start\|>/.exec(text);
  const frame = first
    ? first[0].length - START.length
    : text.startsWith(START)
      ? 0
      : text.indexOf(`\n${START}`) + 1 || text.length;
  const fence = /^[ \t\r\n]*---[ \t]*\r?\n/.exec(text);
  const close = fence ? closingFence(text, fence[0].length, frame) : null;
  const [yamlEnd, framesAt] = close ?? [frame, frame];
  const tooLong = framesAt > MAX_HEADER;
  const yaml = /^[ \t\r\n]*$/.test(text.slice(0, framesAt)) ? null : text.slice(0, yamlEnd);
  return { yaml, framesAt: bom + (tooLong ? text.indexOf(`\n${START}`) + 1 || text.length : framesAt), tooLong };
}

function closingFence(text, from, limit) {
  const found = /(?:^|\n)(?:---|\.\.\.)[ \t]*\r?(?:\n|$)/.exec(text.slice(from - 1, limit));
  if (!found) return null;
  const start = from - 1 + found.index + 1;
  return [start, from - 1 + found.index + found[0].length];
}

/** The header as JSON, its version as text. Throws `Malformed` or `Unsupported`. */
export function readHeader(yaml) {
  const fields = parseYaml(yaml, { texts: ["version"] });
  if (!isMapping(fields)) throw new Malformed("the header is not a mapping of keys");
  if (!("version" in fields)) throw new Malformed("the header has no version");
  const version = /^([0-9]+)\.[0-9]+$/.exec(fields.version);
  if (!version) throw new Malformed(`the version ${fields.version} is not major.minor`);
  if (version[1] !== "1" && version[1] !== "2") throw new Malformed(`unsupported version ${fields.version}`);
  return fields;
}

export { Malformed, Unsupported };

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
