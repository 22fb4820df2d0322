// Pieces of a prompt as rows of pills, with or without a vocabulary.
import { html, revealed } from "./ui.js";
import { glyphs, kindOf, rowsOf, textOfToken } from "./envelopes.js";
import { t } from "./strings.js";

const MOST_PILLS = 1500;

export function PromptRows({ pieces }) {
  return html`<div class="scrolled" tabindex="0" role="region" aria-label=${t("promptTitle")}><ol class="envelopes">${rowsOf(pieces).map((row, at) => html`<li key=${at}><div class="pills" dir="ltr">${pillsOf(row).slice(0, MOST_PILLS)}</div>
    ${pillsOf(row).length > MOST_PILLS && html`<p class="hint">${t("andMore", { count: pillsOf(row).length - MOST_PILLS })}</p>`}</li>`)}</ol></div>`;
}

function pillsOf(row) {
  return row.flatMap((piece, at) => {
    if (piece.control) return [html`<bdi key=${at} class=${`pill k-${kindOf(piece.control)}`}>${revealed(piece.control)}${piece.tokens ? html` <small>${piece.tokens.map((token) => token.id).join(" ")}</small>` : ""}</bdi>`];
    if (!piece.tokens) return [html`<span key=${at} class="plain">${revealed((piece.text ?? "").slice(0, 20_000))}</span>`];
    return piece.tokens.map((token, place) => html`<bdi key=${`${at} ${place}`} class=${`pill h${(token.id * 2654435761 % 4294967296) % 6}`} title=${`${token.id}`}>${glyphs(textOfToken(token.bytes))}</bdi>`);
  });
}
