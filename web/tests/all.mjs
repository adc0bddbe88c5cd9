// The module in node against the command: all.mjs MODULE COMMAND [SECONDS [SCENARIO...]]
// Every scenario that is shipped runs once, in the simulator, for this many seconds, with all of its contestants.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { instance, load } from "./module.mjs";
import { AIMD, classes, wrong } from "./classes.mjs";

const [, , path, command, seconds = "1", ...only] = process.argv;
const module = await load(path);
const counts = { passed: 0, failed: 0, skipped: 0 };

const check = async (name, test) => {
  try {
    counts[(await test()) ?? "passed"]++;
  } catch (error) {
    counts.failed++;
    console.log(`failed: ${name}: ${error.message}`);
  }
};

/** A race of the command: its records and digests, or what it complained of. */
const raced = async (file) => {
  const out = mkdtempSync(join(tmpdir(), "records-"));
  try {
    const records = join(out, "records.jsonl");
    const { stdout: digest } = await promisify(execFile)(command, ["race", file, "--runs", "1", "--seconds", seconds, "--threads", "1", "--digests", "-", "--json", records]);
    return { digest, lines: readFileSync(records, "utf8").trimEnd().split("\n") };
  } catch (error) {
    return { complaint: (error.stderr ?? String(error)).trim().split("\n").at(-1) };
  } finally {
    rmSync(out, { recursive: true });
  }
};

/** The same race of the module. */
const asked = async (file) => {
  const { ask } = await instance(module);
  const race = { file, scenario: readFileSync(file, "utf8"), runs: 1, seconds: Number(seconds) };
  const [plan] = ask({ ask: "plan", ...race }).messages;
  if (plan.told === "error") return { complaint: `paceline: ${plan.message}` };
  const lines = plan.contestants.map((contestant) => {
    const told = ask({ ask: "run", ...race, contestant, run: 1, moving: true }).messages;
    assert.equal(told.filter(({ told }) => told === "points").length, 300);
    return told.at(-1).line ?? JSON.stringify(told.at(-1));
  });
  return { digest: ask({ ask: "digest", lines }).messages[0].digest, lines };
};

const shipped = readdirSync("scenarios", { recursive: true }).filter((name) => name.endsWith(".toml") && !name.startsWith("sweeps"));
for (const name of only.length ? only : shipped.sort()) {
  await check(name, async () => {
    const file = join("scenarios", name);
    const [theirs, ours] = await Promise.all([raced(file), asked(file)]);
    assert.deepEqual(ours, theirs);
  });
}

const SHORT = { scenario: 'name = "short"\nseconds = 3\nruns = 1\ncontestants = ["cubic@tcp"]\n\n[down]\nrate = "12 Mbit/s"\ndelay = "20ms"\nqueue = "droptail:packets=30"\n' };
const raceOf = async (name, made, more = {}) => {
  const { ask } = await instance(module, classes({ [name]: made }));
  const controllers = [{ name, params: made.params }];
  return ask({ ask: "run", ...SHORT, ...more, controllers, contestant: `${name}@tcp`, run: 1 }).messages;
};

await check("a controller in JavaScript", async () => {
  const [first, again] = [await raceOf("aimd", AIMD), await raceOf("aimd", AIMD)];
  assert.equal(first[0].line, again[0].line);
  const record = JSON.parse(first[0].line);
  assert.equal(record.controller, "aimd");
  assert.ok(record.utilization > 0.9, first[0].line);
});

await check("its parameters, and a start-up before it", async () => {
  const { ask } = await instance(module, classes({ aimd: AIMD }));
  const race = { ask: "run", ...SHORT, controllers: [{ name: "aimd", params: AIMD.params }], run: 1 };
  for (const contestant of ["aimd:beta=0.7@tcp", "aimd:start=hystart@tcp"]) {
    assert.equal(ask({ ...race, contestant }).messages[0].told, "record", contestant);
  }
  assert.match(ask({ ...race, contestant: "aimd:beta=7@tcp" }).messages[0].message, /beta/);
  assert.match(ask({ ...race, controllers: [{ name: "cubic" }], contestant: "cubic@tcp" }).messages[0].message, /take another name/);
});

for (const [what, made, fault] of wrong) {
  await check(what, async () => {
    const [told, ...more] = await raceOf("mine", made);
    assert.deepEqual(more, []);
    assert.equal(told.told, "fault", JSON.stringify(told));
    assert.equal(told.controller, "mine");
    assert.match(`${told.call}: ${told.message}`, fault);
  });
}

await check("a trace of one's own", async () => {
  const { ask } = await instance(module);
  const scenario = SHORT.scenario.replace('rate = "12 Mbit/s"', 'trace = "mine.down"');
  const race = { ask: "run", scenario, contestant: "cubic@tcp", run: 1 };
  assert.equal(ask({ ...race, traces: { "mine.down": "1\n2\n3\n" } }).messages[0].told, "record");
  assert.match(ask({ ...race, traces: { "mine.down": "1\nx\n" } }).messages[0].message, /mine\.down:2/);
  const { told, line, field, message } = ask(race).messages[0];
  assert.deepEqual([told, line, field], ["error", 7, "down.trace"], message);
});

await check("the report is that of the command, and CSV", async () => {
  const { ask } = await instance(module);
  const [file, out] = ["scenarios/sharing.toml", mkdtempSync(join(tmpdir(), "report-"))];
  const race = { file, scenario: readFileSync(file, "utf8"), seconds: 2, runs: 2 };
  const options = ["--seconds", "2", "--runs", "2"];
  const { stdout: csv } = await promisify(execFile)(command, ["race", file, ...options, "--csv", "-", "--report", out]);
  const { contestants } = ask({ ask: "plan", ...race }).messages[0];
  const order = contestants.flatMap((contestant) => [1, 2].map((run) => ({ contestant, run })));
  const told = order.map((one) => ask({ ask: "run", ...race, ...one, report: true }).messages.at(-1));
  assert.equal(ask({ ask: "csv", lines: told.map(({ line }) => line) }).messages[0].csv, csv);
  const { html } = ask({ ask: "report", ...race, kept: told.map(({ kept }) => kept), command: "COMMAND" }).messages[0];
  const theirs = readFileSync(join(out, "report.html"), "utf8");
  rmSync(out, { recursive: true });
  // The one thing that differs.
  assert.ok(theirs.split(/paceline race [^<]*/).join("COMMAND") === html, "the pages differ");
});

await check("bytes that are not a request", async () => {
  const { ask, raw } = await instance(module);
  for (const bytes of ["", "{", "[]", '{"ask":"race"}', '{"ask":"plan"}', '{"ask":"digest","lines":["{}"]}', "\0\xff"]) {
    const { status, messages } = raw(new TextEncoder().encode(bytes));
    assert.equal(status, 1, bytes);
    assert.equal(messages[0].told, "error", bytes);
    assert.ok(!messages[0].panicked, messages[0].message);
  }
  for (const run of [0, 2]) assert.match(ask({ ask: "run", ...SHORT, contestant: "cubic@tcp", run }).messages[0].message, /^run \d: /);
});

console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
process.exit(counts.failed ? 1 : 0);
