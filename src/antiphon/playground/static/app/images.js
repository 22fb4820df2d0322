// Images that go with a question: data URLs, from a paste, a drop or a file.
import { html } from "./ui.js";
import { t } from "./strings.js";

export const TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const MOST = 16;

export const isImage = (url) => typeof url === "string" && TYPES.some((type) => url.startsWith(`data:${type};base64,`));

const urlOf = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

const imagesIn = (transfer) => [...(transfer?.files ?? [])].filter((file) => TYPES.includes(file.type));

// What a field does with images that are pasted into it, or dropped on it; `add` takes their URLs.
export function taking(add) {
  const take = async (event, transfer) => {
    const files = imagesIn(transfer);
    if (!files.length) return;
    event.preventDefault();
    add(await Promise.all(files.map(urlOf)));
  };
  return {
    onPaste: (event) => take(event, event.clipboardData),
    onDrop: (event) => take(event, event.dataTransfer),
    onDragOver: (event) => event.preventDefault(),
  };
}

export const added = (images, more) => [...images, ...more].slice(0, MOST);

export function Attach({ add }) {
  const choose = () => {
    const input = Object.assign(document.createElement("input"), { type: "file", multiple: true, accept: TYPES.join(",") });
    input.onchange = async () => add(await Promise.all(imagesIn(input).map(urlOf)));
    input.click();
  };
  return html`<button type="button" aria-label=${t("attach")} title=${t("attach")} onClick=${choose}>+</button>`;
}

export function Images({ images, remove }) {
  if (!images?.length) return null;
  return html`<div class="images">${images.map((url, at) => html`<span key=${at}><img src=${url} alt=${t("imageNumber", { at: at + 1 })} />
    ${remove && html`<button type="button" class="small" aria-label=${t("removeImage", { at: at + 1 })} onClick=${() => remove(at)}>×</button>`}</span>`)}</div>`;
}
