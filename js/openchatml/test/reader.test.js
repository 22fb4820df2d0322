import assert from "node:assert/strict";
import { test } from "node:test";

import { Reply, calls, harmony, project, read, resumed, shown, validate, write, writeFrame } from "../index.js";
import { FormError, YamlError, parseYaml } from "../yaml.js";

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

test("headers are YAML 1.2 with its core schema, and plain data", () => {
  assert.deepEqual(parseYaml("a: [1, {b: 'it''s'}]\nc:\n- x # comment\n- y: 1\n  z: ~\n"), {
    a: [1, { b: "it's" }],
    c: ["x", { y: 1, z: null }],
  });
  assert.deepEqual(
    parseYaml('a: |\n  one\n   two\n\nb: >-\n  one\n  two\nc: one\n  two\nd: "one\n\n  two\\\n  three"\n'),
    {
      a: "one\n two\n",
      b: "one two",
      c: "one two",
      d: "one\ntwothree",
    },
  );
  assert.deepEqual(parseYaml("[no, On, 012, 0o17, 0x1F, 1e3, .5, 12:30, 1_000, ~, 'null', 2025-01-01]"), [
    ...["no", "On", 12, 15, 31, 1000, 0.5, "12:30", "1_000", null, "null", "2025-01-01"],
  ]);
  for (const text of ["a: [1", "\ta: 1", "a: b: c", "- a\nb: 1", 'a: "b', "a: @b", "a\nb: 1"])
    assert.throws(() => parseYaml(text), YamlError, text);
  for (const text of [
    "a: 1\na: 2",
    "a: &x 1",
    "a: *x",
    "a: !!str 1",
    "[a]: 1",
    `a: ${"[".repeat(16)}${"]".repeat(16)}`,
  ])
    assert.throws(() => parseYaml(text), FormError, text);
});

test("an error has its column, in characters, and a hint", () => {
  const { errors } = read("version: 2.2\n<|start|>user name=😀 <|channel|>finl<|message|>x<|end|>");
  assert.deepEqual(
    errors.map(({ line, column, hint }) => [line, column, hint]),
    [
      [2, 20, "A value is visible ASCII without controls; other characters are percent-encoded."],
      [2, 33, "Did you mean final? analysis, commentary or final."],
    ],
  );
});

const declaring = (tools, to, body) =>
  `version: 2.2\n<|start|>developer<|message|># Tools\n## functions\n${tools}\n<|end|>\n` +
  `<|start|>assistant to=functions.${to} call_id=c1<|channel|>commentary<|constrain|>json<|message|>${body}<|call|>`;
const said = (...call) => validate(declaring(...call)).map(({ message, warning }) => (warning ? "! " : "") + message);

test("a call has the arguments that its tool is declared with, in types or in JSON", () => {
  const types = `// The weather.
type f = (_: {
  city: string, // where
  unit?: "c" | "f", // default: c
  days?: Array<integer | null>; [key: string]: any
}) => any;
type g = () => any;`;
  const schema = { required: ["city"], properties: { city: { type: "string" }, unit: { enum: ["c", "f"] } } };
  schema.properties.days = { items: { type: ["integer", "null"] } };
  const json = `${JSON.stringify({ name: "functions.f", parameters: schema })}\n{"function": {"name": "g"}}`;
  for (const tools of [types, json]) {
    assert.deepEqual(said(tools, "f", '{"city": "Rome", "unit": "f", "days": [1, null], "deadline_ms": 5}'), []);
    assert.deepEqual(said(tools, "f", "{}"), ['functions.f is not what its required says, ["city"]']);
    assert.deepEqual(said(tools, "f", '{"city": 1}'), ['functions.f.city is not what its type says, "string"']);
    assert.match(said(tools, "f", '{"city": "a", "days": [1.5]}')[0], /^functions\.f\.days\[0\] is not what its type/);
    assert.match(said(tools, "f", '{"city": "a", "unit": "k"}')[0], /^functions\.f\.unit is not what its enum says/);
    assert.deepEqual(said(tools, "f", '{"deadline_ms": 0}'), ["deadline_ms is not a positive whole number"]);
    assert.deepEqual(said(tools, "g", '{"a": 1}'), ["functions.g takes no arguments"]);
    assert.deepEqual(said(tools, "h", "{}"), ["functions.h is not declared"]);
  }
});

