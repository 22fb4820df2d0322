// Reads one answer from its request to its end, and goes on reading where a connection, a tab or a server ended before it.
import { call, ApiError } from "./api.js";
import * as store from "./store.js";
import { emptied, fold, over } from "./turn.js";

const SAVED_EVERY = 700;
const WAITS = [300, 1000, 2000, 4000, 8000, 15000];
const PASSING = new Set(["cut", "offline", "loading", "busy"]);
const LOOKED_EVERY = 700;
const PATIENCE = 300; // Milliseconds in which the server says how far an answer was that is stopped.
const ELSEWHERE = new Set(["lease_lost", "draining"]); // The answer goes on, at another server or after a restart.

let leaving = false; // What breaks because the page goes is no failure.
addEventListener("pagehide", () => { leaving = true; });
addEventListener("pageshow", () => { leaving = false; });

export class Answering {
  constructor(conversation, node, { debug = false, changed }) {
    Object.assign(this, { conversation, node, debug, changed, abort: new AbortController(), stopped: false, saved: 0 });
  }

  // From its request, which `request` gives, or raises for settings that give none.
  begin(request) {
    return this.read(() => {
      const [path, body] = request();
      this.node.resumable = Boolean(body.background);
      return this.stream(path, { body });
    });
  }

  // From where it was read to.
  goOn() {
    Object.assign(this.node, { status: "resuming", resumedAt: this.node.lastEvent ?? -1 });
    return this.read(() => this.follow());
  }

  async read(first) {
    const looking = setInterval(() => { if (this.node.times.text === undefined) this.look(); }, LOOKED_EVERY);
    try {
      return await this.readOn(first);
    } finally {
      clearInterval(looking);
    }
  }

  // How far it is, as the server counts: how many wait, and what the model has written that is not shown.
  async look() {
    const { node } = this;
    if (!node.responseId || over(node)) return;
    try {
      node.progress = await call(`/playground/api/progress/${node.responseId}`, { method: "GET", aside: true, signal: this.abort.signal });
      this.drawn();
    } catch { /* Another server makes it, or none. */ }
  }

  async readOn(first) {
    const { node } = this;
    await this.keep(true);
    let step = first;
    let tries = 0;
    for (;;) {
      const before = node.lastEvent;
      try {
        await step();
        if (node.ended || !this.survives) break;
        throw new ApiError({ kind: "cut", message: "" });
      } catch (error) {
        if (leaving) return;
        if (this.stopped || error.name === "AbortError") node.status = "stopped";
        else if (this.survives && PASSING.has(error.kind) && (tries = node.lastEvent === before ? tries + 1 : 1) <= WAITS.length) {
          node.status = "resuming";
          node.resumedAt = node.lastEvent ?? -1;
          this.drawn();
          await this.pause(WAITS[tries - 1]);
          step = () => this.follow();
          continue;
        } else failed(node, error);
        break;
      }
    }
    if (!["failed", "stopped", "gone"].includes(node.status)) node.status = "done";
    this.drawn();
  }

  get survives() {
    return this.node.resumable && Boolean(this.node.responseId);
  }

  pause(ms) {
    return new Promise((resolve) => {
      const wake = () => { clearTimeout(timer); removeEventListener("online", wake); resolve(); };
      const timer = setTimeout(wake, ms);
      addEventListener("online", wake);
      this.abort.signal.addEventListener("abort", wake);
    });
  }

  async follow() {
    if (this.stopped) throw new ApiError({ kind: "stopped", message: "" });
    const path = `/v1/responses/${this.node.responseId}?stream=true`;
    try {
      await this.stream(`${path}&starting_after=${this.node.lastEvent}`, { method: "GET" }).catch((error) => {
        if (error.status !== 400) throw error;
        this.anew = true; // It is over, and its events are stored no more: the whole of it once again.
        return this.stream(path, { method: "GET" });
      });
    } catch (error) {
      if (error.status !== 404) throw error;
      Object.assign(this.node, { status: "gone", ended: true, resumedAt: undefined });
    }
  }

  async stream(path, options) {
    const { node } = this;
    const begun = node.times.last ?? 0; // Times go on where the last connection ended.
    const record = await call(path, {
      ...options, signal: this.abort.signal, debug: this.debug,
      onEvent: (event, at) => this.event(event, begun + at),
    });
    if (!record?.events) throw new ApiError({ kind: "refused", code: "", message: "no stream" });
    node.requestId = record.answered?.["x-request-id"] ?? "";
    node.timing ??= record.answered?.["server-timing"] ?? "";
    node.times.head ??= record.head;
    node.times.end = begun + record.end;
  }

  event(event, at) {
    const { node } = this;
    if (this.leaving) return;
    if (event.type === "error" && this.survives && ELSEWHERE.has(event.code ?? event.error?.code)) throw new ApiError({ kind: "cut", message: "" });
    if (this.anew) emptied(node);
    this.anew = false;
    node.events = (node.events ?? 0) + 1;
    if (!over(node)) node.status = "streaming";
    const unknown = !node.responseId;
    fold(node, event, at);
    if (this.stopped) return this.forget(); // The stop came before the answer had an id.
    this.drawn();
    this.keep(unknown && Boolean(node.responseId));
  }

  drawn() {
    this.node.version += 1;
    this.changed();
  }

  async keep(now = false) {
    if (!now && (performance.now() - this.saved < SAVED_EVERY)) return;
    this.saved = performance.now();
    await store.grown(this.conversation.id, this.node);
  }

  // Ends it, here and at the server.
  stop() {
    if (this.stopped) return;
    this.stopped = true;
    if (this.node.resumable && !this.node.responseId && this.node.status === "waiting") return void (this.node.status = "stopped");
    this.leaving = Promise.race([this.look(), new Promise((resolve) => { setTimeout(resolve, PATIENCE); })]).then(() => this.forget());
  }

  forget() {
    this.abort.abort();
  }

  // It is over and stored in its conversation: the server need not store it.
  async settle() {
    if (this.survives && this.node.status !== "gone") await deleted(this.node.responseId);
    await store.removeRunning(this.node.id);
  }
}

export async function deleted(id) {
  try {
    await call(`/v1/responses/${id}`, { method: "DELETE", aside: true });
  } catch (error) {
    if (error.status !== 404) throw error;
  }
}

function failed(node, error) {
  node.status = "failed";
  const known = error instanceof ApiError ? { ...error, message: error.message } : { kind: "refused", code: "", message: String(error.message) };
  node.error = { ...known, until: known.retryAfter ? Date.now() + known.retryAfter * 1000 : 0 };
}
