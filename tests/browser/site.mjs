// node site.mjs CHROMIUM FOLDER URL [NAMES]: every page of the documentation, or those, light and dark, 360 px and wide.
import { check, failures, open, state, visit } from "./kit.mjs";

const [chromium, folder, url, only = ""] = process.argv.slice(2);
const browser = await open(chromium, folder);
const LOOKS = [
  { colorScheme: "light", viewport: { width: 1280, height: 800 } },
  { colorScheme: "dark", viewport: { width: 360, height: 700 } },
  { colorScheme: "dark", viewport: { width: 1280, height: 800 }, few: 4 },
];

// The policy is off for axe, which is a script of ours; `searched` looks at the policy.
async function looked({ few, ...look }, all) {
  const names = all.slice(0, few);
  const seen = await visit(browser, url, { ...look, bypassCSP: true, reducedMotion: "reduce" });
  for (const name of names) {
    await seen.page.goto(url + name);
    await state(seen, `${name.replace(".html", "")}-${look.colorScheme}-${look.viewport.width}`);
  }
  check(`${look.colorScheme}: only its own origin`, seen.asked.every((address) => address.startsWith(url) || address.startsWith("data:")), seen.asked.find((address) => !address.startsWith(url)));
  await seen.page.context().close();
}

async function searched() {
  const seen = await visit(browser, url, { viewport: { width: 1280, height: 800 } });
  const { page } = seen;
  page.setDefaultTimeout(120_000);
  await page.getByRole("button", { name: "Search" }).first().click();
  await page.locator("input:not([type=checkbox]):not([type=radio])").fill("constrained");
  await page.getByText(/^[1-9]\d* results/).waitFor();
  await page.screenshot({ path: `${folder}/search.png` });
  await page.keyboard.press("Escape");
  await page.goto(`${url}api.html`);
  const violations = await page.evaluate("window.violations");
  check("the policy is kept", violations.length === 0, violations.join(", "));
  check("no error", seen.errors.length === 0, seen.errors.join(", "));
  await page.context().close();
}

const names = await (await fetch(`${url}llms.txt`)).text();
const pages = [...names.matchAll(/\]\(([\w.-]+)\.md\)/g)].map((found) => `${found[1]}.html`);
check("pages are listed", pages.length > 30, `${pages.length}`);
await searched();
for (const look of LOOKS) await looked(look, only ? only.split(",").map((name) => `${name}.html`) : pages);
await browser.browser.close();
console.log(failures.length ? `${failures.length} failures` : `${only || `${pages.length} pages`}, light and dark: no violation; screenshots in ${folder}`);
process.exit(failures.length ? 1 : 0);
