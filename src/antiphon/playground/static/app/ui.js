// What every view draws with: Preact, its hooks, and templates instead of JSX.
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { render, Component } from "../vendor/preact.js";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
export const html = htm.bind(h);

// Calls `draw` soon, once for many changes; `now` does not wait.
export function batched(draw, wait = 40) {
  let timer = 0;
  const now = () => { clearTimeout(timer); timer = 0; draw(); };
  return Object.assign(() => { timer ||= setTimeout(now, wait); }, { now });
}

export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea"); // Pages without TLS have no clipboard.
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

const escape = (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`;
// What cannot be seen, or turns what follows around, is spelled.
export const revealed = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, escape);
