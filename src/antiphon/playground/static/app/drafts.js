// What is written and not sent yet: of each conversation, and of the new one; the last that was written counts, in whichever tab.
import * as store from "./store.js";

const EMPTY = { text: "", images: [] };
const TYPING = 2000; // Milliseconds in which another tab does not change what is typed in this one.

export class Drafts {
  constructor() {
    this.known = new Map();
    this.typed = new Map(); // When each was written last in this tab.
    this.unsaved = new Map(); // While one is stored, what is written meanwhile waits, and is stored at once.
    addEventListener("pagehide", () => { for (const [id, fields] of this.unsaved) store.saveDraft(id, fields); });
  }

  of(id) {
    return this.known.get(id) ?? EMPTY;
  }

  // Reads it; what is written in this tab meanwhile is newer, and so is what is being typed.
  async load(id) {
    const former = this.known.get(id);
    const found = await store.draft(id);
    const typing = Date.now() - (this.typed.get(id) ?? 0) < TYPING;
    if (this.known.get(id) === former && !this.unsaved.has(id) && !typing) this.known.set(id, found);
  }

  async write(id, fields) {
    this.known.set(id, { ...this.of(id), ...fields });
    this.typed.set(id, Date.now());
    const waits = this.unsaved.get(id);
    this.unsaved.set(id, { ...waits, ...fields });
    if (waits) return;
    for (let now = this.unsaved.get(id); Object.keys(now).length; now = this.unsaved.get(id)) {
      this.unsaved.set(id, {});
      await store.saveDraft(id, now);
    }
    this.unsaved.delete(id);
  }
}
