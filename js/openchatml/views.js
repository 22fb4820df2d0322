// Views of frames: JSON (page 10), what users see (6.3), the next prompt (8), a router's calls (7), HIP-1 (11).

import { jsonObject } from "./json.js";
import { isCall, withoutMarkers } from "./rules.js";
import { isDeadline } from "./tools.js";

const isPreamble = (frame) =>
  frame.role === "assistant" &&
  frame.hasChannel &&
  frame.channel === "commentary" &&
  frame.intent === "preamble" &&
  !isCall(frame);
const isAnswer = (frame) => frame.role === "assistant" && frame.channel === "final" && !isCall(frame);

/** Whether an end user may see a frame. */
export const isShown = (frame) =>
  frame.role === "user"
    ? frame.channel === "final"
    : frame.intent !== "debug" && (isAnswer(frame) || isPreamble(frame));

/** A frame's text for an end user, or the error of who asks for more. */
export function shown(frame) {
  if (!isShown(frame)) return { code: "E-PERM-VISIBILITY" };
  return frame.role === "assistant" ? withoutMarkers(frame.body) : frame.body;
}

/** One frame as an object of the JSON projection; `ocm` has what the other keys do not say. */
export function project(frame) {
  const { role, channel, intent, body, to, call_id, content_type, name, constrain, end } = frame;
  const isCalled = end === "call";
  const isThought = role === "assistant" && frame.hasChannel && channel === "analysis" && !isCalled;
  const found = { role, channel, content: isCalled || isThought ? null : body };
  if (isCalled) found.tool_call = { id: call_id, recipient: to, content_type, arguments: body };
  if (isThought) found.thinking = body;
  if (intent !== null) found.intent = intent;
  const rest = { ...(isCalled ? {} : { to, call_id, content_type }), name };
  const ocm = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null));
  if (constrain !== null) ocm.constrain = true;
  if (!isCalled && end !== "end") ocm.end = end ?? "none";
  if (!frame.hasChannel) ocm.channel = null;
  return Object.keys(ocm).length ? { ...found, ocm } : found;
}

/** The numbers of the frames that the next prompt has: reasoning before the last answer is dropped (HIP-1.7). */
export function resumed(frames) {
  const open = frames.at(-1)?.end === null ? 1 : 0;
  const last = frames.slice(0, frames.length - open).findLastIndex(isAnswer);
  const dropped = new Set();
  const numbers = [];
  frames.forEach((frame, i) => {
    const old = i < last && frame.channel === "analysis";
    if (old && isCall(frame)) dropped.add(frame.call_id);
    const cutOff = frame.end === null && i < frames.length - 1;
    if (!old && !cutOff && !(frame.role === "tool" && dropped.has(frame.call_id))) numbers.push(i);
  });
  return numbers;
}

/** What a router does with each call; `reply` is the number of the frame that answers it, null while it is open. */
export function calls(frames) {
  return frames.filter(isCall).map((call) => {
    const reply = frames.findIndex((frame) => frame.role === "tool" && frame.call_id === call.call_id);
    return { call_id: call.call_id, to: call.to, ...argumentsOf(call), reply: reply < 0 ? null : reply };
  });
}

/** A function's arguments without its deadline, which is for the router; what is no object, or has none, as it is. */
function argumentsOf(call) {
  const values = call.to.split(".")[0] === "functions" ? jsonObject(call.body || "{}") : null;
  const { deadline_ms, ...rest } = values ?? {};
  if (values === null || (deadline_ms !== undefined && !(isDeadline(deadline_ms) && WHOLE.test(call.body))))
    return { arguments: call.body, deadline_ms: null };
  return { arguments: rest, deadline_ms: deadline_ms ?? null };
}

/** A deadline that is spelled as a whole number, as 1.0 is not. */
const WHOLE = /"deadline_ms"[ \t\r\n]*:[ \t\r\n]*[0-9]+[ \t\r\n]*[,}]/;

/** The frames as HIP-1 has them in Harmony. */
export function harmony(frames) {
  const channels = new Map();
  return frames.map((frame) => {
    const bare = { ...frame, intent: null };
    if (isCall(frame)) return harmonyCall(bare, channels);
    if (frame.role === "assistant")
      return { ...bare, channel: frame.channel === "commentary" && !isPreamble(frame) ? "analysis" : frame.channel };
    if (frame.role !== "tool") return { ...bare, channel: null };
    const channel = frame.hasChannel ? frame.channel : (channels.get(frame.call_id) ?? "commentary");
    return { ...bare, channel, to: frame.to ?? "assistant" };
  });
}

function harmonyCall(call, channels) {
  const channel = call.hasChannel ? call.channel : "commentary";
  channels.set(call.call_id, channel);
  const content_type = call.content_type ?? (jsonObject(call.body) ? "json" : null);
  return {
    ...call,
    channel,
    content_type,
    constrain: call.constrain ?? (call.content_type === null ? content_type : null),
  };
}
