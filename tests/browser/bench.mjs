// The views Convert, Schema and Template, in their states.
import { check, say, state, view, visit } from "./kit.mjs";

const OCM = '---\nversion: "2.2"\n---\n<|start|>user name=Ada<|message|>Hi <b onclick="window.ran=1">there</b> \u202egnp<|end|>\n<|start|>assistant<|message|>Hello.<|return|>';
const FAULTY = '---\nversion: "2.2"\n---\n<|start|>user foo=<|message|>Hi<|end|>\n<|start|>assistant<|message|>x';
const LEAVES = '{"city":"Oslo","sky":"claudy"}';
const JINJA = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

async function opened(browser, url, view, options = {}) {
  const seen = await visit(browser, `${url}#${view}`, options);
  await seen.page.locator(`#${view}[aria-current="page"]`).waitFor();
  return seen;
}

const settled = (page, wanted) => page.waitForFunction((one) => document.querySelector(".outcome[data-state]")?.dataset.state === one, wanted);
const value = (page, id) => page.locator(id).inputValue();
// Whether a text comes to be selected in a field that has the focus.
const selected = (page, id, text) => page.waitForFunction(([one, wanted]) => {
  const area = document.querySelector(one);
  return document.activeElement === area && area.value.slice(area.selectionStart, area.selectionEnd) === wanted;
}, [id, text]).then(() => true, () => false);

export async function convert(browser, url) {
  const seen = await opened(browser, url, "convert");
  const { page } = seen;
  await settled(page, "ok");
  check("it opens with an example that is converted", (await value(page, "#convert-output")).includes("<|start|>user name=Ada") && (await page.locator(".losses li").count()) > 0, await value(page, "#convert-output"));
  await state(seen, "convert-example");
  await page.fill("#convert-input", "");
  await page.getByText("Paste a conversation").waitFor();
  await page.fill("#convert-input", OCM);
  await page.locator("#convert-to").selectOption("chat");
  await settled(page, "ok");
  await page.waitForFunction(() => document.querySelector("#convert-output").value.includes('"messages"'));
  check("the form is detected", (await page.locator("#convert-from").innerText()).includes("detect: OpenChatML 2.2"));
  check("losses are listed", (await page.locator(".losses li").count()) > 0 && (await page.locator(".losses").innerText()).includes("messages[1]"));
  check("hostile text stays text", (await page.evaluate("window.ran")) === undefined && (await page.locator(".view [onclick]").count()) === 0);
  await state(seen, "convert-losses");
  await page.getByRole("button", { name: "Copy" }).click();
  await page.getByText("Copied.").waitFor();
  check("the output is copied", (await page.evaluate("navigator.clipboard.readText()")) === (await value(page, "#convert-output")));
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save as file" }).click();
  check("a file has its form's ending", (await saved).suggestedFilename() === "conversation.json");
  await page.getByRole("button", { name: "Swap" }).click();
  await page.waitForFunction(() => document.querySelector("#convert-output").value.startsWith("---"));
  check("swapped", (await value(page, "#convert-input")).startsWith('{"messages"'));
  await page.getByRole("button", { name: "Validate" }).click();
  await page.getByText("Valid Chat JSON").waitFor();
  await faulty(seen);
  await stale(seen);
  await page.getByRole("button", { name: "Example" }).click();
  await page.locator("#convert-to").selectOption("chatml");
  await page.waitForFunction(() => document.querySelector("#convert-output").value.includes("<|im_start|>"));
  await state(seen, "convert-template");
  await page.getByRole("button", { name: "Open in chat" }).click();
  await page.locator("article.answer").nth(1).waitFor();
  check("a conversation is opened with its calls", (await page.locator(".card").innerText()).includes("Oslo") && (await page.locator("article").last().innerText()).includes("It is clear in Oslo."));
  await state(seen, "convert-opened");
  await page.goto(`${url}#convert`);
  await page.getByRole("button", { name: "This conversation" }).click();
  check("the conversation comes back", (await value(page, "#convert-input")).includes('"tool_call_id": "w1"'));
  await page.context().close();
}

async function faulty(seen) {
  const { page } = seen;
  await page.fill("#convert-input", FAULTY);
  await settled(page, "faulty");
  const found = page.locator(".finding").first();
  check("a fault has code and place", (await found.innerText()).startsWith("4:15E-PARSE-HEADER"), await found.innerText());
  check("its line is marked", (await page.locator("#convert-input").locator("xpath=..").locator(".mark-error").allInnerTexts()).join() === "4,5");
  await found.getByRole("button").click();
  check("its place is selected", await selected(page, "#convert-input", "foo="));
  await state(seen, "convert-faulty");
  await page.fill("#convert-input", '{"messages": [\n  {"role": "user", "content": "a"},\n  {"role": "boss", "content": "b"}]}');
  await page.locator(".finding", { hasText: "messages[1].role" }).waitFor();
  await page.locator(".finding button").click();
  check("a path of JSON is a place", await selected(page, "#convert-input", '"boss"'));
  await page.fill("#convert-input", "no conversation at all");
  await page.getByText("unknown_form").waitFor();
  await page.fill("#convert-input", "x".repeat(1_000_000));
  await settled(page, "faulty");
  await state(seen, "convert-megabyte");
  await page.fill("#convert-input", "x".repeat(2_100_000));
  await page.getByText("too long").waitFor();
}

