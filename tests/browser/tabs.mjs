// Conversations over tabs, what a reader left somewhere, what is deleted, searched, named, and done by keys.
import { readFileSync } from "node:fs";
import { chatting, check, conversationOf, say, set, state, stored, view } from "./kit.mjs";

const OLD = JSON.parse(readFileSync(new URL("old_database.json", import.meta.url))); // As version 2 of the page stored it.
const PNG = "iVBORw0KGgoAAAANSUhEUgAAADAAAAAgAgMAAAApuhOPAAAADFBMVEXIHh4AAAAAAAAAAACmpsfuAAAADklEQVR42mNgGAWDGQAAAaAAAY1mJ9YAAAAASUVORK5CYII=";

// Another tab of the same browser.
async function beside(seen, url) {
  const page = await seen.context.newPage();
  page.setDefaultTimeout(30_000);
  const other = { ...seen, page, errors: [] };
  page.on("pageerror", (error) => other.errors.push(String(error)));
  await page.addInitScript(() => { window.violations = []; });
  await page.goto(url);
  await page.waitForSelector("#message");
  return other;
}

// Both tabs show these questions, whose answers are whole, in this order.
const bothShow = (pages, questions) => Promise.all(pages.map((page) => page.waitForFunction((wanted) => {
  const asked = [...document.querySelectorAll("article.user .body")].map((one) => one.innerText).join("|");
  return asked === wanted && [...document.querySelectorAll("article.answer")].every((one) => one.dataset.status === "done");
}, questions.join("|"))));

const names = (page) => page.locator(".rail .name").allInnerTexts();
const named = (page, name) => page.getByRole("button", { name, exact: true });
const listed = (page, wanted) => page.waitForFunction((one) => [...document.querySelectorAll(".rail .name")].map((name) => name.innerText).join("|") === one, wanted.join("|"));
// Messages and conversations that are stored.
async function rows(page) {
  const [[tables]] = JSON.parse(await stored(page));
  return { messages: tables.find((all) => all.some((one) => one.role)) ?? [], heads: tables.find((all) => all.some((one) => one.settings && !one.role)) ?? [] };
}

// A conversation is stored so. What a page shows may not be written yet, and a page that is loaded anew drops that.
async function headIs(page, wanted) {
  const giveUp = Date.now() + 30_000;
  while (!(await rows(page)).heads.some(wanted)) if (Date.now() > giveUp) throw new Error("it was not stored");
}

export async function twoTabs(browser, urls) {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  await seen.context.addInitScript(holding);
  await say(page, "hello");
  const other = await beside(seen, urls.main);
  await bothShow([page, other.page], ["hello"]);
  await say(other.page, "bears");
  await bothShow([page, other.page], ["hello", "bears"]);
  await say(page, "json");
  await bothShow([page, other.page], ["hello", "bears", "json"]);
  await page.reload();
  await bothShow([page], ["hello", "bears", "json"]);
  check("tabs: each turn is stored once", (await rows(page)).messages.length === 6, String((await rows(page)).messages.length));
  await together(seen, other);
  await named(page, "hello").dblclick();
  await page.getByRole("textbox", { name: "Title" }).fill("Renamed");
  await page.keyboard.press("Enter");
  await listed(other.page, ["Renamed"]);
  await set(page, { Instructions: "Be brief." });
  await set(other.page, { Temperature: "0.5" });
  await page.click("button.gear");
  check("tabs: settings of both", (await page.getByLabel("Temperature").inputValue()) === "0.5" && (await page.getByLabel("Instructions").inputValue()) === "Be brief.");
  await state(other, "tabs");
  await seen.context.close();
}

// What other tabs tell a page waits in `held`, where that is a list.
function holding() {
  const listen = BroadcastChannel.prototype.addEventListener;
  BroadcastChannel.prototype.addEventListener = function (type, heard) {
    listen.call(this, type, (event) => (window.held ? window.held.push(() => heard(event)) : heard(event)));
  };
}

