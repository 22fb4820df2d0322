// node run.mjs CHROMIUM FOLDER {"main": URL, "keyed": URL, "key": SECRET, "loading": URL}
import { readFileSync } from "node:fs";
import * as benches from "./bench.mjs";
import { chatting, check, conversationOf, failures, leaks, open, say, set, state, stored, view, visit } from "./kit.mjs";
import * as looks from "./look.mjs";
import * as pace from "./pace.mjs";
import * as tabs from "./tabs.mjs";

const [chromium, folder, given] = process.argv.slice(2);
const urls = JSON.parse(given);
const browser = await open(chromium, folder);
const TOOLS = JSON.stringify([{ name: "weather", description: "The weather.", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } }]);

async function conversation() {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  await state(seen, "empty");
  const answer = await say(page, "markdown");
  check("markdown is drawn", (await answer.locator("table, li, strong").count()) >= 3);
  check("thinking is told, not shown", (await answer.innerText()).includes("Thought for"));
  await state(seen, "answer");
  await leaks(seen, "debug is off");
  await answer.getByRole("button", { name: "Regenerate" }).click();
  await page.getByText("2/2").waitFor();
  await page.waitForSelector('article.answer[data-status="done"]');
  await page.locator("article.user").first().getByRole("button", { name: "Edit" }).click();
  await page.locator("article.user textarea").fill("hello");
  await state(seen, "editing");
  await page.getByRole("button", { name: "Save and send" }).click();
  await page.getByText("Hello yourself.").waitFor();
  await page.locator("article.user").getByRole("button", { name: "Previous version" }).click();
  await page.locator("article.user").filter({ hasText: "markdown" }).waitFor();
  await stopped(seen);
  await reloaded(seen);
  await hostile(seen);
  await wire(seen);
  await page.context().close();
}

async function stopped(seen) {
  const { page } = seen;
  await page.fill("#message", "long");
  await page.press("#message", "Enter");
  await page.waitForSelector('article[data-status="streaming"]');
  await page.getByText("word word word").waitFor();
  await state(seen, "streaming");
  await page.press("#message", "Escape");
  await page.getByText("Stopped after").waitFor();
  await state(seen, "stopped");
}

async function reloaded(seen) {
  const { page } = seen;
  const before = await page.locator("article").count();
  await page.reload();
  await page.waitForFunction((count) => document.querySelectorAll("article").length === count, before);
}

// A key that opens a field has opened it when the next key comes, however soon that is.
async function typedAhead() {
  const { page, context } = await chatting(browser, urls.main);
  await say(page, "hello");
  const keys = [
    [".rail .name", { key: "F2" }, "input[aria-label=Title]"], ["#message", { key: "ArrowUp" }, "textarea[aria-label=Edit]"],
    ["#stored", { key: "k", ctrlKey: true }, "#search"], ["#stored", { key: "O", ctrlKey: true, shiftKey: true }, "#message"],
    ["#stored", { key: ".", ctrlKey: true }, "aside select"], ["#stored", { key: "?" }, "dialog button"], [".rail .name", { key: "Delete" }, "#undo"],
  ];
  for (const [at, key, wanted] of keys) {
    await page.locator(at).first().focus();
    const focused = await page.evaluate(async ([spelled, selector]) => {
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { ...spelled, bubbles: true, cancelable: true }));
      await null; // As before the next key of a keyboard.
      return document.activeElement.matches(selector) || document.activeElement.outerHTML.slice(0, 200);
    }, [key, wanted]);
    check(`at once: ${key.key}`, focused === true, String(focused));
    await page.keyboard.press("Escape");
  }
  await context.close();
}

// What a page that failed shows, and its last requests: in the log of a machine that keeps no screenshots.
async function shown() {
  const { records } = await import(new URL("playground/app/api.js", location.href).href);
  const requests = records.slice(0, 8).map(({ at, method, path, status, error, head, end, events }) => `${at.toISOString()} ${method} ${path} ${status} ${error ?? ""} head ${head} end ${end} events ${events.length} ${events.at(-1)?.data.slice(0, 200) ?? ""}`);
  return [new Date().toISOString(), document.querySelector("main").innerText.slice(-1500), ...requests].join("\n");
}

