// What every script of Node says: a line a step, and whether all of them passed. It lies beside the script's packages.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const base = process.env.ANTIPHON_URL;
export const url = `${base}/v1`;
export const [chat, thinker, embedder] = process.env.ANTIPHON_MODELS.split(" ");
export const obedient = Boolean(process.env.ANTIPHON_OBEDIENT);
/** What `antiphon connect` prints for the client, where it knows it; its file is written. */
export const connection = JSON.parse(process.env.ANTIPHON_CONNECTION || "{}");
Object.assign(process.env, connection.environment);
/** Tokens of an answer. A byte is one to the obedient model; another may talk until it is cut. */
export const most = obedient ? 300 : 40;
export const morning = "say: Good morning.";
export const order = 'call: weather {"city": "Bern"}';
/** All that a typed answer may name: a model that rambles comes to an end. */
export const cities = ["Bern", "Basel"];
export const place = 'say: {"city": "Bern", "size": "small"}';

/** The obedient model said just this; another said something. */
export function expectText(text, expected) {
  if (obedient) assert.equal(text.trim(), expected);
  else assert.ok(text.length > 0);
}

/** Announces answers that are errors; any other is a finding, though the client lives with it. `*`: any number. */
export function expects(status, path, times = 1) {
  console.log("expects", status, path, times);
}

export async function joined(parts, read = (part) => part) {
  let text = "";
  for await (const part of parts) text += read(part) ?? "";
  return text;
}

/** A folder of its own. */
export const folder = () => mkdtempSync(join(tmpdir(), "client-"));

/** Runs a program of the script's packages in a folder, which is its home, too: `stdout`, `stderr`, a `code` if it failed. */
export async function run(program, words, home, settings = {}, input = "") {
  const path = fileURLToPath(new URL(`node_modules/.bin/${program}`, import.meta.url));
  const env = {
    PATH: dirname(process.execPath) + delimiter + process.env.PATH, HOME: home, NO_PROXY: "127.0.0.1", ...settings,
  };
  const running = promisify(execFile)(path, words, { cwd: home, env, timeout: 300_000, maxBuffer: 2 ** 26 });
  running.child.stdin.end(input);
  return running.catch((error) => error);
}

/** A note in a folder of its own, and the plan of an agent that is to change it: each tool by name, with its arguments. */
export function note(tools) {
  const home = folder();
  const path = join(home, "note.txt");
  writeFileSync(path, "The word is marzipan.\n");
  const calls = tools(path).map(([name, input]) => `call ${name} ${JSON.stringify(input)}`);
  return { home, path, plan: `plan: ${calls.join(" ;; ")} ;; say It is done.` };
}

/** The whole plan was done, and the agent said so. */
export function expectEdited({ path }, { stdout, stderr }) {
  assert.equal(readFileSync(path, "utf8"), "The word is nougat.\n", stdout + stderr);
  assert.match(stdout, /It is done\./, stderr);
}

/** Runs the steps one after the other, and says what of the first package was tried. */
export async function report(steps, name) {
  for (const [step, check] of Object.entries(steps)) {
    try {
      await check();
      console.log("ok", step);
    } catch (error) {
      console.error(error);
      console.log("failed", step);
      process.exitCode = 1;
    }
  }
  const file = new URL(`node_modules/${name}/package.json`, import.meta.url);
  console.log("version", name, JSON.parse(readFileSync(file)).version, "on Node", process.versions.node);
}