// Two questions of which neither tab knows the other's are two versions, of which each tab shows its own.
async function together(seen, other) {
  const pages = [seen.page, other.page];
  await Promise.all(pages.map((page) => page.evaluate(() => { window.held = []; })));
  await Promise.all(pages.map((page, at) => page.fill("#message", ["at once", "hello"][at])));
  await Promise.all(pages.map((page) => page.press("#message", "Enter")));
  await Promise.all(pages.map((page, at) => page.locator("article.user .body").last().getByText(["at once", "hello"][at]).waitFor()));
  await Promise.all(pages.map((page) => page.evaluate(() => { for (const hear of window.held.splice(0)) hear(); window.held = undefined; })));
  await Promise.all(pages.map((page) => page.locator("article.user").last().getByText("/2").waitFor()));
  await Promise.all(pages.map((page) => page.waitForFunction(() => document.querySelector("article:last-of-type")?.dataset.status === "done")));
  check("tabs: each shows its own", (await seen.page.locator("article.user .body").last().innerText()) === "at once" && (await other.page.locator("article.user .body").last().innerText()) === "hello");
  check("tabs: nothing of it is lost", (await rows(seen.page)).messages.length === 10, String((await rows(seen.page)).messages.length));
}

// An answer grows in the other tab too, is stopped from there, and goes on there when its own tab is closed.
export async function growing(browser, urls) {
  for (const locks of [true, false]) {
    const name = locks ? "growing" : "growing without locks";
    const seen = await chatting(browser, urls.steady);
    if (!locks) {
      await seen.context.addInitScript(() => Object.defineProperty(navigator, "locks", { value: undefined }));
      await seen.page.reload();
    }
    const { page } = seen;
    const other = await beside(seen, urls.steady);
    await page.fill("#message", "slow");
    await page.press("#message", "Enter");
    await other.page.locator(".rail .name.busy").waitFor();
    await named(other.page, "slow").click();
    await other.page.locator('article.answer[data-status="streaming"] code').nth(1).waitFor();
    check(`${name}: nothing else may be asked meanwhile`, await other.page.getByRole("button", { name: "Stop" }).isVisible());
    if (locks) await state(other, "growing");
    await other.page.getByRole("button", { name: "Stop" }).click();
    for (const one of [page, other.page]) await one.getByText("Stopped after").waitFor();
    await page.fill("#message", "slow");
    await page.press("#message", "Enter");
    const second = other.page.locator("article.answer").nth(1);
    await second.locator("code").nth(1).waitFor();
    await page.close();
    await second.getByText(/ead(s|) on from event [1-9]/).waitFor();
    await other.page.waitForFunction(() => document.querySelector("article:last-of-type")?.dataset.status === "done");
    const found = await second.locator("pre").count();
    check(`${name}: whole`, found >= 10, String(found));
    await seen.context.close();
  }
}

// A page that finds an older database; `held` leaves a connection open, as an older page that does not close does.
async function withOld(browser, url, old = OLD, held = false) {
  const context = await browser.browser.newContext({ viewport: { width: 1180, height: 760 }, locale: "en-US" });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  await page.goto(`${url}/playground/icon.svg`);
  await page.evaluate(([old, held]) => new Promise((resolve) => {
    const request = indexedDB.open("antiphon-playground", old.version);
    request.onupgradeneeded = () => {
      for (const name of ["conversations", "running"]) {
        const table = request.result.createObjectStore(name, { keyPath: "id" });
        for (const one of old[name]) table.put(one);
      }
    };
    request.onsuccess = () => { window.held = request.result; if (!held) window.held.close(); resolve(); };
  }), [old, held]);
  const seen = { page, context, folder: browser.folder, errors: [], pending: [], received: [] };
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  if (held) return { ...seen, page: await context.newPage(), holder: page };
  await page.addInitScript(() => { window.violations = []; });
  await page.goto(url);
  return seen;
}

