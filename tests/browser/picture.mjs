// node picture.mjs CHROMIUM FOLDER URL: frames of the playground at work, NNN-MILLISECONDS.png each.
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";

const [executablePath, folder, url] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const page = await browser.newPage({ viewport: { width: 900, height: 560 }, locale: "en-US", colorScheme: "light" });
let number = 0;
async function frame(milliseconds) {
  await page.screenshot({ path: `${folder}/${String(number++).padStart(3, "0")}-${milliseconds}.png` });
}

const QUESTION = "What is the capital of Japan?";
await page.goto(url);
await page.waitForSelector("#message");
await frame(300);
for (let end = 6; end < QUESTION.length + 6; end += 6) {
  await page.fill("#message", QUESTION.slice(0, end));
  await frame(70);
}
await page.press("#message", "Enter");
const done = page.waitForSelector('article.answer[data-status="done"]').then(() => true);
while (!(await Promise.race([done, new Promise((resolve) => setTimeout(resolve, 60, false))]))) await frame(80);
await frame(900);
for (const view of ["envelopes", "time", "wire"]) {
  await page.click(`#${view}`);
  await page.waitForTimeout(300);
  await frame(1000);
}
await browser.close();
