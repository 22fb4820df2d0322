import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { Reply, calls, harmony, project, read, resumed, shown } from "../index.js";
import { report } from "../report.js";
import { Malformed, Unsupported, parseYaml } from "../yaml.js";

const SUITE = new URL("../../../tests/spec/openchatml/", import.meta.url);
const CHAT = `version: 2.2
model: m
<|start|>user<|message|>What is 2 + 2?<|end|>
<|start|>assistant<|channel|>analysis<|message|>Simple.<|end|>
<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json<|message|>{"x":1,"deadline_ms":5}<|call|>
<|start|>tool name=functions.f call_id=c1 to=assistant<|channel|>commentary<|message|>{"ok":true}<|end|>
<|start|>assistant<|channel|>final<|message|>4.<|return|>
`;

test("a transcript is a header and frames", () => {
  const { valid, header, frames } = read(CHAT);
  assert.equal(valid, true);
  assert.deepEqual(header, { version: "2.2", model: "m" });
  assert.deepEqual(
    frames.map(({ role, channel, end }) => [role, channel, end]),
    [
      ["user", "final", "end"],
      ["assistant", "analysis", "end"],
      ["assistant", "commentary", "call"],
      ["tool", "commentary", "end"],
      ["assistant", "final", "return"],
    ],
  );
});

test("what is wrong has a code and a line, and the rest is read", () => {
  const { valid, errors, frames } = read(
    `version: 2.2\n<|start|>user<|message|>a<|end|>\n<|start|>bob<|message|>b<|end|>\n<|start|>user<|message|>c`,
  );
  assert.equal(valid, false);
  assert.deepEqual(
    errors.map(({ code, line }) => [code, line]),
    [
      ["E-PARSE-HEADER", 3],
      ["E-STREAM-TRUNCATED", 4],
    ],
  );
  assert.deepEqual(
    frames.map(({ body }) => body),
    ["a", "b", "c"],
  );
});

test("cut anywhere, a transcript reads the same", () => {
  const whole = read(CHAT);
  for (let cut = 0; cut <= CHAT.length; cut++) assert.deepEqual(read([CHAT.slice(0, cut), CHAT.slice(cut)]), whole);
});

test("bytes that are not UTF-8 have their place in literal blocks alone", () => {
  const bytes = (text) => Uint8Array.from(Buffer.from(text, "latin1"));
  assert.equal(read(bytes("version: 2.2\n<|start|>user<|message|><|literal|>\xff<|endliteral|><|end|>")).valid, true);
  assert.equal(read(bytes("version: 2.2\n<|start|>user<|message|>\xff<|end|>")).valid, false);
});

test("views: who sees what, the next prompt, calls, Harmony, JSON", () => {
  const { frames } = read(CHAT);
  const hidden = { code: "E-PERM-VISIBILITY" };
  assert.deepEqual(frames.map(shown), ["What is 2 + 2?", hidden, hidden, hidden, "4."]);
  assert.deepEqual(resumed(frames), [0, 2, 3, 4]);
  assert.deepEqual(calls(frames), [
    { call_id: "c1", to: "functions.f", arguments: { x: 1 }, deadline_ms: 5, reply: 3 },
  ]);
  assert.deepEqual(
    harmony(frames).map(({ channel }) => channel),
    [null, "analysis", "commentary", "commentary", "final"],
  );
  assert.equal(project(frames[1]).thinking, "Simple.");
  assert.equal(project(frames[2]).tool_call.recipient, "functions.f");
});

test("a reply streams its answer and nothing else", () => {
  const reply = new Reply("r");
  const text =
    "<|channel|>analysis<|message|>no<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>behind";
  const events = [...text].flatMap((letter) => reply.feed(letter)).concat(reply.close());
  const deltas = events.filter(({ type }) => type === "response.delta").map(({ delta }) => delta);
  assert.equal(deltas.join(""), "yes");
  assert.equal(events.at(-1).type, "response.done");
  assert.deepEqual(
    events.map(({ seq }) => seq),
    events.map((_, i) => i),
  );
});

test("headers are a part of YAML; the rest is named", () => {
  assert.deepEqual(parseYaml("a: [1, {b: 'it''s'}]\nc:\n- x # comment\n- y: 1\n  z: ~\n"), {
    a: [1, { b: "it's" }],
    c: ["x", { y: 1, z: null }],
  });
  for (const text of ["a: |\n  text", "a: one\n  two", 'a: "one\n  two"'])
    assert.throws(() => parseYaml(text), Unsupported);
  for (const text of ["a: [1", "a: 1\na: 2", "a: &x 1", "\ta: 1", "a: b: c", "- a\nb: 1", "a: !!str 1"])
    assert.throws(() => parseYaml(text), Malformed);
});

test("the suite's first level: what is valid, and which code is first", () => {
  for (const name of readdirSync(SUITE).filter((file) => file.endsWith(".json"))) {
    for (const { id, transcript, flags = [], specification = {} } of JSON.parse(
      readFileSync(new URL(name, SUITE), "utf8"),
    )) {
      if (!("valid" in specification)) continue;
      const found = report(Buffer.from(transcript), flags);
      assert.equal(found.valid, specification.valid, id);
      assert.equal(found.errors[0]?.code, specification.error?.code ?? found.errors[0]?.code, id);
    }
  }
});
