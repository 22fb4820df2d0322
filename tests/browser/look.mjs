// What the page opens with, who answers and how fast, and what each view shows before anything was asked.
import { chatting, check, say, set, state, view } from "./kit.mjs";

// The first screen: the model, and cards of which each does what it says.
export async function first(browser, urls) {
  const seen = await chatting(browser, urls.steady);
  const { page } = seen;
  const begin = page.locator(".begin");
  await page.locator('.begin[data-card="last"]').waitFor();
  check("first: the model and where it runs", /^small\n/.test(await page.locator(".first h2").innerText() + "\n") && /on scripted.*60,000 tokens of context.*template chatml/s.test(await page.locator(".facts").innerText()), await page.locator(".facts").innerText());
  check("first: three cards", (await begin.count()) === 3);
  await state(seen, "first");
  await page.emulateMedia({ colorScheme: "dark" });
  await state(seen, "first-dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.locator('.begin[data-card="read"]').focus();
  await page.keyboard.press("Enter");
  await page.locator('#envelopes[aria-current="page"]').waitFor();
  await page.locator(".envelopes .spells").first().waitFor();
  const spelled = await page.locator(".envelopes .spells").evaluateAll((pills) => pills.map((pill) => pill.firstChild.data).join(""));
  check("first: what spells a control is marked as text, and no control is", spelled === "<|im_end|><|end|><|start|>" && (await page.locator(".envelopes .spells[class*=k-]").count()) === 0, spelled);
  await page.locator("li.divider + li .pills").waitFor();
  await state(seen, "first-read");
  await page.context().close();
}

// A schema, the characters that may come while the model writes, and an answer that holds it.
export async function held(browser, urls) {
  const seen = await chatting(browser, urls.thinks);
  const { page } = seen;
  await page.locator('.begin[data-card="hold"]').click();
  await page.locator(".admitted li").first().waitFor();
  await page.evaluate(() => {
    window.lists = new Set();
    new MutationObserver(() => lists.add(document.querySelector(".admitted")?.innerText ?? "")).observe(document.querySelector(".outcome"), { childList: true, subtree: true, characterData: true });
  });
  await page.getByRole("button", { name: "Let the model answer" }).click();
  await page.getByText("A whole answer.").waitFor();
  const answer = await page.locator("#schema-answer").inputValue();
  check("held: the answer is of the schema", ["clear", "cloudy", "rain"].includes(JSON.parse(answer).sky), answer);
  check("held: what may come was shown while it wrote", (await page.evaluate("lists.size")) > 3, String(await page.evaluate("[...lists]")));
  await state(seen, "held");
  await view(page, "chat");
  check("held: it is a conversation", (await page.locator("article.answer .body").innerText()) === answer);
  await page.context().close();
}

// The third card is offered where answers outlive the server, and nowhere else.
export async function lasting(browser, urls) {
  const memory = await chatting(browser, urls.steadyMemory);
  await memory.page.locator('.begin[data-card="hold"]').waitFor();
  check("lasting: not of a server that stores in memory", (await memory.page.locator(".begin").count()) === 2);
  await memory.context.close();
  const seen = await chatting(browser, urls.steady, { viewport: { width: 390, height: 844 } });
  const { page } = seen;
  await page.locator('.begin[data-card="last"]').waitFor();
  await state(seen, "first-phone");
  await page.locator('.begin[data-card="last"]').click();
  await page.getByText("The answer goes on where it was.").waitFor();
  await page.locator("article.answer code").nth(2).waitFor();
  await state(seen, "lasting");
  await page.reload();
  await page.getByText(/Read on from event [1-9]|this page reads on from event [1-9]/).waitFor();
  await page.locator('article.answer[data-status="done"]').waitFor();
  check("lasting: what to do is said only while it writes", (await page.getByText("The answer goes on where it was.").count()) === 0);
  check("lasting: what was read late has no speed", !(await page.locator(".figures").innerText()).includes("tokens/s"), await page.locator(".figures").innerText());
  await page.context().close();
}

// Who answers, how fast and after what time; and whoever is chosen in the header.
export async function who(browser, urls) {
  const seen = await chatting(browser, urls.two);
  const { page } = seen;
  const answer = await say(page, "steady");
  check("who: the answer names its model", (await answer.locator(".who").innerText()) === "first");
  const figures = await answer.locator(".figures").innerText();
  const [, tokens, rate, first, prompt] = figures.match(/^(\d+) tokens\s*([\d.]+) tokens\/s\s*first token after ([\d.]+) (?:ms|s)\s*prompt (\d+)$/) ?? [];
  check("who: tokens as the server counts them", Number(tokens) > 7990 && Number(prompt) > 10 && Number(rate) > 100 && Number(first) > 0, figures);
  await page.getByRole("button", { name: "Model: first" }).click();
  await page.locator("#models").waitFor();
  check("who: each model with what it can do", /second.*on scripted.*tools/s.test(await page.locator("#models").innerText()), await page.locator("#models").innerText());
  await state(seen, "picker");
  await page.locator("#models button", { hasText: "second" }).click();
  await page.getByRole("button", { name: "Model: second" }).waitFor();
  check("who: the other one answers", (await (await say(page, "hello")).locator(".who").innerText()) === "second");
  await state(seen, "who");
  await page.context().close();
}

// The same question to two models, their answers side by side; the conversation goes on with the one that is chosen.
export async function compared(browser, urls) {
  const seen = await chatting(browser, urls.two);
  const { page } = seen;
  await say(page, "markdown");
  await page.getByLabel("Compare with…").selectOption("second");
  const columns = page.locator(".beside .column");
  await page.locator('.column article[data-status="done"]').nth(1).waitFor();
  check("compared: each with its model and its figures", (await columns.locator(".who").allInnerTexts()).join() === "first,second" && (await columns.locator(".figures").count()) === 2, (await columns.allInnerTexts()).join(" | "));
  const [left, right] = await columns.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().toJSON()));
  check("compared: side by side", left.top === right.top && left.right < right.left, JSON.stringify([left, right]));
  await state(seen, "compared");
  await page.setViewportSize({ width: 360, height: 700 });
  await page.emulateMedia({ colorScheme: "dark" });
  await state(seen, "compared-narrow");
  await columns.first().getByRole("button", { name: "Go on with this one" }).click();
  await page.locator(".beside").waitFor({ state: "detached" });
  check("compared: the chosen one is the conversation's", (await page.locator("article.answer .who").innerText()) === "first" && (await page.locator(".versions").innerText()).includes("1/2"));
  check("compared: the next question is for the conversation's own model", (await (await say(page, "hello")).locator(".who").innerText()) === "first");
  await page.context().close();
}

