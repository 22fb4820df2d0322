// A model's reply as it streams: what follows `<|start|>assistant` becomes events of §9 (A-O19 … A-O21).

import { FrameReader } from "./frames.js";
import { openFrame } from "./head.js";
import { isShown } from "./views.js";

/** Reads a reply cut anywhere: `feed` and `close` give events, `frames` has what was read. */
export class Reply {
  constructor(id = "reply") {
    this.id = id;
    this.frames = [];
    this.events = [];
    this.number = -1;
    this.seq = 0;
    this.ended = null;
    this.reader = new FrameReader(this);
    this.reader.feed("<|start|>assistant");
  }

  feed(text) {
    this.reader.feed(text);
    return this.take();
  }

  /** The end of the reply: one without `<|return|>` or `<|call|>` is incomplete. */
  close() {
    this.reader.close();
    if (this.ended === null) this.event("error", { code: "E-STREAM-TRUNCATED" });
    return this.take();
  }

  cancel() {
    this.event("response.cancel", { reason: "cancelled" });
    return this.take();
  }

  cancelCall(call_id, reason) {
    this.event("tool.cancel", { call_id, reason });
    return this.take();
  }

  take() {
    return this.events.splice(0);
  }

  event(type, fields = {}) {
    this.events.push({ type, message_id: `${this.id}.${Math.max(this.number, 0)}`, seq: this.seq++, ...fields });
  }

  // -- what a FrameReader tells; nothing counts behind the end (HIP-1.8) ----------------------------------------------

  problem() {}

  head(parts) {
    if (this.ended !== null) return;
    this.number += 1;
    this.open = { ...openFrame(parts, []), body: "" };
  }

  text(text) {
    if (this.ended !== null || !text) return;
    this.open.body += text;
    if (isShown(this.open)) this.event("response.delta", { channel: this.open.channel, delta: text });
  }

  end(footer) {
    if (this.ended !== null) return;
    this.frames.push({ ...this.open, end: footer });
    if (isShown(this.open)) this.event("response.delta.flush");
    if (footer !== "return" && footer !== "call") return;
    this.ended = footer;
    this.event("response.done", { end_reason: footer });
  }
}
