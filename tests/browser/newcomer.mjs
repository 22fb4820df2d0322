// node newcomer.mjs CHROMIUM URL: a question in the playground; ends when the answer is there, and prints it.
import { chromium } from "playwright-core";

const [executablePath, url] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const page = await browser.newPage();
page.setDefaultTimeout(120_000);
await page.goto(url);
await page.fill("#message", "What is the capital of Japan?");
await page.press("#message", "Enter");
await page.waitForSelector('article.answer[data-status="done"]');
console.log(await page.locator("article.answer").innerText());
await browser.close();