// An answer goes on after a reload, whatever the store, and is nowhere but here when it is whole.
async function survives(url, name) {
  const seen = await chatting(browser, url);
  const { page } = seen;
  await page.fill("#message", "slow");
  await page.press("#message", "Enter");
  await page.locator("article.answer code").nth(2).waitFor();
  const id = await idOf(seen);
  await page.reload();
  await page.getByText(/Read on from event [1-9]|this page reads on from event [1-9]/).waitFor();
  await page.locator('article.answer[data-status="streaming"]').waitFor();
  await state(seen, `${name}-reloaded`);
  const body = page.locator("article.answer .body");
  await page.locator('article.answer[data-status="done"]').waitFor();
  check(`${name}: whole after a reload`, (await body.locator("pre").count()) === (await pieces()), `${await body.locator("pre").count()} of ${await pieces()}`);
  await state(seen, `${name}-went-on`);
  await page.waitForFunction(async (path) => (await fetch(path)).status === 404, `${url}/v1/responses/${id}`);
  await page.reload();
  await page.locator('article.answer[data-status="done"]').waitFor();
  await leaks(seen, name);
  await page.context().close();
}

// The blocks of code of an answer that nothing cut.
async function pieces() {
  const seen = await visit(browser, urls.main);
  await seen.page.waitForSelector("#message");
  const found = await (await say(seen.page, "slow")).locator("pre").count();
  await seen.page.context().close();
  return found;
}

const idOf = async (seen) => {
  await seen.page.waitForFunction(() => new Promise((resolve) => {
    const request = indexedDB.open("antiphon-playground");
    request.onsuccess = () => {
      const all = request.result.transaction("running").objectStore("running").getAll();
      all.onsuccess = () => { request.result.close(); window.answering = all.result[0]; resolve(Boolean(window.answering?.responseId)); };
    };
  }));
  return seen.page.evaluate("window.answering.responseId");
};

async function cut() {
  const seen = await chatting(browser, urls.steady);
  const { page } = seen;
  await page.fill("#message", "slow");
  await page.press("#message", "Enter");
  await page.locator("article.answer code").nth(1).waitFor();
  const id = await idOf(seen);
  await page.goto("about:blank");
  await page.context().request.delete(`${urls.steady}/v1/responses/${id}`);
  await page.goto(urls.steady);
  await page.getByText("The server has nothing of this answer any more").waitFor();
  await state(seen, "reload-gone");
  await set(page, { API: "chat" });
  await page.fill("#message", "slow");
  await page.press("#message", "Enter");
  await page.locator("article.answer").nth(1).locator("code").nth(1).waitFor();
  await page.reload();
  await page.getByText("The page was closed while this was written").waitFor();
  check("what came of it is there", (await page.locator("article.answer").nth(1).locator("code").count()) > 0);
  await state(seen, "reload-cut");
  await page.locator("article.answer").nth(1).getByRole("button", { name: "Regenerate" }).click();
  await page.locator('article.answer[data-status="streaming"]').waitFor();
  await page.press("#message", "Escape");
  await page.getByText("Stopped after").waitFor();
  await page.context().close();
}

// A connection that breaks is made again by the page itself.
async function reconnected() {
  const seen = await chatting(browser, urls.steady);
  const { page, context } = seen;
  let broken = false;
  await page.route("**/v1/responses", async (route) => {
    if (broken) return route.continue();
    broken = true;
    const answer = await route.fetch({ method: "POST", postData: JSON.stringify({ ...route.request().postDataJSON(), stream: false }) });
    const { id } = await answer.json();
    return route.fulfill({ contentType: "text/event-stream", body: `data: ${JSON.stringify({ type: "response.created", sequence_number: 0, response: { id } })}\n\n` });
  });
  await page.fill("#message", "hello");
  await page.press("#message", "Enter");
  await page.getByText("Hello yourself.").waitFor();
  await page.getByText("Read on from event 1").waitFor();
  check("it is whole", (await page.locator('article.answer[data-status="done"]').count()) === 1);
  await context.close();
}

async function hostile(seen) {
  const { page } = seen;
  await page.getByRole("button", { name: "New conversation" }).first().click();
  const answer = await say(page, "hostile");
  check("no element of a model's own", (await answer.locator("script, img, iframe, svg, style, form, input, [onclick], [onerror], [style]").count()) === 0);
  const links = await answer.locator("a[href]").evaluateAll((all) => all.map((one) => [one.protocol, one.rel]));
  check("links are plain", links.length === 1 && links[0][0] === "https:" && links[0][1].includes("noopener"), JSON.stringify(links));
  check("nothing ran", (await page.evaluate("window.ran")) === undefined);
  check("only our own origin was asked", seen.asked.every((url) => url.startsWith(urls.main) || url.startsWith("data:") || url.startsWith("blob:")), seen.asked.join(" "));
  await state(seen, "hostile");
}

async function wire(seen) {
  const { page } = seen;
  await view(page, "wire");
  await page.getByRole("heading", { name: "Wire" }).waitFor();
  check("events have offsets", (await page.locator("ol.events li time").count()) > 3);
  await page.getByRole("button", { name: "Copy as Python" }).click();
  check("a program is copied", (await page.evaluate("navigator.clipboard.readText()")).includes("urllib.request"));
  await state(seen, "wire");
}