// Each sampler with what counts without it; what the engine or the API does not take is grey, and says why.
export async function samplers(browser, urls) {
  const seen = await chatting(browser, urls.two);
  const { page } = seen;
  await page.click("button.gear");
  const field = (name) => page.locator("aside").getByLabel(name, { exact: true });
  const about = async (name) => `${await field(name).getAttribute("placeholder")} ${await page.locator(`#${await field(name).getAttribute("aria-describedby")}`).innerText().catch(() => "")}`;
  check("samplers: the model's own values", (await about("Temperature")) === "0.3 of the model" && (await about("Top k")) === "7 of the model" && (await about("Top p")) === "1 default", `${await about("Temperature")}, ${await about("Top k")}, ${await about("Top p")}`);
  check("samplers: the limit", (await field("Max tokens").getAttribute("placeholder")) === "16384");
  await state(seen, "samplers");
  await field("Top k").fill("3");
  await field("Repetition penalty").fill("1.1");
  await page.getByLabel("Stop strings").fill("self\\n\nyour");
  const sent = page.waitForRequest("**/v1/responses");
  await page.click("button.gear");
  await page.fill("#message", "hello");
  await page.press("#message", "Enter");
  const { top_k, repetition_penalty, stop, temperature } = (await sent).postDataJSON();
  check("samplers: they are sent, and no others", top_k === 3 && repetition_penalty === 1.1 && JSON.stringify(stop) === '["self\\n","your"]' && temperature === undefined, JSON.stringify([top_k, repetition_penalty, stop, temperature]));
  await page.locator('article.answer[data-status="done"]').waitFor();
  check("samplers: a stop string ends the answer", (await page.locator("article.answer .body").innerText()).trim() === "Hello", await page.locator("article.answer").innerText());
  await page.getByRole("button", { name: "Model: first" }).click();
  await page.locator("#models button", { hasText: "second" }).click();
  await page.click("button.gear");
  check("samplers: what the engine does not take is grey", (await field("Seed").isDisabled()) && (await about("Min p")).endsWith("scripted does not take it") && !(await field("Top k").isDisabled()), await about("Min p"));
  await set_(page, "chat");
  check("samplers: what no engine takes stays grey", await page.getByLabel("Logit bias").isDisabled());
  await state(seen, "samplers-grey");
  await page.context().close();
}

const set_ = (page, api) => page.locator("aside").getByLabel("API").selectOption(api);

