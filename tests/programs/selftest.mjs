#!/usr/bin/env node
// Proves the test programs: the real CLI against the stand-in API, the fake CLI by the same cases where they share them,
// and each fault of the fake CLI by what a host sees of it.
//
// usage: selftest.mjs [real|fake|all] [part of a case's name]
import { claudePath } from "../../web-test/claude-path.mjs";
import { common } from "./selftest/common.mjs";
import { Api, Bench } from "./selftest/driver.mjs";
import { faults } from "./selftest/faults.mjs";
import { real } from "./selftest/real.mjs";

async function runCases(kind, cases, api, filter) {
  let failed = 0;
  for (const [name, run] of Object.entries(cases)) {
    if (filter && !name.includes(filter)) continue;
    const bench = new Bench(kind, api);
    const began = Date.now();
    try {
      await run(bench);
      console.log(`ok    ${kind}: ${name} (${Date.now() - began} ms)`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL  ${kind}: ${name}\n${error.stack}`);
    } finally {
      await bench.close();
    }
  }
  return failed;
}

const [which = "all", filter] = process.argv.slice(2);
if (which !== "fake" && claudePath() === null) {
  console.error("the real CLI is not installed: run `npm ci` in web-test (`make test` does)");
  process.exit(1);
}
const api = await Api.start();
let failed = 0;
if (which !== "fake") failed += await runCases("real", { ...common, ...real }, api, filter);
if (which !== "real") failed += await runCases("fake", { ...common, ...faults }, api, filter);
api.stop();
console.log(failed ? `${failed} failed` : "all passed");
process.exit(failed ? 1 : 0);
