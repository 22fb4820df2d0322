#!/usr/bin/env node
// Speaks the protocol of the compliance suite: a transcript on stdin and flags as words; with --lines, a request a line.

import { createInterface } from "node:readline";
import { buffer } from "node:stream/consumers";

import { report } from "./report.js";

async function main(words) {
  if (words[0] !== "--lines") {
    console.log(JSON.stringify(report(await buffer(process.stdin), words)));
    return;
  }
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    process.stdout.write(`${JSON.stringify(report(Buffer.from(request.base64, "base64"), request.flags))}\n`);
  }
}

await main(process.argv.slice(2));
