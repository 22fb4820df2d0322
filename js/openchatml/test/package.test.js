import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import * as openchatml from "../index.js";

const HERE = new URL("..", import.meta.url);
const TSC = new URL("node_modules/typescript/bin/tsc", HERE);
const text = (name) => readFileSync(new URL(name, HERE), "utf8");

test("the types name what the package has, and nothing else", () => {
  const declared = [...text("index.d.ts").matchAll(/^export (?:function|class) (\w+)/gm)].map((found) => found[1]);
  assert.deepEqual(declared.sort(), Object.keys(openchatml).sort());
});

test("the types are what TypeScript takes", { skip: !existsSync(TSC) && "npm install brings TypeScript" }, () => {
  const words = ["--noEmit", "--strict", "--module", "nodenext", "--lib", "es2024,dom", "types.check.ts"];
  execFileSync(process.execPath, [fileURLToPath(TSC), ...words], { cwd: HERE, stdio: "pipe" });
});

test("what is packed is the package, its types and its page", () => {
  const [{ files }] = JSON.parse(execFileSync("npm", ["pack", "--dry-run", "--json"], { cwd: HERE, stdio: "pipe" }));
  const packed = files.map(({ path }) => path);
  const imported = packed.flatMap((path) =>
    path.endsWith(".js") ? [...text(path).matchAll(/ from "\.\/([\w.-]+)"/g)].map((found) => found[1]) : [],
  );
  assert.deepEqual(new Set(imported).difference?.(new Set(packed)) ?? new Set(), new Set());
  for (const name of ["index.js", "index.d.ts", "README.md", "package.json"]) assert.ok(packed.includes(name), name);
  assert.deepEqual(
    packed.filter((path) => path.startsWith("test/") || path.startsWith("node_modules/")),
    [],
  );
});

test("the page's example runs", () => {
  const [, example] = /```js\n([^]*?)```/.exec(text("README.md"));
  const folder = mkdtempSync(join(tmpdir(), "openchatml-"));
  const transcript = "version: 2.2\n<|start|>user<|message|>Hi<|end|>\n<|start|>bob<|message|>x<|end|>";
  const program = example.replace('"openchatml-reader"', JSON.stringify(new URL("index.js", HERE).href));
  writeFileSync(join(folder, "example.mjs"), `const text = ${JSON.stringify(transcript)};\n${program}`);
  const lines = execFileSync(process.execPath, ["example.mjs"], { cwd: folder, encoding: "utf8" }).split("\n");
  rmSync(folder, { recursive: true });
  assert.equal(lines[0], "[ 'Hi', { code: 'E-PERM-VISIBILITY' } ]");
  assert.match(lines[1], /^3 10 E-PARSE-HEADER unknown role 'bob' /);
  assert.equal(
    lines.slice(2, 6).join("\n"),
    '---\nversion: "2.2"\n---\n<|start|>user<|message|>What is <<|end|>?<|end|>',
  );
  assert.deepEqual(lines.slice(7, 10), ["response.delta", "response.delta.flush", "response.done"]);
});