// Nothing of a database that an older page left is lost.
export async function oldDatabase(browser, urls) {
  const seen = await withOld(browser, urls.main);
  const { page } = seen;
  await listed(page, ["long", "hello", "weather"]);
  await page.getByText("The page was closed while this was written").waitFor();
  check("old: as far as it came", (await page.locator("article.answer .body").innerText()).includes("word word"));
  await named(page, "hello").click();
  await page.getByText("There are bears in Bern.").waitFor();
  check("old: the image", (await page.locator("article.user img").count()) === 1);
  await page.locator("article.user").first().getByRole("button", { name: "Previous version" }).click();
  await page.getByText("Hello yourself.").waitFor();
  check("old: both answers", (await page.locator("article.answer").innerText()).includes("2/2"));
  await page.click("button.gear");
  check("old: its settings", (await page.getByLabel("Temperature").inputValue()) === "0.5" && (await page.getByLabel("Instructions").inputValue()) === "Be brief.");
  await page.click("button.gear");
  await named(page, "weather").click();
  await page.getByText("It is clear in Oslo.").waitFor();
  check("old: the call and its result", (await page.locator(".card").innerText()).includes("Oslo"));
  const before = Object.values(OLD.conversations).flatMap((one) => Object.keys(one.nodes)).sort();
  const now = (await rows(page)).messages.map((one) => one.id).sort();
  check("old: every message has a row", JSON.stringify(before) === JSON.stringify(now), JSON.stringify(now));
  const names = await page.evaluate(() => new Promise((resolve) => {
    const request = indexedDB.open("antiphon-playground");
    request.onsuccess = () => { resolve([...request.result.objectStoreNames].join()); request.result.close(); };
  }));
  check("old: its table is gone", names === "drafts,heads,nodes,running", names);
  await say(page, "hello");
  await page.reload();
  await page.getByText("Hello yourself.").waitFor();
  await state(seen, "old-database");
  await outdated(seen);
  await seen.context.close();
  await unread(browser, urls.main);
  await blocked(browser, urls.main);
}

// An answer whose own page stored no more than its beginning is cut there, and the conversation can be gone on with.
async function unread(browser, url) {
  const { page, context } = await withOld(browser, url, { ...OLD, running: [] });
  await page.getByText("The page was closed while this was written").waitFor();
  await say(page, "hello");
  await context.close();
}

// An older page that does not let go is named, and the conversations are there when it is closed.
async function blocked(browser, url) {
  const { page, holder, context } = await withOld(browser, url, OLD, true);
  await page.goto(url);
  await page.getByText("An older version of this page is open").waitFor();
  await holder.close();
  await listed(page, ["long", "hello", "weather"]);
  await page.getByText("An older version of this page is open").waitFor({ state: "detached" });
  await context.close();
}

// A page whose database a newer one needs says that it stores nothing any more.
async function outdated(seen) {
  const newer = await seen.context.newPage();
  await newer.goto(new URL("playground/icon.svg", seen.page.url()).href);
  await newer.evaluate(() => new Promise((resolve) => { const request = indexedDB.open("antiphon-playground", 99); request.onsuccess = () => { request.result.close(); resolve(); }; }));
  await seen.page.getByText("A newer version of this page is open").waitFor();
  await state(seen, "outdated");
}

// What is written and not sent is there after a look elsewhere, after a reload, and in another tab.
export async function drafts(browser, urls) {
  const seen = await chatting(browser, urls.eyes);
  const { page } = seen;
  await page.fill("#message", "not yet");
  await page.reload();
  await page.waitForFunction(() => document.querySelector("#message")?.value === "not yet");
  await say(page, "hello");
  check("draft: sent, and away", (await page.inputValue("#message")) === "");
  await page.fill("#message", "half a ques");
  await page.evaluate((base64) => {
    const data = new DataTransfer();
    data.items.add(new File([Uint8Array.from(atob(base64), (one) => one.charCodeAt(0))], "b", { type: "image/png" }));
    document.querySelector("#message").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  }, PNG);
  await page.getByAltText("Image 1").waitFor();
  await view(page, "time");
  await view(page, "chat");
  check("draft: after another view", (await page.inputValue("#message")) === "half a ques" && (await page.getByAltText("Image 1").count()) === 1);
  await page.getByRole("button", { name: "New conversation" }).first().click();
  await page.waitForFunction(() => document.querySelector("#message").value === "");
  await page.fill("#message", "the new one");
  await named(page, "hello").click();
  await page.waitForFunction(() => document.querySelector("#message").value === "half a ques");
  await page.fill("#message", "half a question");
  await page.reload();
  await page.waitForFunction(() => document.querySelector("#message")?.value === "half a question");
  await page.getByAltText("Image 1").waitFor();
  await state(seen, "draft");
  const other = await beside(seen, urls.eyes);
  await other.page.waitForFunction(() => document.querySelector("#message").value === "half a question");
  await other.page.fill("#message", "from the other");
  await page.waitForFunction(() => document.querySelector("#message").value === "from the other");
  await other.page.press("#message", "Enter");
  await other.page.getByText("I see 1.").waitFor();
  await page.getByText("I see 1.").waitFor();
  await page.waitForFunction(() => document.querySelector("#message").value === "" && !document.querySelector(".writer img"));
  await seen.context.close();
}

