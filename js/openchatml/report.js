// The report that the compliance suite compares (docs/openchatml.md).

import { Reply, calls, harmony, project, read, resumed, shown } from "./index.js";
import { decode } from "./spelling.js";

const FIELDS = ["role", "to", "call_id", "name", "intent", "channel", "content_type", "constrain", "body", "end"];

/** The report on a transcript, given as bytes. */
export function report(bytes, words) {
  const flags = Object.fromEntries(
    words.map((word) => [word.split("=")[0], word.includes("=") ? word.slice(word.indexOf("=") + 1) : ""]),
  );
  if ("--reply" in flags) return reportReply(bytes, flags);
  const found = read(pieces(bytes, flags).map(decode), {
    fragment: "--fragment" in flags,
    harmony: "--harmony" in flags,
  });
  const { valid, errors, warnings, header } = found;
  return {
    valid,
    errors,
    warnings,
    header,
    ...views(found.frames),
    resumed: resumed(found.frames),
    calls: calls(found.frames),
    harmony: harmony(found.frames).map(fields),
  };
}

/** The bytes cut as the flags say, and at no place inside a character. */
function pieces(bytes, flags) {
  const cuts = (flags["--cuts"] ?? "").split(",").filter(Boolean).map(Number);
  const edges = [0, ...cuts.filter((cut) => (bytes[cut] & 0xc0) !== 0x80), bytes.length];
  return edges.slice(1).map((end, i) => bytes.subarray(edges[i], end));
}

function reportReply(bytes, flags) {
  const reply = new Reply();
  const events = pieces(bytes, flags).flatMap((piece) => reply.feed(decode(piece)));
  const cancelled = flags["--cancel"];
  if (cancelled === undefined) events.push(...reply.close());
  else events.push(...(cancelled ? reply.cancelCall(cancelled, "user") : reply.cancel()));
  return { ...views(reply.frames), events };
}

function views(frames) {
  return {
    frames: frames.map(fields),
    projection: frames.map(project),
    shown: frames.map(shown),
    debug: frames.map((frame) => frame.body),
  };
}

const fields = (frame) => Object.fromEntries(FIELDS.map((field) => [field, frame[field]]));
