// node gate.mjs CHROMIUM < {"job": "foreign", "own" or "named", "page", "base", "named", "tries": [{path, method, body}]}
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const given = JSON.parse(readFileSync(0, "utf8"));
const browser = await chromium.launch({ executablePath: process.argv[2], args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const page = await (await browser.newContext()).newPage();
page.setDefaultTimeout(60_000);
const wrong = [];

// In a page: every way in which a page makes a browser send something to `base`.
async function everything({ base, tries }) {
  const settled = [];
  const body = document.body;
  const within = (promise) => Promise.race([promise, new Promise((done) => setTimeout(done, 1500))]);
  const loaded = (element) => within(new Promise((done) => {
    element.onload = element.onerror = done;
    body.append(element);
  }));
  const made = (tag, fields) => Object.assign(document.createElement(tag), fields);
  let frames = 0, count = 0;
  const form = (url, method, enctype, text) => {
    const frame = made("iframe", { name: `frame${(frames += 1)}` });
    body.append(frame);
    const sent = within(new Promise((done) => { frame.onload = done; }));
    const [name, value] = enctype === "text/plain" ? [text.slice(0, -1) + ',"x":"', '"}'] : ["file", text];
    const element = made("form", { action: url, method, enctype, target: frame.name });
    element.append(enctype === "multipart/form-data" && method === "POST" ? upload(text) : made("input", { name, value }));
    body.append(element);
    element.submit();
    return sent.finally(() => { frame.remove(); element.remove(); });
  };
  const upload = (text) => {
    const files = new DataTransfer();
    files.items.add(new File([text], "a.jsonl"));
    return made("input", { type: "file", name: "file", files: files.files });
  };
  for (const { path, method, body: text } of tries) {
    const url = base + path;
    const untyped = new Blob([text]);
    const reads = method === "GET";
    const send = (options) => settled.push(within(fetch(url, options).then((answer) => {
      if (answer.type !== "opaque") throw new Error(`${options.method} ${path} could be read: ${answer.status}`);
    }, () => {})));
    for (const mode of ["cors", "no-cors"]) {
      if (reads) send({ method, mode });
      send({ method: "POST", mode, body: untyped });
      send({ method: "POST", mode, body: text });
      send({ method: "POST", mode, body: new URLSearchParams({ a: text }), credentials: "include" });
    }
    send({ method, mode: "cors", headers: { "content-type": "application/json" }, ...(reads ? {} : { body: text }) });
    navigator.sendBeacon(url, untyped);
    for (const enctype of ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"]) settled.push(form(url, "POST", enctype, text));
    settled.push(form(url, "GET", "application/x-www-form-urlencoded", text));
    settled.push(loaded(made("img", { src: url })), loaded(made("script", { src: url })), loaded(made("script", { src: url, type: "module" })));
    settled.push(loaded(made("link", { href: url, rel: "stylesheet" })), loaded(made("iframe", { src: url })), loaded(made("video", { src: url })));
    const events = new EventSource(url);
    settled.push(within(new Promise((done) => { events.onerror = events.onmessage = done; })).finally(() => events.close()));
    settled.push(within(new Promise((done, fail) => {
      const socket = new WebSocket(url.replace("http", "ws"));
      socket.onopen = () => fail(new Error(`${path} opened a socket`));
      socket.onerror = done;
    })));
    if ((count += 1) % 6 === 0) await Promise.allSettled(settled.slice(-60));
  }
  const sandboxed = made("iframe", { srcdoc: `<script>for (const one of ${JSON.stringify(tries)}) fetch("${base}" + one.path, { method: "POST", mode: "no-cors", body: new Blob([one.body]) })</script>` });
  sandboxed.sandbox = "allow-scripts";
  settled.push(loaded(sandboxed));
  const results = await Promise.allSettled(settled);
  await new Promise((done) => setTimeout(done, 500));
  return results.filter((one) => one.status === "rejected").map((one) => String(one.reason));
}

const jobs = {
  async foreign() {
    await page.goto(given.page);
    wrong.push(...(await page.evaluate(everything, { base: given.base, tries: given.tries })));
  },
  // The server's own page works, by its address and by a link of another site.
  async own() {
    await page.goto(given.page);
    await page.evaluate((base) => { document.body.innerHTML = `<a href="${base}/">open</a>`; }, given.base);
    await page.click("a");
    await page.waitForSelector("#message");
    await page.fill("#message", "hello");
    await page.press("#message", "Enter");
    await page.getByText("Hello yourself.").waitFor();
    await page.goto(`${given.base}/playground`);
    await page.waitForSelector("#message");
  },
  // A page that is named may send, read, and call the tools.
  async named() {
    await page.goto(given.page);
    const answer = await page.evaluate(async (base) => {
      const body = JSON.stringify({ messages: [{ role: "user", content: "the weather" }], server_tools: ["weather"] });
      const got = await fetch(`${base}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json", authorization: "Bearer any" }, body });
      return [got.status, got.headers.get("x-request-id")];
    }, given.named);
    if (answer[0] !== 200 || !answer[1]) wrong.push(`the named page got ${answer}`);
  },
};
await jobs[given.job]();
await browser.close();
for (const one of wrong) console.log(`FAILED  ${one}`);
process.exit(wrong.length ? 1 : 0);