// The same for all else that one writes, chooses or comes to.
export async function left(browser, urls) {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  await conversationOf(page, 200);
  await page.getByRole("button", { name: "Show 140 earlier messages" }).click();
  await page.locator("article").filter({ hasText: "Message 90" }).first().scrollIntoViewIfNeeded();
  const place = () => page.locator(".messages").evaluate((one) => Math.round(one.scrollTop));
  const shown = () => page.waitForFunction(() => document.querySelectorAll("article").length === 120);
  await page.locator("article.user").nth(30).getByRole("button", { name: "Edit" }).click();
  await page.locator("article.user textarea").fill("another question");
  const before = await place();
  await view(page, "schema");
  await page.fill("#schema-text", '{"type": "integer"}');
  await view(page, "convert");
  await page.fill("#convert-input", "<|start|>user<|message|>kept<|end|>");
  await view(page, "template");
  await page.fill("#bench-messages", '[{"role": "user", "content": "kept"}]');
  await view(page, "chat");
  await shown();
  check("left: the place in the conversation", Math.abs((await place()) - before) < 60, `${before} ${await place()}`);
  await page.click("button.gear");
  await page.reload();
  await shown();
  check("left: the place after a reload", Math.abs((await place()) - before) < 60, `${before} ${await place()}`);
  check("left: the question that is edited", (await page.locator("article.user textarea").inputValue()) === "another question");
  check("left: settings are open", await page.getByLabel("Temperature").isVisible());
  for (const [name, field, wanted] of [["schema", "#schema-text", "integer"], ["convert", "#convert-input", "kept"], ["template", "#bench-messages", "kept"]]) {
    await view(page, name);
    check(`left: ${name}`, (await page.inputValue(field)).includes(wanted));
  }
  await view(page, "chat");
  await page.getByRole("button", { name: "New conversation" }).first().click();
  await page.getByRole("heading", { level: 2 }).waitFor();
  check("left: settings stay open in a new conversation", await page.getByLabel("Temperature").isVisible());
  await page.getByLabel("Temperature").fill("0.7");
  await page.reload();
  await page.waitForFunction(() => document.querySelector('aside input[type="number"]')?.value === "0.7");
  check("left: the new conversation is open", (await page.locator("article").count()) === 0);
  await state(seen, "left");
  await seen.context.close();
}

// A deletion asks nothing, and can be undone for a while; its rows go after that, for every tab.
export async function undone(browser, urls) {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  await say(page, "hello");
  await page.getByRole("button", { name: "New conversation" }).first().click();
  await page.getByRole("heading", { level: 2 }).waitFor();
  await say(page, "bears");
  const other = await beside(seen, urls.main);
  await listed(other.page, ["bears", "hello"]);
  await page.getByRole("button", { name: "Delete “bears”" }).click();
  await page.getByText("“bears” is deleted.").waitFor();
  await page.getByText("Hello yourself.").waitFor();
  await listed(other.page, ["hello"]);
  await state(seen, "deleted");
  check("deletion: a live region", (await page.locator('.undo[role="status"][aria-live="polite"]').count()) === 1);
  check("deletion: the rows are there yet", (await rows(page)).messages.length === 4);
  await page.getByRole("button", { name: "Undo" }).click();
  for (const one of [page, other.page]) await listed(one, ["bears", "hello"]);
  for (const one of [page, other.page]) await one.getByText("There are bears in Bern.").waitFor();
  await named(page, "bears").focus();
  await page.keyboard.press("Delete");
  await page.waitForFunction(() => document.activeElement.id === "undo");
  await state(seen, "deleted-by-keyboard");
  await page.keyboard.press("Enter");
  await listed(page, ["bears", "hello"]);
  await page.getByRole("button", { name: "Delete “bears”" }).click();
  await headIs(page, (one) => one.title === "bears" && one.deleted);
  await page.reload();
  await page.getByText("“bears” is deleted.").waitFor();
  await page.clock.install();
  await page.getByRole("button", { name: "Undo" }).click();
  await listed(page, ["bears", "hello"]);
  await page.getByRole("button", { name: "Delete all" }).click();
  await page.getByText("2 conversations are deleted.").waitFor();
  await listed(other.page, []);
  await page.mouse.move(600, 300);
  await page.clock.fastForward(11_000);
  await page.locator("#undo").waitFor({ state: "detached" });
  await page.waitForFunction(() => new Promise((resolve) => {
    const request = indexedDB.open("antiphon-playground");
    request.onsuccess = () => { const all = request.result.transaction("nodes").objectStore("nodes").count(); all.onsuccess = () => { request.result.close(); resolve(all.result === 0); }; };
  }));
  await say(other.page, "hello");
  await listed(page, ["hello"]);
  await page.reload();
  await listed(page, ["hello"]);
  check("deletion: nothing came back", (await rows(page)).messages.length === 2);
  await seen.context.close();
}