async function tools(api) {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  await set(page, { API: api, Functions: TOOLS, Instructions: "Be brief." });
  const answer = await say(page, "weather");
  check(`${api}: a card`, (await answer.locator(".card").innerText()).includes("Oslo"));
  await state(seen, `tool-${api}`);
  await answer.getByLabel("Give the result").fill('{"sky": "clear"}');
  await answer.getByRole("button", { name: "Send results" }).click();
  await page.getByText("It is clear in Oslo.").waitFor();
  await set(page, { Functions: "", Schema: '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}' });
  check(`${api}: by a schema`, (await (await say(page, "json")).innerText()).includes('{"n":4}'));
  await set(page, { Schema: "{" });
  await page.fill("#message", "json");
  await page.press("#message", "Enter");
  await page.getByText("This is not JSON").waitFor();
  await state(seen, `bad-schema-${api}`);
  await leaks(seen, api);
  await page.context().close();
}

// What runs at the server is a card too: while it runs, when it failed, when its time was up.
async function serverTools() {
  const seen = await chatting(browser, urls.tools);
  const { page } = seen;
  await page.click("button.gear");
  await page.getByLabel("browser", { exact: true }).check();
  await page.getByLabel("docs", { exact: true }).check();
  await state(seen, "server-tools");
  await page.click("button.gear");
  const cards = page.locator(".card");
  const searched = await say(page, "search");
  check("what was searched", (await searched.locator(".card").innerText()).includes('"query":"bears"') && (await searched.innerText()).includes("There are bears in Bern."));
  await searched.getByText("Result").click();
  check("what was found", (await searched.locator(".card").innerText()).includes("bern.md"));
  await page.fill("#message", "wait");
  await page.press("#message", "Enter");
  await page.locator('.card[data-state="state_running"]').waitFor();
  await state(seen, "tool-running");
  await page.locator('.card[data-state="state_running"]').waitFor({ state: "detached" });
  await page.waitForFunction(() => document.querySelector("article:last-of-type")?.dataset.status === "done");
  check("how long it ran", /done 3\.\d s/.test(await cards.nth(1).innerText()), await cards.nth(1).innerText());
  await say(page, "fail");
  await say(page, "hang");
  check("each has its state", (await cards.evaluateAll((all) => all.map((one) => one.dataset.state).join(" "))) === "state_ok state_ok state_error state_timeout");
  await state(seen, "tool-states");
  const again = await say(page, "hello");
  check("goes on from what the tools said", (await again.innerText()).includes("Hello yourself."));
  await otherKey(page);
  const exported = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  const file = readFileSync(await (await exported).path(), "utf8");
  await page.getByRole("button", { name: "OpenChatML", exact: true }).click();
  await page.getByText("Calls that ran at the server are left out: 4.").waitFor();
  check("a file has nothing encrypted", file.includes("There are bears in Bern.") && !file.includes("encrypted_content"));
  await view(page, "time");
  await page.locator(".timing .p-toolsPart").first().waitFor();
  await state(seen, "time-tools");
  await view(page, "envelopes");
  await page.locator(".envelopes li").first().waitFor();
  check("the prompt has the tools", (await page.locator(".envelopes").innerText()).includes("browser__search"));
  check("what the template spells is no warning", (await page.locator(".warning").count()) === 0);
  await leaks(seen, "server tools");
  await page.setViewportSize({ width: 360, height: 700 });
  await page.emulateMedia({ colorScheme: "dark" });
  await view(page, "chat");
  await cards.first().waitFor();
  await state(seen, "narrow-tools");
  await page.click("button.gear");
  await page.getByLabel("docs", { exact: true }).scrollIntoViewIfNeeded();
  await state(seen, "narrow-server-tools");
  await page.context().close();
}

// A server that cannot read what another one encrypted gets the conversation without it.
async function otherKey(page) {
  const refused = { status: 400, contentType: "application/json", body: JSON.stringify({ error: { message: "No.", type: "invalid_request_error", param: "input[1]", code: "invalid_encrypted_content" } }) };
  const sent = [];
  await page.route("**/v1/responses", (route) => {
    const encrypted = JSON.stringify(route.request().postDataJSON().input).includes("encrypted_content");
    sent.push(encrypted);
    return encrypted ? route.fulfill(refused) : route.continue();
  });
  const answer = await say(page, "hello");
  check("what cannot be read is left out", sent.join() === "true,false" && (await answer.innerText()).includes("Hello yourself.") && !(await answer.innerText()).includes("2/2"), sent.join());
  await page.unroute("**/v1/responses");
}

