// Requests to the server that sent this page, and nothing else; each is recorded for the view of the wire.
import { t } from "./strings.js";

const BASE = new URL("../../", import.meta.url);
const MOST_RECORDED = 40;
const MOST_TEXT = 4_000_000;

let key = ""; // In memory only.
export const setKey = (value) => { key = value; };
export const hasKey = () => key !== "";

export const records = [];
export const address = (path) => new URL(path.replace(/^\//, ""), BASE).href;

export class ApiError extends Error {
  constructor(fields) {
    super(fields.message);
    Object.assign(this, fields);
  }
}

// One request. With `onEvent` the answer is read as events, each given as it comes; else it is the answer's JSON.
// `aside`: it is housekeeping, which the view of the wire does not show first.
export async function call(path, { method = "POST", body, signal, onEvent, debug = false, aside = false } = {}) {
  const record = begin(path, method, body, aside);
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  if (!debug) headers["x-antiphon-reasoning"] = "hidden";
  record.headers = { ...headers };
  if (key) headers.authorization = `Bearer ${key}`;
  const sent = performance.now();
  let answer;
  try {
    answer = await fetch(address(path), { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, credentials: "omit" });
  } catch (error) {
    record.error = error.name;
    if (error.name === "AbortError") throw error;
    throw new ApiError({ kind: "offline", message: t("offline") });
  }
  record.head = performance.now() - sent;
  record.status = answer.status;
  record.answered = Object.fromEntries(answer.headers);
  if (!answer.ok) throw await refusal(answer, record);
  if (onEvent && (answer.headers.get("content-type") ?? "").startsWith("text/event-stream")) {
    await readEvents(answer.body, record, sent, onEvent);
    return record;
  }
  const text = await answer.text();
  record.text = text.slice(0, MOST_TEXT);
  record.end = performance.now() - sent;
  return text ? JSON.parse(text) : null;
}

// Of housekeeping that is repeated the last is kept.
function begin(path, method, body, aside) {
  const record = { at: new Date(), path, method, body, aside, events: [], size: 0 };
  const former = aside ? records.findIndex((one) => one.aside && one.path === path && one.method === method) : -1;
  if (former >= 0) records.splice(former, 1);
  records.unshift(record);
  records.length = Math.min(records.length, MOST_RECORDED);
  return record;
}

async function refusal(answer, record) {
  const text = await answer.text();
  record.text = text.slice(0, MOST_TEXT);
  let error = {};
  try {
    error = JSON.parse(text).error ?? {};
  } catch { /* a proxy's own page */ }
  return new ApiError({
    kind: kindOf(answer.status, error.code), status: answer.status, code: error.code ?? "",
    message: error.message ?? answer.statusText, param: error.param ?? null,
    retryAfter: Number(answer.headers.get("retry-after")) || 0, requestId: answer.headers.get("x-request-id") ?? "",
  });
}

export function kindOf(status, code) {
  if (status === 401) return "key";
  if (status === 429) return "rate";
  if (code === "loading") return "loading";
  if (code === "engine_lost") return "lost";
  return status === 503 ? "busy" : "refused";
}

async function readEvents(stream, record, sent, onEvent) {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let buffered = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const text = decoder.decode(value, { stream: true });
      buffered.push(text);
      if (!text.includes("\n")) continue; // A long line is joined once.
      const blocks = buffered.join("").split(/\r?\n\r?\n/);
      buffered = [blocks.pop()];
      for (const block of blocks) readEvent(block, record, sent, onEvent);
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError({ kind: "cut", message: String(error.message) });
  } finally {
    record.end = performance.now() - sent;
    reader.cancel().catch(() => {});
  }
}

function readEvent(block, record, sent, onEvent) {
  const data = block.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
  if (!data) return;
  const at = performance.now() - sent;
  record.size += data.length;
  if (record.size <= MOST_TEXT) record.events.push({ at, data });
  if (data !== "[DONE]") onEvent(JSON.parse(data), at);
}
