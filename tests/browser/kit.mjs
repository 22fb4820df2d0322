// One page of a real browser, what is demanded of it in every state, and the screenshots.
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const SECRET = "HIDDENTHOUGHT";

export const failures = [];
export function check(name, holds, detail = "") {
  if (!holds) {
    failures.push(name);
    console.log(`FAILED  ${name}  ${detail}`);
  }
}

export async function open(executablePath, folder) {
  mkdirSync(folder, { recursive: true });
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
  return { browser, folder };
}

// A page of its own profile; `received` has all that the network brought it, `asked` every address.
export async function visit({ browser, folder }, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1180, height: 760 }, locale: "en-US", permissions: ["clipboard-read", "clipboard-write"], ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const seen = { page, context, folder, received: [], asked: [], errors: [], pending: [] };
  page.on("request", (request) => seen.asked.push(request.url()));
  page.on("response", (response) => seen.pending.push(response.text().then((text) => seen.received.push(text), () => {})));
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("dialog", (dialog) => { seen.errors.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  await page.addInitScript(() => {
    window.violations = [];
    addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  await page.goto(url);
  return seen;
}

// A page with the chat, ready to be written in.
export async function chatting(browser, url, options) {
  const seen = await visit(browser, url, options);
  await seen.page.waitForSelector("#message");
  return seen;
}

// A screenshot, and what holds in every state: no violation of axe's rules or of the policy, no error, no sideways scroll.
export async function state(seen, name) {
  const { page } = seen;
  await page.screenshot({ path: `${seen.folder}/${name}.png` });
  if (!(await page.evaluate("typeof axe === 'object'"))) await page.evaluate(AXE);
  const found = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })");
  check(`${name}: axe`, found.violations.length === 0, JSON.stringify(found.violations.map((one) => [one.id, one.nodes.map((node) => `${node.html.slice(0, 160)} ${node.any.map((any) => any.message).join(" ").slice(0, 200)}`)])));
  const violations = await page.evaluate("window.violations");
  check(`${name}: policy`, violations.length === 0, violations.join(", "));
  check(`${name}: errors`, seen.errors.length === 0, seen.errors.join(", "));
  const wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
  check(`${name}: sideways`, wide <= 0, `${wide} px`);
}

const PATIENCE = 120_000; // Milliseconds for an answer: some take twenty seconds by themselves, and machines are busy.

export async function say(page, text, status = "done") {
  const before = await page.evaluate("document.querySelector('article:last-of-type')?.dataset.node ?? ''");
  await page.fill("#message", text);
  await page.press("#message", "Enter");
  await page.waitForFunction(([former, wanted]) => {
    const fields = document.querySelector("article:last-of-type")?.dataset;
    return fields?.node && fields.node !== former && fields.status === wanted;
  }, [before, status], { timeout: PATIENCE });
  return page.locator("article.answer").last();
}

// Goes to a view, and waits until it is drawn.
export async function view(page, name) {
  if (!(await page.locator(`#${name}`).isVisible())) await page.click(`.group:has(#${name}) .of-group`); // On phones a group is opened first.
  await page.click(`#${name}`);
  await page.locator(`#${name}[aria-current="page"]`).waitFor();
}

export async function set(page, fields) {
  await page.click("button.gear");
  for (const [label, value] of Object.entries(fields)) {
    const field = page.locator("aside").getByLabel(label, { exact: false }).first();
    if (typeof value === "boolean") await field.setChecked(value);
    else if ((await field.evaluate((element) => element.tagName)) === "SELECT") await field.selectOption(value);
    else await field.fill(value);
  }
  await page.click("button.gear");
}

// Everything that the page keeps, as one text.
export function stored(page) {
  return page.evaluate(async () => {
    const databases = await Promise.all((await indexedDB.databases()).map((one) => new Promise((resolve) => {
      const request = indexedDB.open(one.name);
      request.onsuccess = () => {
        const transaction = request.result.transaction([...request.result.objectStoreNames]);
        const tables = [...request.result.objectStoreNames].map((name) => transaction.objectStore(name).getAll());
        transaction.oncomplete = () => { request.result.close(); resolve(tables.map((all) => all.result)); };
      };
    })));
    return JSON.stringify([databases, { ...localStorage }, { ...sessionStorage }, document.cookie]);
  });
}

export async function leaks(seen, name, secret = SECRET) {
  await Promise.all(seen.pending);
  check(`${name}: not in the document`, !(await seen.page.content()).includes(secret));
  check(`${name}: not stored`, !(await stored(seen.page)).includes(secret));
  check(`${name}: not received`, !seen.received.some((text) => text.includes(secret)));
}

// A conversation of so many messages, taken from a file and opened; `texts` gives the text of each.
export async function conversationOf(page, count, texts = (place) => `Message ${place}`) {
  const nodes = {};
  for (let place = 0; place < count; place += 1) {
    const node = { parent: place ? `n${place - 1}` : null, role: place % 2 ? "assistant" : "user" };
    nodes[`n${place}`] = place % 2 ? { ...node, items: [{ kind: "text", key: "a", text: texts(place) }] } : { ...node, text: texts(place) };
  }
  const file = JSON.stringify({ kind: "antiphon-conversations", version: 1, conversations: [{ title: "Long", nodes, leaf: `n${count - 1}` }] });
  await page.setInputFiles('input[type="file"]', { name: "long.json", mimeType: "application/json", buffer: Buffer.from(file) });
  await page.getByText("Conversations imported: 1.").waitFor();
  await page.getByRole("button", { name: "Long", exact: true }).click();
  await page.waitForFunction((many) => document.querySelectorAll("article").length >= many, Math.min(count, 40));
}