test("a declaration that is not read, or cannot be checked in time, is a warning", () => {
  const unread = "! the arguments of functions.f are declared in a way that is not read: Map is no type that is read";
  assert.deepEqual(said("type f = (_: Map<string>) => any;", "f", '{"a": 1}'), [unread]);
  assert.match(said(`type f = (_: string | null${"[]".repeat(20_000)}) => any;`, "f", "{}")[0], /^! the schema of/);
  const twice = (name) => ({ allOf: [{ $ref: `#/$defs/${name}` }, { $ref: `#/$defs/${name}` }] });
  const doubled = Array.from({ length: 40 }, (_, i) => [`d${i}`, twice(`d${i + 1}`)]);
  for (const parameters of [
    { $ref: "http://127.0.0.1:9/schema" },
    { $ref: "#/$defs/%" },
    { pattern: "(a+)+$" },
    { type: "strng" },
    { $defs: { ...Object.fromEntries(doubled), d40: true }, $ref: "#/$defs/d0" },
  ]) {
    const [message, ...more] = said(JSON.stringify({ name: "f", parameters }), "f", "{}");
    assert.match(message, /^! the schema of functions\.f cannot be used: /);
    assert.deepEqual(more, []);
  }
});

test("validate gives errors and warnings in the text's order", () => {
  const text = "version: 2.2\n<|start|>user<|message|>a<|return|>\n<|start|>bob<|message|>b<|end|>";
  assert.deepEqual(
    validate(text).map(({ line, warning = false }) => [line, warning]),
    [
      [2, true],
      [3, false],
    ],
  );
});

test("what is written reads as it was, whatever its texts hold", () => {
  const words = [
    "<|end|>",
    "<<|start|>",
    "<",
    "<<",
    "<|literal|>",
    "<|endliteral|>",
    "é😀",
    "\n",
    "---",
    "\udc80",
    "%",
    "<|",
    "a",
  ];
  for (let n = 0; n < 400; n++) {
    const body = [n % 13, Math.floor(n / 13) % 13, (n * 7) % 13].map((i) => words[i]).join("");
    const name = body.replaceAll("\udc80", "") || "x";
    const frames = [
      { role: "user", name, channel: null, body, end: "end" },
      {
        role: "assistant",
        to: "functions.f",
        call_id: `c ${n}`,
        channel: "commentary",
        constrain: "json",
        body: "{}",
        end: "call",
      },
      {
        role: "tool",
        name: "functions.f",
        call_id: `c ${n}`,
        to: "assistant",
        channel: "commentary",
        body,
        end: "end",
      },
      { role: "assistant", channel: "final", intent: null, body, end: "return" },
    ];
    const header = { version: "2.10", [name]: [name, 1.5, { no: null, key: ["yes", -Infinity] }] };
    const found = read(write({ header, frames }));
    assert.deepEqual([found.errors, found.header], [[], header]);
    frames.forEach(({ channel, ...rest }, i) => {
      for (const [key, value] of Object.entries(rest))
        assert.equal(found.frames[i][key], value, JSON.stringify([key, body]));
      assert.equal(found.frames[i].hasChannel, channel !== null);
    });
  }
});

test("what was read is written, and reads the same", () => {
  const { header, frames } = read(CHAT);
  const again = read(write({ header, frames }));
  const keys = ["role", "to", "call_id", "name", "channel", "constrain", "body", "end"];
  const bare = (frame) => keys.map((key) => frame[key]);
  assert.deepEqual([again.valid, again.header, again.frames.map(bare)], [true, header, frames.map(bare)]);
});