export async function searched(browser, urls) {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  await conversationOf(page, 200, (place) => (place === 21 ? "Here is the Needle of the haystack" : `Message ${place}`));
  await page.getByRole("button", { name: "New conversation" }).first().click();
  await page.getByRole("heading", { level: 2 }).waitFor();
  await say(page, "hello");
  await page.keyboard.press("Control+K");
  await page.waitForFunction(() => document.activeElement.id === "search");
  await page.keyboard.type("needle of");
  await page.getByText("Conversations found: 1").waitFor();
  await page.locator(".snippet mark").waitFor();
  check("search: the text around it", (await page.locator(".snippet").innerText()) === "Here is the Needle of the haystack", await page.locator(".snippet").innerText());
  await state(seen, "searched");
  await page.keyboard.press("Enter");
  const found = page.locator("article").filter({ hasText: "Needle" });
  await found.waitFor();
  await page.waitForFunction(() => document.activeElement.matches("article"));
  check("search: it leads there", (await found.evaluate((one) => { const { top, bottom } = one.getBoundingClientRect(); return top > 0 && bottom < innerHeight; })));
  await state(seen, "search-led");
  await page.fill("#search", "HELLO");
  await page.waitForFunction(() => document.querySelectorAll(".rail .name").length === 1);
  await page.fill("#search", "nowhere");
  await page.getByText("Conversations found: 0").waitFor();
  await page.press("#search", "Escape");
  await listed(page, ["hello", "Long"]);
  await renamed(seen);
  await seen.context.close();
}

async function renamed(seen) {
  const { page } = seen;
  const field = page.getByRole("textbox", { name: "Title" });
  await page.getByRole("button", { name: "Rename “hello”" }).click();
  await field.fill("A greeting");
  await state(seen, "renaming");
  await page.keyboard.press("Enter");
  await listed(page, ["A greeting", "Long"]);
  await page.waitForFunction(() => document.activeElement.innerText === "A greeting");
  await page.keyboard.press("F2");
  await field.fill("never");
  await page.keyboard.press("Escape");
  await listed(page, ["A greeting", "Long"]);
  await named(page, "A greeting").dblclick();
  await field.fill("Salut <b>x</b>");
  await page.evaluate(() => dispatchEvent(new HashChangeEvent("hashchange"))); // All is drawn.
  await page.locator("#message").focus();
  await headIs(page, (one) => one.title.startsWith("Salut"));
  await page.reload();
  await listed(page, ["Salut <b>x</b>", "Long"]);
}