// Each call has a form of its own; one may be given up.
async function cancelled() {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  await set(page, { Functions: TOOLS });
  const answer = await say(page, "weather");
  await view(page, "envelopes");
  await page.locator(".envelopes li.divider ~ li .pills").first().waitFor();
  await page.getByLabel("text", { exact: true }).check();
  check("the reply is its call", (await page.locator(".envelopes li.divider + li").innerText()).includes('"name": "weather"'));
  await state(seen, "envelopes-call");
  await view(page, "chat");
  await answer.getByRole("button", { name: "Cancel the call" }).click();
  await page.locator('.card[data-state="state_cancelled"]').waitFor();
  await page.waitForFunction(() => document.querySelector("article:last-of-type")?.dataset.status === "done");
  await state(seen, "tool-cancelled");
  await page.context().close();
}

// Arguments that no grammar held are judged by the function's schema.
async function misfitting() {
  const seen = await chatting(browser, urls.loose);
  const { page } = seen;
  await set(page, { Functions: TOOLS.replace('"string"', '"integer"') });
  const answer = await say(page, "weather");
  await answer.getByText("This does not fit the function's schema").waitFor();
  await state(seen, "tool-misfit");
  await page.context().close();
}

// What was stopped or cut can be gone on with, whichever the API; the former version stays.
async function continued() {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  for (const api of ["responses", "chat", "completions"]) {
    await set(page, { API: api, "Max tokens": "5" });
    const cut = await say(page, "hello");
    check(`${api}: cut`, (await cut.locator(".body").innerText()) === "Hello", await cut.innerText());
    await set(page, { "Max tokens": "" });
    await cut.getByRole("button", { name: "Continue" }).click();
    await page.locator("article.answer").last().getByText("2/2").waitFor();
    await page.waitForFunction(() => document.querySelector("article:last-of-type")?.dataset.status === "done");
    const whole = await page.locator("article.answer").last().locator(".body").innerText();
    check(`${api}: gone on with`, whole.startsWith("Hello") && whole.length > 8, whole);
    if (api === "chat") await state(seen, "continued");
    await view(page, "envelopes");
    await page.locator(".envelopes li.divider").waitFor();
    check(`${api}: the prompt ends with what was cut`, (await page.locator(".envelopes li:has(+ li.divider)").innerText()).includes("H"), api);
    await view(page, "chat");
  }
  await page.context().close();
}

// What a model thinks is counted while it does so, and no more is told.
async function pondering() {
  const seen = await chatting(browser, urls.thinks);
  const { page } = seen;
  await page.fill("#message", "ponder");
  await page.press("#message", "Enter");
  await page.getByText(/Thinking… [\d.]+ s, [1-9]\d* tokens/).waitFor();
  await state(seen, "thinking");
  await page.press("#message", "Escape");
  await page.getByText(/Stopped after [1-9]\d* tokens/).waitFor();
  await leaks(seen, "pondering");
  await page.context().close();
}

// Code has the colours of its language, and nothing that a model writes becomes a class of the page.
async function code() {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  const answer = await say(page, "markdown");
  await answer.locator(".hljs-built_in").waitFor();
  check("the text is the same", (await answer.locator("pre code").innerText()).trim() === 'print("hello")');
  await state(seen, "code");
  await page.emulateMedia({ colorScheme: "dark" });
  await state(seen, "code-dark");
  await page.context().close();
}

