// How fast the page is, by the browser's own tracing: the processor time of its main thread, which other programs of a busy
// machine do not add to.
import { check, conversationOf, say, visit } from "./kit.mjs";

const PAINT = 300; // Milliseconds.
const TASK = 50;
const TRIES = 3;
const CATEGORIES = ["__metadata", "toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline", "blink.user_timing", "loading"];

// The tasks of the main threads of a trace's pages: when each ended in microseconds, and its times in ms. (A task of which the
// system gave no processor time counts with the time on the clock.)
function tasksOf(events) {
  const mains = new Set(events.filter((one) => one.name === "thread_name" && one.args.name === "CrRendererMain").map((one) => `${one.pid}/${one.tid}`));
  const tasks = events.filter((one) => /RunTask$/.test(one.name) && one.ph === "X" && mains.has(`${one.pid}/${one.tid}`));
  return tasks.map((one) => ({ pid: one.pid, end: one.ts + one.dur, cpu: (one.tdur ?? one.dur) / 1000, wall: one.dur / 1000, timed: one.tdur !== undefined }));
}

async function traced(browser, page, work) {
  await browser.startTracing(page, { categories: CATEGORIES });
  await work();
  return JSON.parse((await browser.stopTracing()).toString()).traceEvents;
}

const longest = (tasks, of) => Math.max(0, ...tasks.map((one) => one[of]));
const sum = (tasks) => tasks.reduce((all, one) => all + one.cpu, 0);
const ms = (number) => `${number.toFixed(0)} ms`;

// Tries until the middle one of three is known.
async function middle(name, most, measure) {
  const figures = [];
  while (figures.length < TRIES) {
    figures.push(await measure());
    const good = figures.filter((one) => one <= most).length;
    if (good > TRIES / 2 || figures.length - good > TRIES / 2 || (figures.length === 1 && good)) break;
  }
  const sorted = [...figures].sort((one, other) => one - other);
  const found = sorted[Math.floor(sorted.length / 2)];
  check(name, found <= most, `${figures.map(ms).join(", ")}, at most ${most} ms`);
  return found;
}

export async function paint(browser, url) {
  await middle("first paint", PAINT, async () => {
    const seen = await visit(browser, "about:blank");
    const events = await traced(browser.browser, seen.page, async () => {
      await seen.page.goto(url);
      await seen.page.waitForSelector("#message");
    });
    const painted = events.filter((one) => one.name === "firstContentfulPaint").at(-1);
    const own = sum(tasksOf(events).filter((one) => one.pid === painted.pid && one.end <= painted.ts));
    const clock = await seen.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime");
    console.log(`first paint: ${ms(own)} of processor time (${ms(clock)} on the clock)`);
    await seen.page.context().close();
    return own;
  });
}

// 2,000 steps of an answer, a hundred a second, below a conversation of so many messages.
export async function streaming(browser, url, messages) {
  await middle(`no long task with ${messages} messages before`, TASK, async () => {
    const seen = await visit(browser, url);
    const { page } = seen;
    await page.waitForSelector("#message");
    if (messages) await conversationOf(page, messages);
    await page.evaluate("window.long = []; new PerformanceObserver((list) => long.push(...list.getEntries().map((one) => one.duration))).observe({ type: 'longtask' });");
    const tasks = tasksOf(await traced(browser.browser, page, () => say(page, "steady")));
    const observed = await page.evaluate("long");
    console.log(`2,000 tokens below ${messages} messages: longest task ${ms(longest(tasks, "cpu"))} of processor time (${ms(longest(tasks, "wall"))} on the clock), ${ms(sum(tasks))} in all; long tasks by the clock: ${observed.length}; thread times of ${tasks.filter((one) => one.timed).length} of ${tasks.length}`);
    await page.context().close();
    return longest(tasks, "cpu");
  });
}

// A conversation of so many messages, opened from another one after the page was loaded anew: the work of it, and the memory.
export async function opening(browser, url, messages) {
  await middle(`${messages} messages are opened`, 2 * TASK, async () => {
    const seen = await visit(browser, url);
    const { page, context } = seen;
    await page.waitForSelector("#message");
    await conversationOf(page, messages, (place) => `Message ${place}: ${"some **words** of a usual length, and `code`. ".repeat(10)}`);
    await page.getByRole("button", { name: "New conversation" }).first().click();
    await say(page, "hello");
    await page.reload();
    await page.getByText("Hello yourself.").waitFor();
    const session = await context.newCDPSession(page);
    const heap = async () => {
      await session.send("HeapProfiler.collectGarbage");
      return ((await session.send("Runtime.getHeapUsage")).usedSize / 1e6).toFixed(1);
    };
    const before = await heap();
    const tasks = tasksOf(await traced(browser.browser, page, async () => {
      await page.getByRole("button", { name: "Long", exact: true }).click();
      await page.getByText(`Message ${messages - 1}:`).waitFor();
    }));
    console.log(`${messages} messages: opened in ${ms(sum(tasks))} of processor time, the longest task ${ms(longest(tasks, "cpu"))}; heap ${before} MB before, ${await heap()} MB with them`);
    await context.close();
    return longest(tasks, "cpu");
  });
}
