// A model's reply as it streams: what follows `<|start|>assistant` becomes events of §9 (A-O19 … A-O21).

import { FrameReader } from "./frames.js";
import { openFrame } from "./head.js";
import { withoutMarkers } from "./rules.js";
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
    this.lineBreaks = "";
    this.markers = new MarkerFilter();
    this.open = { ...openFrame(parts, []), body: "" };
  }

  text(text) {
    if (this.ended !== null || !text) return;
    this.open.body += text;
    if (isShown(this.open)) this.shown(this.markers.feed(text));
  }

  /** Text for users, with a `flush` at the end of each paragraph. */
  shown(text) {
    const whole = this.lineBreaks + text;
    const before = this.lineBreaks.length;
    this.lineBreaks = /\n*$/.exec(whole)[0].slice(-2);
    whole.split(/(?<=\n\n)(?=[^\n])/).forEach((part, i) => {
      if (i) this.event("response.delta.flush");
      const delta = i ? part : part.slice(before);
      if (delta) this.event("response.delta", { channel: this.open.channel, delta });
    });
  }

  end(footer) {
    if (this.ended !== null) return;
    this.frames.push({ ...this.open, end: footer });
    if (isShown(this.open)) {
      this.shown(this.markers.close());
      if (this.open.body) this.event("response.delta.flush");
    }
    if (footer !== "return" && footer !== "call") return;
    this.ended = footer;
    this.event("response.done", { end_reason: footer });
  }
}

/** Text without reflection markers while it comes; what may become one waits. */
class MarkerFilter {
  tail = "";

  feed(text) {
    const whole = withoutMarkers(this.tail + text);
    const begun = /<(?:\|(?:[a-z_]*\|?)?)?$/.exec(whole);
    const cut = begun && MARKERS.some((marker) => marker.startsWith(begun[0])) ? begun.index : whole.length;
    this.tail = whole.slice(cut);
    return whole.slice(0, cut);
  }

  close() {
    const { tail } = this;
    this.tail = "";
    return tail;
  }
}

const MARKERS = ["start", "end"].flatMap((edge) =>
  ["reflect", "introspect", "reason"].map((word) => `<|${edge}_${word}|>`),
);
