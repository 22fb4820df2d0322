// What a new conversation opens with: who answers, and three things that can be seen at once.
import { html } from "./ui.js";
import { abilitiesOf, cardOf, factsOf } from "./models.js";
import { t } from "./strings.js";

// Asks what spells control tokens, and shows what the model read of it.
export function askControls(chat, view = "envelopes") {
  chat.set({ schema: "", ...(chat.current.settings.api === "completions" && { api: "responses" }) }); // Completions have no controls.
  chat.say(t("card_readAsk"));
  location.hash = view;
}

function askLong(chat) {
  chat.set({ api: "responses", survive: "yes", schema: "" });
  chat.say(t("card_lastAsk"));
}

const CARDS = {
  read: { art: () => html`<span class="chip">What·is</span><span class="chip spelled">${"<|im_end|>"}</span><span class="chip">?</span><span class="chip k-call">${"<|im_end|>"}</span>`, go: askControls },
  hold: { art: () => html`<span class="chip plain-chip">"sky":"cl</span><span class="chip next">ear"</span><span class="chip next">oudy"</span><span class="chip never">ean"</span>`, go: () => { location.hash = "schema"; } },
  last: { art: () => html`<span class="line"></span><span class="chip cut">kill -9</span><span class="line on"></span>`, go: askLong },
};

export function First({ chat, cards }) {
  const card = cardOf(cards, chat.current.settings.model);
  const offered = Object.keys(CARDS).filter((one) => one !== "last" || chat.durable);
  return html`<div class="first">
    <span class="mark-large" aria-hidden="true"></span>
    <h2>${card?.id ?? "Antiphon"}</h2>
    <p class="hint facts">${card && [...factsOf(card), ...abilitiesOf(card)].map((one) => html`<span key=${one}>${one}</span>`)}</p>
    ${card && html`<ul class="three" aria-label=${t("begin")}>${offered.map((one) => html`<li key=${one}><button type="button" class="begin" data-card=${one} onClick=${() => CARDS[one].go(chat)}>
      <span class="art" aria-hidden="true">${CARDS[one].art()}</span>
      <strong>${t(`card_${one}`)}</strong><span class="hint">${t(`card_${one}Note`)}</span></button></li>`)}</ul>`}
  </div>`;
}