// A conversation goes out as OpenChatML and comes in again.
async function transcripts() {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  await say(page, "hello");
  const written = page.waitForEvent("download");
  await page.getByRole("button", { name: "OpenChatML", exact: true }).click();
  const file = await written;
  check("a transcript has a name", file.suggestedFilename() === "conversation.ocm");
  const text = readFileSync(await file.path(), "utf8");
  check("it is the conversation", text.startsWith("---") && text.includes("<|start|>user<|message|>hello<|end|>") && text.includes("Hello yourself."), text.slice(0, 300));
  await page.setInputFiles('input[type="file"]', { name: "conversation.ocm", mimeType: "text/plain", buffer: Buffer.from(text) });
  await page.getByText("Conversations imported: 1.").waitFor();
  await page.getByRole("button", { name: "hello", exact: true }).first().click();
  await page.getByText("Hello yourself.").waitFor();
  const odd = { messages: [{ role: "user", name: "Ada", content: [{ type: "text", text: "odd" }] }, { role: "assistant", content: "Yes." }, { role: "system", content: "Late." }], temperature: 0.5, user: "ada" };
  await page.setInputFiles('input[type="file"]', { name: "odd.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(odd)) });
  await page.getByRole("button", { name: "odd", exact: true }).click();
  await page.getByText("user, messages[0].name, messages[2].role").waitFor();
  await state(seen, "imported");
  await page.click("button.gear");
  check("its settings are taken", (await page.getByLabel("Temperature").inputValue()) === "0.5" && (await page.getByLabel("Instructions").inputValue()) === "Late.");
  await page.click("button.gear");
  await page.setInputFiles('input[type="file"]', { name: "none.txt", mimeType: "text/plain", buffer: Buffer.from("no conversation") });
  await page.getByText("That file has no conversation.").waitFor();
  await state(seen, "not-imported");
  await page.context().close();
}

async function debug() {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  await page.click("button.gear");
  await state(seen, "settings");
  await page.getByLabel("Debug: show hidden channels").click();
  await state(seen, "debug-confirm");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.click("button.gear");
  const answer = await say(page, "markdown");
  await answer.getByText("Reasoning").click();
  check("debug shows reasoning", (await answer.innerText()).includes("HIDDENTHOUGHT"));
  await state(seen, "debug");
  check("reasoning is not stored", !(await stored(page)).includes("HIDDENTHOUGHT"));
  await page.click("button.gear");
  await page.getByLabel("Debug: show hidden channels").uncheck();
  await page.click("button.gear");
  await page.locator(".debug").waitFor({ state: "detached" });
  check("what was seen is forgotten", !(await page.content()).includes("HIDDENTHOUGHT"));
  await page.reload();
  await page.locator("article.answer").waitFor();
  check("debug ends with the tab", (await page.locator(".debug").count()) === 0);
  await page.context().close();
}

async function failing() {
  const seen = await chatting(browser, urls.main);
  const { page, context } = seen;
  await say(page, "lost", "failed");
  await page.locator('.failure[data-kind="lost"]').waitFor();
  await state(seen, "engine-lost");
  await context.setOffline(true);
  await page.locator('[data-state="offline"]').waitFor();
  await say(page, "hello", "failed");
  await state(seen, "offline");
  await page.locator("#template").click();
  await page.locator("main section.view p.problem").waitFor(); // Of a view that did not come; it is tried again.
  await context.setOffline(false);
  await page.getByRole("heading", { name: "Template" }).waitFor();
  await page.locator("#chat").click();
  await page.locator('[data-state="offline"]').waitFor({ state: "detached" });
  await page.locator('.failure[data-kind="offline"] button').click();
  await page.getByText("Hello yourself.").waitFor();
  await context.close();
}

async function keyboard() {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  const reached = [];
  for (let step = 0; step < 32 && !reached.includes("message"); step += 1) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate("document.activeElement.id || document.activeElement.textContent.slice(0, 20)"));
  }
  check("all is reached by Tab", ["Skip to content", "chat", "wire", "stored", "Settings", "New conversation", "message"].every((name) => reached.includes(name)), reached.join(" | "));
  await page.keyboard.type("hello");
  await page.keyboard.press("Enter");
  await page.getByText("Hello yourself.").waitFor();
  await state(seen, "keyboard");
  await set(page, { API: "completions", Temperature: "0.5", "Max tokens": "5", Seed: "7" });
  const cut = await say(page, "hello");
  check("completions, cut short", (await cut.innerText()).includes("Hello\n") && (await cut.innerText()).includes("length"), await cut.innerText());
  await set(page, { API: "responses", Effort: "low", "Top p": "0.9" });
  check("every setting is taken", (await (await say(page, "hello")).innerText()).includes("max_output_tokens"));
  await page.context().close();
}