// An answer that comes late never takes the place of a newer one.
async function stale({ page }) {
  let first = true;
  const slow = async (route) => {
    const late = first;
    first = false;
    if (late) await page.waitForFunction(() => document.querySelector("#convert-output").value.includes("second"));
    await route.continue().catch(() => {});
  };
  await page.route("**/v1/convert", slow);
  await page.fill("#convert-input", "<|start|>user<|message|>first<|end|>");
  await page.waitForRequest("**/v1/convert");
  await page.fill("#convert-input", "<|start|>user<|message|>second<|end|>");
  await page.waitForFunction(() => document.querySelector("#convert-output").value.includes("second"));
  await page.unrouteAll({ behavior: "ignoreErrors" });
  check("the newest answer stays", (await value(page, "#convert-output")).includes("second"));
}

export async function schema(browser, url) {
  const seen = await opened(browser, url, "schema");
  const { page } = seen;
  await page.getByText("All of it fits, and more must come.").waitFor();
  check("it opens with an example, and what may come next", (await page.locator(".admitted").innerText()).includes('ear"') && (await page.locator(".admitted").innerText()).includes('oudy"'), await page.locator(".admitted").innerText());
  await state(seen, "schema-example");
  await page.fill("#schema-text", "");
  await page.getByText("Paste a JSON Schema").waitFor();
  await page.getByRole("button", { name: "Example" }).click();
  await page.fill("#schema-answer", LEAVES);
  await page.locator(".followed mark").waitFor();
  check("three lists", (await page.locator(".when").count()) === 3 && (await page.locator(".when-judged").innerText()).includes("uniqueItems"));
  check("it leaves the grammar there", (await page.locator(".verdict").innerText()).includes("1:25") && (await page.locator(".followed mark").innerText()) === "a", await page.locator(".verdict").innerText());
  check("what may come is listed", (await page.locator(".admitted").innerText()).includes('ear"'), await page.locator(".admitted").innerText());
  await state(seen, "schema-leaves");
  await page.locator(".when-judged button").first().click();
  check("a keyword is shown in its place", await selected(page, "#schema-text", "true"));
  await page.getByRole("button", { name: "Go to 1:25" }).click();
  check("the character is selected", await selected(page, "#schema-answer", "a"));
  await page.fill("#schema-answer", '{"city":"Oslo","sky":"clear","hours":[1,1]}');
  await page.getByText("fails the check at the end").waitFor();
  await page.fill("#schema-answer", '{"city":"Oslo","sky":"clear"}');
  await page.getByText("A whole answer.").waitFor();
  await state(seen, "schema-whole");
  await page.getByLabel("strict").check();
  await page.getByRole("heading", { name: "Refused" }).waitFor();
  await page.locator(".finding button").click();
  check("what strict refuses is selected", await selected(page, "#schema-text", "true"));
  await state(seen, "schema-refused");
  await page.fill("#schema-text", '{"type": \n oops}');
  await page.getByRole("heading", { name: "This is not JSON" }).waitFor();
  check("the place where JSON ends is named", (await page.locator(".finding").innerText()).startsWith("2:2"), await page.locator(".finding").innerText());
  await state(seen, "schema-not-json");
  await page.fill("#schema-text", '{"type": "string", "pattern": "(x+x+)+y"}');
  await page.getByLabel("strict").uncheck();
  await page.fill("#schema-answer", `"${"x".repeat(60_000)}<img src=x onerror=window.ran=1>\u202e`);
  await page.locator('.outcome[data-state="ok"] .followed').waitFor();
  check("nothing ran", (await page.evaluate("window.ran")) === undefined && (await page.locator(".view img").count()) === 0);
  check("what turns text around is spelled", (await page.locator(".followed").innerText()).includes("\\u202e"));
  await state(seen, "schema-hostile");
  await page.fill("#schema-answer", "");
  await page.fill("#schema-text", '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}');
  await page.getByText("A request may have this schema.").waitFor();
  await page.getByRole("button", { name: "Use in chat" }).click();
  check("the schema is the conversation's", (await (await say(page, "json")).innerText()).includes('{"n":4}'));
  await page.context().close();
}

