// Views of frames: JSON (§10), what users see (§4, §11), the next prompt (§7), a router's calls (§8), HIP-1.

import { isCall } from "./rules.js";

const isPreamble = (frame) =>
  frame.role === "assistant" &&
  frame.hasChannel &&
  frame.channel === "commentary" &&
  frame.to === null &&
  frame.intent === "preamble";
const isAnswer = (frame) => frame.role === "assistant" && frame.channel === "final" && !isCall(frame);

/** Whether an end user may see a frame. */
export const isShown = (frame) =>
  (frame.role === "user" && frame.channel === "final") || isAnswer(frame) || isPreamble(frame);

/** A frame's text for an end user, or the error of who asks for more. */
export const shown = (frame) => (isShown(frame) ? frame.body : { code: "E-PERM-VISIBILITY" });

/** One frame as an object of the JSON projection. */
export function project(frame) {
  const { role, channel, intent, body } = frame;
  const rest = intent === null ? {} : { intent };
  if (frame.end === "call") {
    const tool_call = { id: frame.call_id, recipient: frame.to, content_type: frame.content_type, arguments: body };
    return { role, channel, content: null, tool_call, ...rest };
  }
  if (role === "assistant" && channel === "analysis") return { role, channel, content: null, thinking: body, ...rest };
  return { role, channel, content: body, ...rest };
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

/** A function's arguments without its deadline, which is for the router; another tool's as they are. */
function argumentsOf(call) {
  try {
    const { deadline_ms = null, ...rest } = call.to.startsWith("functions.") ? JSON.parse(call.body) : {};
    return { arguments: call.to.startsWith("functions.") ? rest : call.body, deadline_ms };
  } catch {
    return { arguments: call.body, deadline_ms: null };
  }
}

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
  const content_type = call.content_type ?? (isObject(call.body) ? "json" : null);
  return {
    ...call,
    channel,
    content_type,
    constrain: call.constrain ?? (call.content_type === null ? content_type : null),
  };
}

function isObject(text) {
  try {
    return /^\s*\{/.test(text) && JSON.parse(text) !== null;
  } catch {
    return false;
  }
}