export async function shortcuts(browser, urls) {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  await say(page, "hello");
  await page.locator("main").focus();
  await page.keyboard.press("?");
  await page.locator("dialog.shortcuts").waitFor();
  await state(seen, "shortcuts");
  for (let step = 0; step < 4; step += 1) {
    await page.keyboard.press("Tab");
    check("shortcuts: the focus stays inside", await page.evaluate("document.activeElement === document.body || Boolean(document.activeElement.closest('dialog'))"));
  }
  await page.keyboard.press("Control+K");
  check("shortcuts: none behind a dialog", await page.evaluate("document.activeElement.id !== 'search'"));
  await page.keyboard.press("Escape");
  await page.locator("dialog.shortcuts").waitFor({ state: "detached" });
  await page.locator("#message").focus();
  await page.keyboard.type("?");
  check("shortcuts: a letter that is typed is a letter", (await page.inputValue("#message")) === "?" && (await page.locator("dialog.shortcuts").count()) === 0);
  await page.keyboard.press("Control+/");
  await page.locator("dialog.shortcuts").getByRole("button", { name: "Close" }).click();
  await page.locator("dialog.shortcuts").waitFor({ state: "detached" });
  await page.fill("#message", "");
  await page.press("#message", "ArrowUp");
  await page.waitForFunction(() => document.activeElement.value === "hello" && document.activeElement.closest("article.user"));
  await state(seen, "edit-last");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.activeElement.id === "message");
  await page.keyboard.press("Control+.");
  await page.waitForFunction(() => document.activeElement.closest("aside"));
  await page.keyboard.press("Escape");
  await page.getByLabel("Temperature").waitFor({ state: "detached" });
  await page.fill("#message", "long");
  await page.press("#message", "Enter");
  await page.locator('article[data-status="streaming"]').waitFor();
  await page.locator("main").focus();
  await page.keyboard.press("?");
  await page.locator("dialog.shortcuts").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("dialog.shortcuts").waitFor({ state: "detached" });
  check("shortcuts: the Escape of a dialog stops no answer", (await page.locator('article[data-status="streaming"]').count()) === 1);
  await page.keyboard.press("Escape");
  await page.getByText("Stopped after").waitFor();
  await page.locator("main").focus();
  await page.keyboard.press("F2");
  await page.getByRole("textbox", { name: "Title" }).fill("By a key");
  await page.keyboard.press("Enter");
  await listed(page, ["By a key"]);
  await view(page, "time");
  await page.keyboard.press("Control+Shift+O");
  await page.waitForFunction(() => document.activeElement.id === "message" && !document.querySelector("article"));
  await seen.context.close();
}

export async function narrowRail(browser, urls) {
  const seen = await chatting(browser, urls.main, { viewport: { width: 390, height: 780 }, colorScheme: "dark", hasTouch: true, isMobile: true, locale: "ru-RU" });
  const { page } = seen;
  await say(page, "hello");
  await page.click("button.drawer");
  await state(seen, "narrow-names");
  await page.fill("#search", "yourself");
  await page.locator(".snippet mark").waitFor();
  await state(seen, "narrow-search");
  await page.locator(".rail .name").click();
  await page.locator(".rail").waitFor({ state: "hidden" });
  await page.click("button.drawer");
  await page.getByRole("button", { name: "Удалить «hello»" }).click();
  await page.getByText("Беседа «hello» удалена.").waitFor();
  await state(seen, "narrow-deleted");
  await page.getByRole("button", { name: "Вернуть" }).click();
  await page.locator(".rail .name").waitFor();
  await page.click("button.drawer");
  await page.locator("main").focus();
  await page.keyboard.press("?");
  await page.locator("dialog.shortcuts").waitFor();
  await state(seen, "narrow-shortcuts");
  await seen.context.close();
}

// Settings that give no request are said where the answer would be.
export async function unsendable(browser, urls) {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  const answer = await say(page, "hello");
  await set(page, { Schema: "{" });
  await answer.getByRole("button", { name: "Regenerate" }).click();
  await page.locator('.failure[data-kind="refused"]').waitFor();
  await set(page, { Schema: "" });
  await page.locator(".failure").getByRole("button").click();
  await page.waitForFunction(() => document.querySelector("article:last-of-type")?.dataset.status === "done");
  await seen.context.close();
}

// What is asked in a new conversation goes there, with the settings of that moment.
export async function atOnce(browser, urls) {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  const sent = [];
  page.on("request", (request) => request.method() === "POST" && request.url().endsWith("/v1/responses") && sent.push(request.postDataJSON().temperature));
  const asked = await page.evaluate(async () => {
    const { Chat } = await import(new URL("playground/app/chat.js", location.href).href);
    const chat = new Chat(() => {});
    await chat.say("hello");
    chat.create();
    chat.set({ temperature: "0.25" });
    const answered = chat.say("bears");
    chat.set({ temperature: "" });
    await answered;
    return chat.path().map((node) => node.text ?? node.items[0].text);
  });
  check("at once: in the new conversation", asked.join("|") === "bears|There are bears in Bern.", asked.join("|"));
  check("at once: with the settings of that moment", JSON.stringify(sent) === "[null,0.25]", JSON.stringify(sent));
  await seen.context.close();
}
