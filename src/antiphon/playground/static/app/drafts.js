// What is written and not sent yet: of each conversation, and of the new one; the last that was written counts, in whichever tab.
import * as store from "./store.js";

const EMPTY = { text: "", images: [] };

export class Drafts {
  constructor() {
    this.known = new Map();
    this.unsaved = new Map(); // While one is stored, what is written meanwhile waits, and is stored at once.
    addEventListener("pagehide", () => { for (const [id, fields] of this.unsaved) store.saveDraft(id, fields); });
  }

  of(id) {
    return this.known.get(id) ?? EMPTY;
  }

  // Reads it; what is written in this tab meanwhile is newer.
  async load(id) {
    const former = this.known.get(id);
    const found = await store.draft(id);
    if (this.known.get(id) === former && !this.unsaved.has(id)) this.known.set(id, found);
  }

  async write(id, fields) {
    this.known.set(id, { ...this.of(id), ...fields });
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
