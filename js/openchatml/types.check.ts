// What the types say of the package; `tsc` reads it, nothing runs it.

import { Reply, calls, read, shown, validate, write, type Finding, type Frame } from "./index.js";

const { valid, errors, frames, header } = read("version: 2.2\n", { fragment: false });
const texts: string[] = frames.filter((frame: Frame) => frame.end !== null).map(({ body }) => body);
const where: [string, number, number, string | null][] = errors.map((one: Finding) => [
  one.code,
  one.line,
  one.column,
  one.hint,
]);
const version: string | undefined = header?.version;
const seen = frames.map(shown).map((text) => (typeof text === "string" ? text : text.code));
for (const { to, arguments: given } of calls(frames))
  console.log(to.length, typeof given === "string" ? given : given.x);
for (const finding of validate(new Uint8Array())) if (finding.warning) console.log(finding.message);
for (const event of new Reply().feed("x")) if (event.type === "response.delta") console.log(event.delta);
write({ header: { version: "2.2", model: "m" }, frames: [{ role: "user", body: "Hi" }, ...frames] });
console.log(valid, texts, where, version, seen);

// @ts-expect-error - no such role
write({ frames: [{ role: "bob" }] });
// @ts-expect-error - no such option
read("", { lenient: true });
// @ts-expect-error - not every event has a delta
new Reply().close()[0].delta.length;