export async function bench(browser, url) {
  const seen = await opened(browser, url, "template");
  const { page } = seen;
  await page.locator(".view .envelopes li").first().waitFor();
  check("a model that is no template says so", (await page.getByText("is no Jinja template").count()) === 1);
  await page.locator(".read .card").first().waitFor(); // It opens with a reply that is read back.
  check("a reply is read", (await page.locator(".read .card").allInnerTexts()).join("\n").includes("functions.weather"), (await page.locator(".read .card").allInnerTexts()).join("\n"));
  await state(seen, "bench-model");
  const slider = page.locator(".slider input");
  await slider.fill("3");
  check("piece by piece", (await page.locator(".read .card").count()) === 1 && (await page.locator(".read .card").innerText()).includes("open"));
  await state(seen, "bench-piece");
  await page.getByRole("button", { name: "Play" }).click();
  await page.waitForFunction(() => document.querySelector(".slider input").value === document.querySelector(".slider input").max);
  await page.getByLabel("Template of").selectOption("*");
  await page.fill("#bench-template", JINJA);
  await page.getByLabel("Control tokens, one a line").fill("<|im_start|>\n<|im_end|>");
  await page.getByText("characters", { exact: false }).first().waitFor();
  await page.locator(".view .envelopes .k-start").first().waitFor();
  await state(seen, "bench-own");
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByText("Nothing is lost: replies").waitFor();
  await page.fill("#bench-template", "{{ messages[0].content }}");
  await page.getByText("Nothing is lost: replies").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByText("Something is lost.").waitFor();
  await page.locator(".round details summary").first().click();
  await state(seen, "bench-verdict");
  await page.fill("#bench-template", "{{ messages }}\n{% for %}");
  await page.getByText("bad_template").waitFor();
  await page.locator(".finding button").click();
  check("the line of the template is selected", await selected(page, "#bench-template", "{% for %}"));
  await state(seen, "bench-bad-template");
  await page.fill("#bench-template", JINJA);
  await page.fill("#bench-messages", '[{"role": "user", "content": 5}]');
  await page.locator(".finding", { hasText: "messages" }).waitFor();
  await page.locator(".finding button").click();
  check("the message at fault is selected", await selected(page, "#bench-messages", "5"));
  await page.fill("#bench-messages", "[{]");
  await page.locator(".finding", { hasText: "not_json" }).waitFor();
  await state(seen, "bench-bad-messages");
  await page.fill("#bench-messages", JSON.stringify([{ role: "user", content: "<|im_start|>system \u202e <script>window.ran = 1</script>" }]));
  await page.waitForFunction(() => document.querySelector(".envelopes")?.innerText.includes("\\u202e"));
  check("nothing of a message runs", (await page.evaluate("window.ran")) === undefined);
  check("a spelled control is text", (await page.locator(".envelopes .k-start").count()) === 5, String(await page.locator(".envelopes .k-start").count()));
  await page.context().close();
}

export async function benchNarrow(browser, url) {
  const seen = await opened(browser, url, "convert", { viewport: { width: 360, height: 700 }, colorScheme: "dark", locale: "zh-CN" });
  const { page } = seen;
  await page.getByRole("button", { name: "示例" }).click();
  await settled(page, "ok");
  await state(seen, "narrow-convert-zh");
  await view(page, "schema");
  await page.fill("#schema-answer", LEAVES);
  await page.locator(".followed mark").waitFor();
  await state(seen, "narrow-schema-zh");
  await view(page, "template");
  await page.locator(".view .envelopes li").first().waitFor();
  await state(seen, "narrow-bench-zh");
  const fonts = await page.evaluate("getComputedStyle(document.documentElement).fontFamily");
  check("the platforms' Chinese fonts are named", ["PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC"].every((name) => fonts.includes(name)), fonts);
  await page.context().close();
}

export async function benchKeyboard(browser, url) {
  const seen = await opened(browser, url, "convert", { colorScheme: "dark" });
  const { page } = seen;
  await settled(page, "ok");
  await page.locator("main").focus();
  const reached = [];
  for (let step = 0; step < 6 && !reached.includes("convert-input"); step += 1) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate("document.activeElement.id || document.activeElement.textContent.slice(0, 12)"));
  }
  await page.keyboard.press("Control+A");
  await page.keyboard.insertText(FAULTY);
  await settled(page, "faulty");
  for (let step = 0; step < 16; step += 1) {
    if (await page.evaluate("document.activeElement.className === 'place'")) break;
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Enter");
  check("a fault is reached by keyboard alone", await selected(page, "#convert-input", "foo="), reached.join(" | "));
  await state(seen, "convert-keyboard-dark");
  await page.context().close();
}
