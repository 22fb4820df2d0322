// The models of the server, as /v1/models describes them: which one answers, what it can do, and what counts where a request says nothing.
import { html, useEffect, useRef } from "./ui.js";
import { t } from "./strings.js";

const ENGINES = { llama_cpp: "llama.cpp", llama_server: "llama.cpp", vllm: "vLLM", sglang: "SGLang" };
const CAN = ["tools", "reasoning", "images"];

export const writes = (card) => (card.antiphon?.task ?? "chat") === "chat";

// The card of the model that a conversation asks; the first is the one of requests that name none.
export const cardOf = (cards, name) => cards.find((one) => one.id === name || one.antiphon?.aliases.includes(name)) ?? (name ? null : cards.find(writes) ?? null);

// What it speaks, where it runs and how much it reads, as far as the server knows that already.
export function factsOf(card) {
  const { engine, format } = card.antiphon ?? {};
  return [engine && t("onEngine", { engine: ENGINES[engine] ?? engine }), card.max_model_len && t("contextOf", { count: card.max_model_len.toLocaleString() }), format && t("templateOf", { name: format })].filter(Boolean);
}

export const abilitiesOf = (card) => CAN.filter((one) => card.antiphon?.[one]).map((one) => t(`can_${one}`));

// What counts for a field that a request leaves out: {value, source}; null where the server says nothing of it.
export function usual(card, field) {
  if (field === "max_tokens") return card?.antiphon ? { value: card.antiphon.default_output_tokens ?? t("whatFits"), source: "" } : null;
  return card?.antiphon?.settings[field] ?? null;
}

// Whether the engine takes a field; one that is not loaded yet has not said.
export const honours = (card, field) => card?.antiphon?.honours?.includes(field) ?? true;

export function Picker({ chat, cards }) {
  const menu = useRef(null);
  const name = chat.current.settings.model;
  const card = cardOf(cards, name);
  const label = card?.id ?? name;
  useEffect(() => { menu.current?.hidePopover?.(); }, [label]);
  if (!label) return null;
  return html`<button type="button" class="picker" popovertarget="models" aria-label=${`${t("model")}: ${label}`}>${label}</button>
    <div id="models" popover="auto" class="menu" ref=${menu} aria-label=${t("model")}>
      ${cards.filter(writes).map((one) => html`<button type="button" key=${one.id} aria-current=${one.id === label ? "true" : "false"} onClick=${() => { chat.set({ model: one.id === cards[0].id ? "" : one.id }); menu.current.hidePopover(); }}>
        <span class="name">${one.id}</span><span class="hint">${factsOf(one).join(" · ") || t("notLoaded")}</span>
        <span class="abilities">${abilitiesOf(one).map((can) => html`<span class="tag" key=${can}>${can}</span>`)}</span></button>`)}</div>`;
}
