// Writes OpenChatML 2.2 in its canonical form: whatever a text holds, it is read back as it was (A-O02, A-O05, A-O22).

import { ATTRIBUTES, CHANNELS, INTENTS, ROLES } from "./head.js";
import { read } from "./reader.js";
import { encodeValue, spellBody } from "./spelling.js";

/** A transcript of a header's keys and frames; `{version: "2.2"}` is the least header. Throws `TypeError`. */
export function write({ header = { version: "2.2" }, frames = [] }) {
  const text = writeHeader(header) + frames.map((frame) => writeFrame(frame)).join("");
  const { errors } = read(text);
  const wrong = errors.find(({ code }) => code !== "E-STREAM-TRUNCATED" || frames.at(-1)?.end !== null);
  if (wrong) throw new TypeError(`no transcript can say that: ${wrong.message} (${wrong.code}, line ${wrong.line})`);
  return text;
}

/** The header between fences, its values as JSON, which YAML reads. Throws `TypeError` without a version. */
export function writeHeader({ version, ...rest }) {
  if (!/^[12]\.[0-9]+$/.test(version)) throw new TypeError(`the version ${version} is not major.minor`);
  const lines = Object.entries({ version, ...rest }).map(([key, value]) => `${flow(key)}: ${flow(value)}\n`);
  return `---\n${lines.join("")}---\n`;
}

/** One frame with the keys that `read` gives; of a tool's reply `name` is the tool. Throws `TypeError`. */
export function writeFrame(frame) {
  const { role, body = "", end = "end", constrain = null } = frame;
  const channel = frame.hasChannel === false ? null : (frame.channel ?? null);
  check(ROLES.includes(role), `unknown role ${role}`);
  check(channel === null || CHANNELS.includes(channel), `unknown channel ${channel}`);
  check((frame.intent ?? null) === null || INTENTS.includes(frame.intent), `unknown intent ${frame.intent}`);
  check(["end", "call", "return", null].includes(end), `unknown end ${end}`);
  const given = { ...frame, content_type: constrain === null ? frame.content_type : null };
  if ("writtenId" in frame) given.call_id = frame.writtenId;
  const attributes = ATTRIBUTES.filter((key) => (given[key] ?? null) !== null).map(
    (key) => ` ${key}=${value(given[key], key)}`,
  );
  const tag = channel === null ? "" : `<|channel|>${channel}`;
  const type = constrain === null ? "" : `<|constrain|>${value(constrain, "constrain")}`;
  return `<|start|>${role}${attributes.join("")}${tag}${type}<|message|>${spellBody(body)}${end === null ? "" : `<|${end}|>\n`}`;
}

function value(text, key) {
  const encoded = encodeValue(String(text));
  check(encoded !== null, `${key} cannot be ${JSON.stringify(text)}`);
  return encoded;
}

/** A value as JSON, on one line and in characters that YAML takes; what no key can be is in quotes. */
function flow(item) {
  if (typeof item === "number" && !Number.isFinite(item))
    return Number.isNaN(item) ? ".nan" : item < 0 ? "-.inf" : ".inf";
  if (Array.isArray(item)) return `[${item.map(flow).join(", ")}]`;
  if (item !== null && typeof item === "object")
    return `{${Object.entries(item)
      .map(([key, one]) => `${flow(key)}: ${flow(one)}`)
      .join(", ")}}`;
  if (typeof item !== "string") return JSON.stringify(item);
  if (/^[A-Za-z][\w]*$/.test(item) && !/^(?:null|true|false|yes|no|on|off|y|n)$/i.test(item)) return item;
  return JSON.stringify(item).replace(
    /[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function check(isRight, message) {
  if (!isRight) throw new TypeError(message);
}