test("what no transcript can say is refused", () => {
  for (const frame of [
    { role: "bob" },
    { role: "user", name: "" },
    { role: "user", name: "\udc80" },
    { role: "user", channel: "odd" },
    { role: "user", end: "done" },
    { role: "user", intent: "joke" },
  ])
    assert.throws(() => writeFrame(frame), TypeError, JSON.stringify(frame));
  for (const frames of [
    [{ role: "assistant", to: "functions.f", channel: "commentary", body: "{}", end: "call" }],
    [{ role: "tool", name: "functions.f", call_id: "c1", channel: "commentary" }],
    [{ role: "user", end: null }, { role: "user" }],
    [{ role: "user", constrain: "json", body: "{" }],
  ])
    assert.throws(() => write({ frames }), TypeError, JSON.stringify(frames));
  assert.throws(() => write({ header: {} }), TypeError);
  assert.match(write({ frames: [{ role: "assistant", body: "half", end: null }] }), /half$/);
});

test("a paragraph ends with a flush, and markers of reflection are not shown, wherever the text is cut", () => {
  const text = "<|channel|>final<|message|>One.\n\n<|start_reflect|>Two<|x|>.<|return|>";
  for (let cut = 0; cut <= text.length; cut++) {
    const reply = new Reply("r");
    const events = [text.slice(0, cut), text.slice(cut)].flatMap((piece) => reply.feed(piece)).concat(reply.close());
    const told = events.map(({ type, delta }) => delta ?? `(${type.split(".").at(-1)})`).join("");
    assert.equal(told, "One.\n\n(flush)Two<|x|>.(flush)(done)", `${cut}`);
  }
});

const DEEP = "[".repeat(9000);
const BODIES = {
  json: {
    right: ["[1]", "{}", '"\\u00e9"', " null ", "-0.5e+1", DEEP + "]".repeat(9000)],
    wrong: ["", "[1,]", "{a: 1}", "NaN", "01", "1 2", '"\n"', DEEP],
  },
  yaml: {
    right: ["a: &x [1]\nb: *x", "", "--- !!str a\n--- b\n", "%YAML 1.2\n---\na"],
    wrong: ["a: [", "\tb: 1", "a: b: c", "{a b: c", "- a\nb"],
  },
  toml: {
    right: ["a = 1", "", "[a]\nb.c = [1, 2,]\n[[d]]\n[[d]]\n[d.e]", "a = '''\nx'''", "t = 1979-05-27T07:32:00Z"].concat(
      ["x = {a = 1, b.c = 2}", "f = 6.626e-34", "h = 0xDEAD_beef", 'a = """\n"x" """'],
    ),
    wrong: ["a =", "a = 1\na = 2", "[a]\n[a]", "a = 01", "a = {b = 1,}", 'a = "\\x"', "a 1", "a = 1 b = 2"].concat([
      "[[a]]\n[a]",
      "a = 1\n[a.b]",
      "a = {}\na.b = 1",
      "[a.b]\n[a]\nb.c = 1",
    ]),
  },
  xml: {
    right: ["<a/>", "<é:b/>", `<?xml version="1.0"?><a b="c" d='e'>x &amp; <![CDATA[<]]><b/><!-- c --><?p q?></a>\n`],
    wrong: ["", "<a>", "<a></b>", "<a/><b/>", "<a b=c/>", "<a b='1' b='2'/>", "a<a/>", "<a>&x;</a>"].concat([
      "<!DOCTYPE a><a/>",
      "<a><!-- -- --></a>",
      "<a>]]></a>",
    ]),
  },
};

for (const [type, { right, wrong }] of Object.entries(BODIES))
  test(`a body behind a type is ${type}`, () => {
    const isValid = (body) => read(`version: 2.2\n<|start|>user<|constrain|>${type}<|message|>${body}<|end|>`).valid;
    assert.deepEqual(
      right.filter((body) => !isValid(body)),
      [],
    );
    assert.deepEqual(wrong.filter(isValid), []);
  });