// Formulas are drawn, prices are not, and nothing of them runs; wide tables scroll, and no button lies over code.
export async function maths(browser, urls) {
  const seen = await chatting(browser, urls.main);
  const { page } = seen;
  check("maths: its library is loaded with the first formula", !seen.asked.some((url) => url.includes("temml")));
  const answer = await say(page, "maths");
  await answer.locator("math").nth(3).waitFor();
  check("maths: inline and displayed", (await answer.locator("math").count()) === 5 && (await answer.locator('math[display="block"]').count()) === 2 && (await answer.locator("mfrac").count()) === 3, `${await answer.locator("math").count()}, ${await answer.locator('math[display="block"]').count()}`);
  check("maths: prices are text", (await answer.locator(".body p").first().innerText()) === "It costs $5 and $6, or from $5,000-$6,000; echo $HOME/$USER.", await answer.locator(".body p").first().innerText());
  check("maths: nothing runs, nothing is fetched", (await page.evaluate("window.ran")) === undefined && (await answer.locator("math [href], math [style], math img, annotation-xml, img").count()) === 0 && !seen.asked.some((url) => url.includes("evil")));
  const cell = answer.locator("td", { hasText: "unbreakablewordsstaywhole" });
  check("maths: a table breaks no word, and scrolls", (await cell.evaluate((one) => one.getClientRects().length === 1 && one.offsetHeight < 45)) && (await answer.locator(".scroll").evaluate((one) => one.scrollWidth > one.clientWidth)));
  check("maths: the button is not over the code", await answer.locator(".code-block").evaluate((box) => box.querySelector("button").getBoundingClientRect().bottom <= box.querySelector("pre").getBoundingClientRect().top));
  await state(seen, "maths");
  await answer.locator(".code-block").scrollIntoViewIfNeeded();
  await page.setViewportSize({ width: 360, height: 700 });
  await page.emulateMedia({ colorScheme: "dark" });
  await state(seen, "maths-narrow");
  await page.context().close();
}

// A view before there is a question to show.
async function withoutQuestion(browser, url, name, text) {
  const seen = await chatting(browser, url);
  await view(seen.page, name);
  await seen.page.getByText(text).waitFor();
  await state(seen, `${name}-empty`);
  return seen;
}

// Wire opens with the last question, whatever the page sent of its own.
export async function wireOpens(browser, urls) {
  const seen = await withoutQuestion(browser, urls.main, "wire", "After a question this shows its request");
  const { page } = seen;
  await page.getByRole("button", { name: "Ask this question" }).click();
  await page.locator("ol.events li").nth(3).waitFor();
  for (const name of ["template", "convert", "schema", "wire"]) {
    await view(page, name);
    await page.locator(".view h2").waitFor();
  }
  const request = page.locator("pre").first();
  check("wire: the last question's request", (await request.innerText()).startsWith("POST /v1/responses") && (await request.innerText()).includes("im_end"), (await request.innerText()).slice(0, 200));
  const options = page.getByLabel("Requests").locator("option");
  check("wire: nothing of the page's own", (await options.allInnerTexts()).every((one) => one.includes("/v1/responses")), (await options.allInnerTexts()).join());
  await page.getByLabel("Also the page's own requests").check();
  check("wire: its own are there where they are wanted", (await options.allInnerTexts()).some((one) => one.includes("/v1/convert")));
  await page.context().close();
}

// Time says in plain words what was kept; of a conversation's first question there is nothing to compare.
export async function timeWords(browser, urls) {
  const seen = await withoutQuestion(browser, urls.main, "time", "After a question this shows where its time went");
  const { page } = seen;
  await view(page, "chat");
  await say(page, "hello");
  await page.getByRole("button", { name: "New conversation" }).first().click();
  await say(page, "hello there");
  await view(page, "time");
  const timing = page.locator(".timing");
  check("time: another conversation is not what came before", (await timing.innerText()).includes("This is the first question of the conversation: there was nothing to keep."), await timing.innerText());
  await view(page, "chat");
  await page.locator("article.user").getByRole("button", { name: "Edit" }).click();
  await page.locator("article.user textarea").fill("hello you");
  await page.getByRole("button", { name: "Save and send" }).click();
  await page.locator("article.user .body").getByText("hello you", { exact: true }).waitFor(); // Before that, the answer is the old one.
  await page.locator('article.answer[data-status="done"]').waitFor();
  await view(page, "time");
  check("time: an edited question is another one", (await timing.first().innerText()).includes("this is another question, or an earlier message was changed"), await timing.first().innerText());
  await view(page, "chat");
  await say(page, "bears");
  await view(page, "time");
  check("time: what went on is kept", (await timing.first().innerText()).includes("were kept: only what is new was read."), await timing.first().innerText());
  await state(seen, "time-words");
  await page.context().close();
}

// The views show what they can do before anything was asked.
export async function examples(browser, urls) {
  const seen = await chatting(browser, urls.harmony, { viewport: { width: 390, height: 844 }, reducedMotion: "reduce" });
  const { page } = seen;
  for (const [name, shown] of Object.entries({ envelopes: ".envelopes .spells", time: ".timing", wire: ".view .primary", template: ".read .card", schema: ".admitted li", convert: ".losses li", stored: ".view h2" })) {
    await view(page, name);
    await page.locator(shown).first().waitFor();
    await state(seen, `example-${name}`);
  }
  await view(page, "template");
  check("examples: a reply in the words of the format", (await page.locator(".read").innerText()).includes("functions.weather"), await page.locator(".read").innerText());
  await page.context().close();
}