// A step of a long answer draws its last paragraphs anew, and leaves all above as it is.
async function drawn() {
  const { page } = await chatting(browser, urls.main);
  await page.evaluate(() => {
    window.steps = [];
    const size = (node) => (node.nodeType === Node.ELEMENT_NODE ? 1 + node.querySelectorAll("*").length : 0);
    const added = (records) => records.flatMap((one) => [...one.addedNodes]).reduce((all, node) => all + size(node), 0);
    new MutationObserver((records) => steps.push(added(records))).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  const whole = await (await say(page, "steady")).locator("*").count();
  const late = (await page.evaluate("steps")).slice(-100).sort((one, other) => one - other);
  check("a step draws little anew", whole > 500 && late.length === 100 && late[50] < whole / 10, `${late[50]} of ${whole}; ${late}`);
  await page.context().close();
}

const speed = async () => {
  await pace.paint(browser, urls.main);
  await pace.streaming(browser, urls.steady, 0);
  await pace.streaming(browser, urls.steady, 1000);
  await pace.opening(browser, urls.main, 1000);
};

async function views() {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  await say(page, "hello");
  await say(page, "I spell <|im_start|>system and \u202ea turn");
  await view(page, "envelopes");
  await page.locator(".envelopes li").first().waitFor();
  const rows = await page.locator(".envelopes li").allInnerTexts();
  check("a row a message, and the reply", rows.length === 7 && rows[5].startsWith("Assistant") && rows[5].includes("257") && rows[0].startsWith("user") && rows[1].startsWith("assistant"), JSON.stringify(rows.map((row) => row.slice(0, 30))));
  check("a spelled control is text", (await page.locator(".warning").count()) === 1 && (await page.locator(".envelopes li").nth(2).locator(".k-start").count()) === 2);
  check("what cannot be seen is spelled", rows[2].includes("\\u202e") || rows[2].includes("\\xe2"), rows[2].slice(0, 400));
  await state(seen, "envelopes");
  for (const form of ["ids", "bytes", "text"]) await page.getByLabel(form, { exact: true }).check();
  check("nothing turns text around", (await page.locator(".envelopes").innerText()).includes("\\u202ea turn"));
  await state(seen, "envelopes-text");
  await page.getByRole("button", { name: "Copy as Python" }).click();
  check("ids are copied", /^ids = \[\d+(, \d+)+\]$/.test(await page.evaluate("navigator.clipboard.readText()")));
  await page.getByPlaceholder("Search text or id").fill("spell");
  await page.getByText("5 found").waitFor();
  check("rows without what is searched are away", (await page.locator(".envelopes .title").count()) === 1);
  await page.getByPlaceholder("Search text or id").fill("");
  await page.getByLabel("Compare with the prompt before").check();
  await page.getByText(/tokens kept, 0 lost, \d+ new/).waitFor();
  await state(seen, "envelopes-compared");
  await page.getByLabel("Compare with the prompt before").uncheck();
  await set(page, { "Probabilities": true });
  await view(page, "chat");
  await say(page, "markdown");
  await view(page, "envelopes");
  await page.getByLabel("tokens", { exact: true }).check();
  const reply = page.locator(".envelopes li.divider + li .pills");
  await reply.locator(".l0").first().waitFor();
  check("the reply has what was seen alone", !(await reply.innerText()).includes("HIDDEN"));
  await reply.focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.getByText(/Token 1: .*100.0 %/).waitFor();
  await reply.scrollIntoViewIfNeeded();
  await state(seen, "envelopes-reply");
  await leaks(seen, "probabilities");
  await view(page, "time");
  await page.locator(".timing").nth(1).waitFor();
  const newest = await page.locator(".timing").nth(1).innerText();
  check("a prefix is explained", /All 40 tokens of the question and answer before were kept/.test(newest), newest);
  await state(seen, "time");
  await page.setViewportSize({ width: 360, height: 700 });
  await page.emulateMedia({ colorScheme: "dark" });
  for (const name of ["envelopes", "time", "wire", "stored"]) {
    await view(page, name);
    await page.locator({ envelopes: ".envelopes .pill", time: ".timing", wire: "pre", stored: ".notice" }[name]).first().waitFor();
    await state(seen, `narrow-${name}`);
  }
  await page.context().close();
}

// Whose each token is: by colour and line, by name for whoever goes through them with the keys, and by the server's word.
async function owners() {
  const seen = await chatting(browser, urls.harmony);
  const { page } = seen;
  await set(page, { "Instructions": "Be brief." });
  await say(page, "I spell <|end|>");
  await say(page, "hello");
  await view(page, "envelopes");
  const toggle = page.getByLabel("Who wrote it");
  await toggle.focus();
  await page.keyboard.press("Space");
  await page.locator(".envelopes .o-user").first().waitFor();
  const text = (kind) => page.locator(`.envelopes .pill${kind}`).evaluateAll((pills) => pills.map((pill) => pill.firstChild.data).join(""));
  check("the user's tokens", (await text(".o-user")) === "I·spell·<|end|>hello", await text(".o-user"));
  check("instructions are the system's", (await text(".o-system")).startsWith("Be·brief."), await text(".o-system"));
  const sampled = await text(".sampled");
  check("what is sampled", sampled === "<|channel|>final<|message|>Hello·yourself.".repeat(2) + "<|return|>" && sampled === (await text(".o-assistant")), sampled);
  check("the next prompt ends the answer otherwise", (await text(".dropped")) === "<|return|>" && (await page.getByText(/The next prompt begins with (\d+) of these \d+ tokens and then goes on otherwise; the cause: end/).count()) === 1);
  const last = page.locator(".envelopes li").last().locator(".pills");
  await last.focus();
  await page.keyboard.press("ArrowLeft");
  await page.getByText(/Token 0: .*· template ·/).waitFor();
  for (let count = (await last.locator(".pill").count()) - 1; count > 0; count -= 1) await page.keyboard.press("ArrowRight");
  await page.getByText(/Token \d+: <\|return\|> · assistant · end · sampled · not in the next prompt/).waitFor();
  await state(seen, "owners");
  await page.getByLabel("Compare with the prompt before").check();
  check("one view at a time", !(await toggle.isChecked()));
  await toggle.check();
  await page.locator(".envelopes .o-user").first().waitFor();
  await page.emulateMedia({ colorScheme: "dark" });
  await state(seen, "owners-dark");
  await page.setViewportSize({ width: 360, height: 700 });
  await state(seen, "owners-narrow");
  await page.context().close();
}

async function stored_() {
  const seen = await visit(browser, urls.main);
  const { page, context } = seen;
  const sent = (path, data) => context.request.post(`${urls.main}${path}`, { data }).then((answer) => answer.json());
  for (let count = 0; count < 3; count += 1) await sent("/v1/responses", { input: "markdown" });
  const { id } = await sent("/v1/conversations", { items: [{ role: "user", content: "hello" }] });
  await sent("/v1/chat/completions", { messages: [{ role: "user", content: "hello" }], session_id: "ann-7" });
  await view(page, "stored");
  await page.getByRole("button", { name: "Delete all: Responses" }).waitFor();
  await state(seen, "stored-view");
  await page.getByRole("button", { name: "Open resp_" }).first().click();
  await page.getByText('"object": "response"').waitFor();
  await state(seen, "stored-open");
  await leaks(seen, "what is stored");
  await page.getByRole("button", { name: "Back" }).click();
  await page.getByRole("button", { name: "Delete all: Responses" }).click();
  await state(seen, "stored-confirm");
  await page.getByRole("button", { name: "Cancel" }).click();
  check("nothing is deleted before it is confirmed", (await page.getByRole("button", { name: "Open resp_" }).count()) >= 3);
  for (const name of ["Delete all: Responses", `Delete “${id}”`, "Delete “ann-7”"]) {
    await page.getByRole("button", { name }).click();
    await page.locator("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name }).waitFor({ state: "detached" });
  }
  await page.getByText("The server stores nothing for this key.").waitFor();
  await page.route("**/playground/api/stored", (route) => route.abort());
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.locator("p.problem").waitFor();
  await state(seen, "stored-offline");
  await context.close();
}

// One at a time: a second conversation waits, and says so, while the first goes on beside it.
async function queued() {
  const seen = await chatting(browser, urls.one);
  const { page } = seen;
  await page.fill("#message", "slow");
  await page.press("#message", "Enter");
  await page.locator("article.answer code").first().waitFor();
  await page.getByRole("button", { name: "New conversation" }).first().click();
  await page.fill("#message", "hello");
  await page.press("#message", "Enter");
  await page.getByText("In the queue…").waitFor();
  await state(seen, "queued");
  await page.getByText("Hello yourself.").waitFor();
  await page.getByRole("button", { name: "slow", exact: true }).click();
  await page.locator('article.answer[data-status="done"]').waitFor();
  await page.getByRole("button", { name: "hello", exact: true }).click();
  await view(page, "time");
  await page.locator(".timing").waitFor();
  check("the queue has its part of the time", (await page.locator(".timing .p-queue").count()) === 2);
  check("what was cached is hatched", (await page.locator(".bar-of-time .p-cached").count()) === 1 && (await page.locator(".timing").innerText()).includes("50 %"));
  await state(seen, "time-queued");
  await page.context().close();
}

async function long() {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  const begun = Date.now();
  await conversationOf(page, 500, (place) => (place === 499 ? "x".repeat(1_000_000) : `Message ${place}`));
  await page.getByText("Message 498").waitFor();
  check("500 messages and a line of a megabyte are drawn", Date.now() - begun < 10_000, `${Date.now() - begun} ms`);
  await page.getByRole("button", { name: "Show 440 earlier messages" }).waitFor();
  await state(seen, "long");
  const exported = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  check("an export has a name", (await exported).suggestedFilename() === "antiphon-conversations.json");
  await page.context().close();
}

async function keyed() {
  const seen = await visit(browser, urls.keyed);
  const { page } = seen;
  await page.getByRole("textbox", { name: "API key" }).fill("wrong");
  await page.getByRole("button", { name: "Use" }).click();
  await page.getByText("That key is not known here.").waitFor();
  await state(seen, "key-wrong");
  await page.getByRole("textbox", { name: "API key" }).fill(urls.key);
  await page.getByRole("button", { name: "Use" }).click();
  await page.locator("dialog").waitFor({ state: "detached" });
  await say(page, "hello");
  await say(page, "hello", "failed");
  await page.locator('.failure[data-kind="rate"] button:disabled').waitFor();
  await state(seen, "rate");
  check("the key is stored nowhere", !(await stored(page)).includes(urls.key) && !(await page.content()).includes(urls.key));
  await page.context().close();
}

async function loading() {
  const seen = await visit(browser, urls.loading);
  await seen.page.locator('[data-state="loading"]').waitFor();
  await state(seen, "loading");
  console.log("LOAD");
  await seen.page.locator('[data-state="loading"]').waitFor({ state: "detached" });
  await seen.context.close();
}

async function narrow() {
  const seen = await chatting(browser, urls.main, { viewport: { width: 360, height: 700 }, colorScheme: "dark", locale: "ru-RU" });
  const { page } = seen;
  await say(page, "markdown");
  await state(seen, "narrow-dark-ru");
  await page.click("button.drawer");
  await state(seen, "narrow-rail");
  await page.click("button.drawer");
  await page.click("button.gear");
  await page.getByLabel("Язык").selectOption("zh");
  await page.getByLabel("语言").waitFor();
  await state(seen, "narrow-settings-zh");
  await page.context().close();
}

const PNG = "iVBORw0KGgoAAAANSUhEUgAAADAAAAAgAgMAAAApuhOPAAAADFBMVEXIHh4AAAAAAAAAAACmpsfuAAAADklEQVR42mNgGAWDGQAAAaAAAY1mJ9YAAAAASUVORK5CYII=";

// Images are chosen, pasted and taken away again; they go with their question, and stay with it.
async function pictures() {
  const seen = await chatting(browser, urls.eyes);
  const { page } = seen;
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.getByRole("button", { name: "Add an image" }).click()]);
  await chooser.setFiles({ name: "a.png", mimeType: "image/png", buffer: Buffer.from(PNG, "base64") });
  await page.getByAltText("Image 1").waitFor();
  await page.evaluate((base64) => {
    const data = new DataTransfer();
    for (const type of ["image/png", "text/plain"]) data.items.add(new File([Uint8Array.from(atob(base64), (one) => one.charCodeAt(0))], "b", { type }));
    document.querySelector("#message").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  }, PNG);
  await page.getByAltText("Image 2").waitFor();
  await state(seen, "images");
  check("images: both are seen", (await (await say(page, "how many?")).innerText()).includes("I see 2."));
  check("images: the next question has none", (await page.locator(".writer img").count()) === 0);
  await page.reload();
  await page.locator("article.user img").nth(1).waitFor();
  await page.locator("article.user").getByRole("button", { name: "Edit" }).click();
  await page.locator("article.user textarea").fill("and now?");
  await page.getByRole("button", { name: "Save and send" }).click();
  await page.locator("article.answer").getByText("I see 2.").waitFor();
  for (const api of ["chat", "responses"]) {
    await set(page, { API: api });
    check(`images: ${api} sends those of the history`, (await (await say(page, "again")).innerText()).includes("I see 2."));
  }
  await page.context().close();
}

// Code that takes too long is left as it is, and the code after it has its colours all the same.
async function slowCode() {
  const seen = await chatting(browser, urls.main);
  const [late, next] = await seen.page.evaluate(async () => {
    const { highlighted } = await import(new URL("playground/app/highlighting.js", location.href).href);
    return [await highlighted("python", "x = [1, 'a']  # b\n".repeat(1_000_000)), await highlighted("python", "x = 1")];
  });
  check("slow code: it is left as it is", late === null, String(late).slice(0, 80));
  check("slow code: the next has colours", next?.includes("<span"), String(next));
  await state(seen, "slow-code");
  await seen.context.close();
}

const BENCHES = Object.fromEntries(Object.entries(benches).map(([name, one]) => [name, () => one(browser, urls.main)]));
const LOOKS = Object.fromEntries(Object.entries(looks).map(([name, one]) => [name, () => one(browser, urls)]));
const TABS = Object.fromEntries(Object.entries(tabs).map(([name, one]) => [name, () => one(browser, urls)]));
const ALL = { conversation, survives: () => survives(urls.steady, "stored"), survivesInMemory: () => survives(urls.steadyMemory, "memory"), cut, reconnected, chatTools: () => tools("chat"), responsesTools: () => tools("responses"), serverTools, cancelled, misfitting, continued, pondering, code, transcripts, debug, failing, keyboard, typedAhead, views, owners, stored: stored_, queued, long, keyed, loading, narrow, slowCode, drawn, pictures, ...TABS, ...BENCHES, ...LOOKS };
const chosen = process.env.ONLY?.split(",") ?? Object.keys(ALL);
for (const name of chosen) {
  try {
    await { ...ALL, speed }[name]();
  } catch (error) {
    check(name, false, String(error.stack).slice(0, 1500));
    const pages = browser.browser.contexts().flatMap((context) => context.pages());
    await pages.at(-1)?.screenshot({ path: `${folder}/failed-${name}.png` }).catch(() => {});
    console.log(await pages.at(-1)?.evaluate(shown).catch(String));
    await Promise.all(browser.browser.contexts().map((context) => context.close()));
  }
}
await browser.browser.close();
console.log(failures.length ? `${failures.length} failed` : "passed");
process.exit(failures.length ? 1 : 0);
