// Clicks through the page of races in a headless Chromium: node click.mjs FOLDER [WORDS], the folder that `make web` makes; with words
// only the tests that have them in their names. With PACELINE_BIN the digests are compared with the command's.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { pathToFileURL } from "node:url";
import { address } from "../share.js";

const root = new URL("../../../", import.meta.url).pathname;
const modules = createRequire(pathToFileURL(join(root, "tests/browser/pages.mjs")));
const { chromium } = await import(pathToFileURL(modules.resolve("playwright-core")).href).then((all) => all.default ?? all);
const axe = readFileSync(modules.resolve("axe-core/axe.min.js"), "utf8");
const [folder, words = ""] = process.argv.slice(2);

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };
const server = createServer((request, answer) => {
  const path = normalize(request.url.split(/[?#]/)[0]).replace(/\/$/, "/index.html");
  try {
    const bytes = readFileSync(join(folder, path));
    answer.writeHead(200, { "content-type": TYPES[extname(path)] ?? "text/plain" }).end(bytes);
  } catch {
    answer.writeHead(404).end();
  }
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const origin = `http://127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-background-networking"] });
let passed = 0;
let failed = 0;

const equal = (left, right, what) => { if (left !== right) throw new Error(`${what}: ${left}, not ${right}`); };
const ensure = (holds, what) => { if (!holds) throw new Error(what); };
/** The page's policy allows no evaluation of text, so that waiting is done here. */
const until = async (holds, what) => {
  const end = Date.now() + 120_000;
  let seen;
  while (Date.now() < end) {
    seen = await holds();
    if (seen) return seen;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`never: ${what}`);
};

const small = (rest = "") => `name = "small"\nseconds = 2\nruns = 1\ncontestants = ["cubic@tcp"]\n\n[down]\nrate = "10 Mbit/s"   # slow\ndelay = "10ms"\nqueue = "droptail:bdp=1"\n\n[up]\ndelay = "10ms"\n${rest}`;
const begin = `#${await address({ scenario: small() })}`;

// A page of its own for each test; nothing may go anywhere else, and no script may fail.
const test = async (name, { hash = begin, width = 1400, scheme = "light", workers = "block" }, steps) => {
  if (!name.includes(words)) return;
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, acceptDownloads: true, serviceWorkers: workers });
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(`script: ${error.message}`));
  page.on("console", (said) => /Content Security Policy/.test(said.text()) && wrong.push(said.text()));
  page.on("request", (request) => request.url().startsWith(origin) || /^(data|blob):/.test(request.url()) || wrong.push(`request: ${request.url()}`));
  try {
    await page.goto(`${origin}/${hash}`);
    await steps(page, context);
    if (wrong.length) throw new Error(wrong.join("; "));
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`failed: ${name}: ${error.message}`);
  }
  await context.close();
};

const said = (page) => page.locator("#state").textContent();
const over = async (page) => {
  const state = await until(async () => { const text = await said(page); return /^\d+ runs of|failed|mistake|Cancelled/.test(text) && text; }, "the race is over");
  // The files come with the digests, just behind.
  if (/^\d+ runs of/.test(state)) await until(() => page.locator("#digests").textContent(), "the digests");
  return state;
};
const again = async (page, steps) => {
  const before = await page.locator("#digests").textContent();
  await steps();
  await until(async () => (await page.locator("#digests").textContent()) !== before || /mistake|failed/.test(await said(page)), "another race");
  return over(page);
};
const text = (page) => page.locator("#scenario").inputValue();
const write = (page, put) => page.locator("#scenario").fill(put);
const download = async (page, id) => {
  const [file] = await Promise.all([page.waitForEvent("download"), page.locator(`#${id}`).click()]);
  return readFileSync(await file.path());
};
const records = async (page) => (await download(page, "records-json")).toString().trim().split("\n").map((line) => JSON.parse(line));
const own = async (page, code) => {
  await page.locator("#own-text").fill(code);
  await page.locator("#own-race").click();
};
const problem = (page, id) => until(() => page.locator(`#${id}-problem`).textContent(), `a problem at ${id}`);

await test("the first lesson races at once, and CoDel takes the delay away", { hash: "" }, async (page) => {
  await over(page);
  ensure((await page.locator("#picture path.line").count()) >= 6, "no curves");
  const queued = async () => (await records(page)).find(({ controller }) => controller === "cubic").queue_ms.p95;
  const before = await queued();
  await again(page, () => page.getByRole("button", { name: "CoDel", exact: true }).click());
  const after = await queued();
  ensure(after * 10 < before, `the delay was ${before} ms and is ${after} ms`);
  ensure((await text(page)).includes('queue = "codel"'), "the text did not follow");
  ensure((await page.locator("#picture path.before").count()) > 0, "nothing shows what was before");
});

await test("digests are the command's", {}, async (page) => {
  await over(page);
  await again(page, () => write(page, small('loss = 0.01\n')));
  const shown = (await page.locator("#digests").textContent()).trim();
  ensure(/^[0-9a-f]{16} cubic@tcp 1$/.test(shown), shown);
  if (!process.env.PACELINE_BIN) return;
  const place = mkdtempSync(join(tmpdir(), "page-"));
  writeFileSync(join(place, "small.toml"), await download(page, "scenario-file"));
  const command = execFileSync(process.env.PACELINE_BIN, ["race", join(place, "small.toml"), "--digests", "-"], { encoding: "utf8" });
  rmSync(place, { recursive: true });
  ensure(command.includes(shown), `the command says ${command}`);
});

await test("sliders change the text, and the text the sliders", {}, async (page) => {
  await over(page);
  equal(await page.locator("#rate").getAttribute("aria-valuetext"), "10 Mbit/s", "the slider");
  await again(page, async () => {
    await page.locator("#rate").focus();
    await page.keyboard.press("ArrowRight");
  });
  ensure((await text(page)).includes('rate = "12 Mbit/s"   # slow'), "the rate or its comment");
  equal(await page.evaluate(() => document.activeElement.id), "rate", "the focus");
  await again(page, () => page.locator("#queue").selectOption("fq_codel"));
  ensure((await text(page)).includes('queue = "fq_codel"'), "the queue");
  await again(page, () => page.locator("#capacity").selectOption("trace traces/lte-like.mahi"));
  ensure(!(await text(page)).includes("rate =") && (await text(page)).includes('trace = "traces/lte-like.mahi"'), "the trace");
  await again(page, () => page.locator("#add-flow").click());
  equal((await records(page))[0].flows.length, 2, "flows");
  await again(page, async () => {
    await page.locator("#contestant-0").click();
    await page.locator("#start-up").selectOption("chirp");
  });
  ensure((await text(page)).includes('contestants = ["cubic:start=chirp@tcp"]'), "the start-up");
});

await test("a mistake is shown at its line, with the fix", {}, async (page) => {
  await over(page);
  await write(page, small().replace("queue", "qeue"));
  const words = await problem(page, "scenario");
  ensure(/line 9/.test(words) && /queue/.test(words), words);
  ensure(await page.locator("#go").isDisabled(), "it may be raced");
  await page.locator("#scenario-problem button").click();
  equal(await page.evaluate(() => { const { value, selectionStart, selectionEnd } = document.activeElement; return value.slice(selectionStart, selectionEnd); }), 'qeue = "droptail:bdp=1"', "the line");
  await write(page, "name = ");
  await until(async () => /line 1/.test(await page.locator("#scenario-problem").textContent()), "another mistake");
});

await test("cancel ends a race, and another begins", {}, async (page) => {
  await over(page);
  await write(page, small().replace("seconds = 2", "seconds = 100000"));
  await until(async () => (await page.locator("#picture path.line").count()) > 2 && /0 of/.test(await said(page)), "it runs");
  await page.locator("#cancel").click();
  equal(await said(page), "Cancelled.", "the state");
  await again(page, () => write(page, small()));
});

await test("a trace is dropped, and stays here", {}, async (page) => {
  await over(page);
  await again(page, () => page.evaluate(() => {
    const files = new DataTransfer();
    files.items.add(new File([Array.from({ length: 500 }, (_, i) => `${i + 1}\n`).join("")], "mine.mahi"));
    dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
  }));
  ensure((await text(page)).includes('trace = "mine.mahi"'), "the text");
  equal((await records(page))[0].trace, "mine.mahi", "the record's trace");
  ensure(/in this page alone/.test(await page.locator("#dropped").textContent()), "nothing says where it stays");
});

await test("a controller in JavaScript races", {}, async (page) => {
  await over(page);
  await page.locator("#own-race").click();
  await until(async () => /aimd@tcp 1/.test(await page.locator("#digests").textContent()), "records of aimd");
  const found = (await records(page)).find(({ controller }) => controller === "aimd");
  ensure(found.throughput_mbps > 5, `aimd had ${found.throughput_mbps} Mbit/s`);
});

const faulty = (body) => `export class Mine {\n  constructor(env) { this.window = 14480; }\n  on_ack() {\n    ${body}\n  }\n}\n`;
for (const [what, body, expected] of [
  ["an exception", "null.x;", /TypeError/], ["NaN", "this.window = NaN;", /NaN/], ["a negative window", "this.window = -1;", /-1/],
  ["a loop without end", "for (;;);", /loop without end/], ["a draw of the browser", "this.window = Math.random();", /Math\.random/],
]) {
  await test(`${what} in a controller is named`, {}, async (page) => {
    await over(page);
    await own(page, faulty(body));
    const words = await problem(page, "own-text");
    ensure(expected.test(words), words);
    if (/exception|draw/.test(what)) ensure(/line 4/.test(words), words);
    await until(async () => /failed/.test(await said(page)), "the race says so");
    equal((await records(page)).length, 1, "records of the others");
  });
}

await test("a syntax error in a controller is shown at its line", {}, async (page) => {
  await over(page);
  await own(page, "export class Mine {\n  on_ack( {\n  }\n}\n");
  const words = await problem(page, "own-text");
  ensure(/SyntaxError/.test(words) && /line [234]/.test(words), words);
});

await test("an address gives the race again; a controller in it waits for its reader", {}, async (page, context) => {
  await over(page);
  await page.locator("#seed").fill("7");
  await again(page, () => page.keyboard.press("Tab"));
  const first = await page.locator("#digests").textContent();
  const other = await context.newPage();
  await other.goto(page.url());
  await over(other);
  ensure((await text(other)).includes("seed = 7"), "the text");
  equal(await other.locator("#digests").textContent(), first, "digests");
  await page.locator("#own-race").click();
  await until(async () => /aimd@tcp 1/.test(await page.locator("#digests").textContent()), "records of aimd");
  const third = await context.newPage();
  await third.goto(page.url());
  await until(async () => /press Race/.test(await said(third)), "it waits");
  await third.locator("#go").click();
  await over(third);
  equal(await third.locator("#digests").textContent(), await page.locator("#digests").textContent(), "digests with the controller");
});

await test("files and the report", { hash: "#preset=chirps", workers: "allow" }, async (page) => {
  await over(page);
  const svg = (await download(page, "picture-svg")).toString();
  const wrong = await page.evaluate((put) => new DOMParser().parseFromString(put, "image/svg+xml").querySelector("parsererror")?.textContent ?? "", svg);
  equal(wrong, "", "SVG");
  ensure(!/https?:(?!\/\/www\.w3\.org\/2000\/svg)/.test(svg), "an address in the SVG");
  const png = await download(page, "picture-png");
  ensure(png.subarray(1, 4).toString() === "PNG" && png.length > 10_000, "PNG");
  const csv = (await download(page, "records-csv")).toString();
  equal(csv.trim().split("\n").length, 1 + (await records(page)).length, "rows of the CSV");
  await page.locator("#make-report").click();
  await page.locator("iframe").waitFor();
  const frame = page.frameLocator("iframe");
  await until(async () => (await frame.locator("figure").count()) > 3, "figures of the report");
  ensure((await frame.locator("#chips").isVisible()), "its script does not run");
  await until(async () => (await page.locator("iframe").boundingBox()).height > 1000, "the frame has the report's height");
});

await test("it works without a network once it was loaded", { workers: "allow" }, async (page, context) => {
  await over(page);
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  await until(() => page.evaluate(async () => Boolean(await caches.match("paceline.wasm"))), "the module is kept");
  await context.setOffline(true);
  server.closeAllConnections();
  await page.reload();
  await over(page);
});

for (const [scheme, width] of [["light", 1400], ["dark", 1400], ["light", 420], ["dark", 420]]) {
  await test(`axe, ${scheme}, ${width} px`, { scheme, width }, async (page) => {
    await over(page);
    await page.evaluate(() => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
    await write(page, "name = ");
    await problem(page, "scenario");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    ensure(wide <= width, `the page is ${wide} wide`);
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    equal(serious.map(({ id, nodes }) => `${id} (${nodes.length}): ${nodes[0].html.slice(0, 160)} ${nodes[0].failureSummary ?? ""}`).join("; "), "", "violations");
  });
}

await test("in print there are no controls, and it is light", { scheme: "dark" }, async (page) => {
  await over(page);
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  equal(await page.locator("#controls:visible, .bar:visible, #presets:visible, #own:visible").count(), 0, "controls");
  equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)", "the paper");
  ensure((await page.pdf({ format: "A4", printBackground: true })).length > 20_000, "no pages");
});

await browser.close();
server.close();
console.log(`${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed ? 1 : 0);
