// Clicks through pages of paceline in a headless Chromium: node pages.mjs REPORT [OTHER PAGE ...]. The report is of a race with several
// contestants and runs; on other pages that have plots the cursor is tried, and axe looks at all.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const [report, ...others] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-background-networking"] });
let passed = 0;
let failed = 0;

// A page of its own for each test; nothing may leave it, and no script may fail.
const test = async (name, { file = report, hash = "", width = 1400, scheme = "light", touch = false, script = true }, steps) => {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, hasTouch: touch, acceptDownloads: true, javaScriptEnabled: script });
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(`script: ${error.message}`));
  page.on("request", (request) => /^(file|data|blob):/.test(request.url()) || wrong.push(`request: ${request.url()}`));
  try {
    await page.goto(pathToFileURL(file).href + hash);
    await steps(page);
    if (wrong.length) throw new Error(wrong.join("; "));
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`failed: ${name}: ${error.message}`);
  }
  await context.close();
};
const equal = (left, right, what) => { if (left !== right) throw new Error(`${what}: ${left}, not ${right}`); };
const ensure = (holds, what) => { if (!holds) throw new Error(what); };

const figure = (page, id) => page.locator(`figure[data-figure="${id}"]`);
const ticksOf = (page, id) => figure(page, id).locator(".axes .tick").allTextContents();
// Into a plot, by shares of its width and height.
const inPlot = (page, id, x, y = 0.5) => inFirst(page, figure(page, id).locator("svg:visible:has(g.plot)").first(), x, y);
const inFirst = async (page, svg, x, y = 0.5) => {
  await svg.scrollIntoViewIfNeeded();
  // The scrolling is heard of in the next frame.
  await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
  return svg.evaluate((svg, [x, y]) => {
    const [left, top, w, h] = svg.querySelector("g.plot").dataset.rect.split(" ").map(Number);
    const place = new DOMPoint(left + x * w, top + y * h).matrixTransform(svg.getScreenCTM());
    return { x: place.x, y: place.y };
  }, [x, y]);
};
const download = async (page, id, kind) => {
  const button = figure(page, id).getByRole("button", { name: kind, exact: false }).first();
  const [file] = await Promise.all([page.waitForEvent("download"), button.click()]);
  return readFileSync(await file.path());
};

await test("the cursor shows a value of every contestant", {}, async (page) => {
  const place = await inPlot(page, "throughput", 0.5);
  await page.mouse.move(place.x, place.y);
  const text = await page.locator("#tip").innerText();
  for (const name of await page.locator("#chips .chip").evaluateAll((chips) => chips.map((chip) => chip.dataset.name))) {
    ensure(text.includes(name), `${name} is not in: ${text}`);
  }
  ensure(/\d Mbit\/s/.test(text) && /\d s/.test(text), `no value in: ${text}`);
  ensure((await page.locator(".cursor").count()) > 2, "the line goes through one plot alone");
  await page.keyboard.press("Escape");
  ensure(await page.locator("#tip").isHidden(), "Escape leaves the values");
});

await test("a point tells its values", {}, async (page) => {
  const cross = figure(page, "trade-off").locator("svg:visible .cross").first();
  await cross.scrollIntoViewIfNeeded();
  const box = await cross.boundingBox();
  await page.mouse.move(box.x + 6, box.y + 6);
  ensure(/ms/.test(await page.locator("#tip").innerText()), "no delay at a cross");
});

await test("arrow keys move the cursor", {}, async (page) => {
  await figure(page, "queueing").locator(".panels").focus();
  await page.keyboard.press("ArrowRight");
  const first = await page.locator("#tip b").innerText();
  await page.evaluate(() => document.dispatchEvent(new Event("scroll")));
  await page.keyboard.press("ArrowRight");
  ensure(await page.locator("#tip").isVisible(), "no values after scrolling");
  ensure(first !== (await page.locator("#tip b").innerText()), `the cursor stays at ${first}`);
});

await test("dragging zooms all figures over time, and a double click goes back", {}, async (page) => {
  const before = await ticksOf(page, "queueing");
  const [from, to] = [await inPlot(page, "throughput", 0.25), await inPlot(page, "throughput", 0.5)];
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  await page.mouse.move(to.x, to.y, { steps: 5 });
  await page.mouse.up();
  ensure((await ticksOf(page, "queueing")).join() !== before.join(), "the axis stayed");
  ensure(page.url().includes("zoom=time"), `the address is ${page.url()}`);
  await page.mouse.dblclick(to.x, to.y);
  equal((await ticksOf(page, "queueing")).join(), before.join(), "ticks after going back");
});

await test("a part of the time is filled from end to end", { hash: "#zoom=time,2.03,2.31" }, async (page) => {
  const apart = await figure(page, "throughput").locator(".panel:visible g.plot").evaluateAll((plots) => plots.map((plot) => {
    const [left, , width] = plot.dataset.rect.split(" ").map(Number);
    const places = plot.querySelector("[data-area]").getAttribute("d").match(/[\d.]+ [\d.]+/g).map((place) => parseFloat(place));
    return Math.max(Math.abs(Math.min(...places) - left), Math.abs(Math.max(...places) - left - width));
  }));
  ensure(apart.length > 1 && Math.max(...apart) < 1, `an area ends ${Math.max(...apart)} px from the frame`);
});

await test("a heading that is jumped to stands below the switches", { width: 720, hash: "#throughput" }, async (page) => {
  const [chips, heading] = [await page.locator("#chips").boundingBox(), await page.locator("#throughput").boundingBox()];
  ensure(chips.height > 60 && chips.y < 1, "the switches are in one row, or not at the top");
  ensure(heading.y >= chips.y + chips.height && heading.y < 200, `the heading is at ${heading.y}, below ${chips.height}`);
});

await test("buttons zoom and reset, and the vertical axis changes its kind", {}, async (page) => {
  const before = (await ticksOf(page, "queueing")).join();
  await figure(page, "queueing").getByRole("button", { name: /^Zoom in/ }).click();
  ensure((await ticksOf(page, "queueing")).join() !== before, "the axis stayed");
  await figure(page, "queueing").getByRole("button", { name: /^Show all/ }).click();
  equal((await ticksOf(page, "queueing")).join(), before, "ticks after reset");
  await figure(page, "queueing").getByRole("button", { name: /^Change the vertical/ }).click();
  ensure((await ticksOf(page, "queueing")).join() !== before, "the vertical axis stayed");
});

await test("without a contestant rows go, axes follow, and the address says so", {}, async (page) => {
  const chips = page.locator("#chips .chip");
  const count = await chips.count();
  const rows = () => page.locator("table").first().locator("tbody tr:visible").count();
  const panels = () => figure(page, "throughput").locator(".panel:visible").count();
  const bars = () => figure(page, "delay-parts").locator(".panels svg").first().locator(".bar:visible").count();
  const before = (await ticksOf(page, "trade-off")).join();
  const height = await figure(page, "delay-parts").locator(".panels svg").first().evaluate((svg) => svg.viewBox.baseVal.height);
  equal(await rows(), count, "rows");
  await chips.first().locator("button").first().click();
  equal(await rows(), count - 1, "rows without one");
  equal(await panels(), count - 1, "panels without one");
  equal(await bars(), count - 1, "bars without one");
  ensure((await figure(page, "delay-parts").locator(".panels svg").first().evaluate((svg) => svg.viewBox.baseVal.height)) < height, "bars leave a hole");
  ensure(page.url().includes("off="), page.url());
  await chips.first().getByRole("button", { name: /^only/ }).click();
  equal(await rows(), 1, "rows of only one");
  ensure((await ticksOf(page, "trade-off")).join() !== before, "axes of the trade-off stayed");
  await page.reload();
  equal(await rows(), 1, "rows after loading the address again");
  await page.getByRole("button", { name: "all", exact: true }).click();
  equal(await rows(), count, "rows of all");
  equal((await ticksOf(page, "trade-off")).join(), before, "axes of all");
});

await test("figures and their numbers are files", {}, async (page) => {
  for (const id of ["trade-off", "throughput", "delay-parts"]) {
    const svg = (await download(page, id, "Download as SVG")).toString();
    const problem = await page.evaluate((text) => {
      const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
      return parsed.querySelector("parsererror")?.textContent ?? (parsed.querySelectorAll("path, rect").length > 5 ? "" : "no curves");
    }, svg);
    equal(problem, "", `SVG of ${id}`);
    ensure(!/https?:(?!\/\/www\.w3\.org\/2000\/svg)/.test(svg), "an address in the SVG");
    const png = await download(page, id, "Download as PNG");
    equal(png.subarray(1, 4).toString(), "PNG", `first bytes of the PNG of ${id}`);
    ensure(png.length > 5000, `the PNG of ${id} has ${png.length} bytes`);
    const lines = (await download(page, id, "Download the numbers")).toString().trim().split("\n");
    const columns = lines[0].split(",").length;
    ensure(lines[0].startsWith("contestant,") && lines.length > 2, `CSV of ${id}: ${lines[0]}`);
    ensure(lines.every((line) => line.split(",").length === columns), `CSV of ${id} has ragged rows`);
  }
});

await test("headings are places to link to", {}, async (page) => {
  const headings = await page.locator("h2").count();
  equal(await page.locator("h2[id] a.anchor").count(), headings, "headings with links");
  equal(await page.evaluate(() => document.querySelectorAll("[id]").length - new Set([...document.querySelectorAll("[id]")].map((e) => e.id)).size), 0, "ids that occur twice");
});

await test("a finger shows values and leaves nothing faint", { width: 420, touch: true }, async (page) => {
  const place = await inPlot(page, "throughput", 0.5);
  await page.touchscreen.tap(place.x, place.y);
  ensure(await page.locator("#tip").isVisible(), "no values");
  ensure(!(await page.evaluate(() => document.body.classList.contains("dim"))), "the page stays faint");
});

await test("a phone needs no sideways scroll, and text can be read", { width: 420 }, async (page) => {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  ensure(wide <= 420, `the page is ${wide} wide`);
  const small = await page.evaluate(() => Math.min(...[...document.querySelectorAll("figure svg text")].filter((text) => text.getClientRects().length).map((text) => {
    const svg = text.ownerSVGElement;
    return parseFloat(getComputedStyle(text).fontSize) * svg.getScreenCTM().a;
  })));
  ensure(small >= 11, `text of ${small.toFixed(1)} px`);
});

await test("another run is shown, and the address says so", {}, async (page) => {
  const select = page.locator(".runs select").first();
  const [first, second] = await select.locator("option").allTextContents();
  const panels = (run) => figure(page, "throughput").locator(`.panel[data-run="${run}"]:visible`).count();
  const count = await panels(first);
  ensure(count > 1 && (await panels(second)) === 0, "not the first run alone");
  await select.selectOption(second);
  equal(await panels(second), count, "panels of the second run");
  equal(await panels(first), 0, "panels of the first run");
  ensure(page.url().includes(`run=${second}`), page.url());
  const place = await inPlot(page, "throughput", 0.5);
  await page.mouse.move(place.x, place.y);
  equal(await page.locator(".cursor:visible").count() > 2, true, "the line goes through the plots of the second run");
  await page.reload();
  equal(await panels(second), count, "panels of the second run after loading the address again");
  await page.evaluate(() => { location.hash = ""; });
  await page.waitForFunction((run) => document.querySelector(".runs select").value === run, first);
  equal(await panels(first), count, "panels of the first run again");
});

await test("two fingers zoom", { width: 420, touch: true }, async (page) => {
  const before = (await ticksOf(page, "queueing")).join();
  const [left, right] = [await inPlot(page, "throughput", 0.4), await inPlot(page, "throughput", 0.6)];
  const session = await page.context().newCDPSession(page);
  const touch = (type, a, b) => session.send("Input.dispatchTouchEvent", { type, touchPoints: [a, b].filter(Boolean).map((x, id) => ({ x, y: left.y, id })) });
  await touch("touchStart", left.x);
  await touch("touchStart", left.x, right.x);
  for (const step of [10, 30, 60]) await touch("touchMove", left.x - step, right.x + step);
  await touch("touchEnd");
  await page.waitForFunction(() => location.hash.includes("zoom=time"));
  const [, from, to] = decodeURIComponent(page.url()).match(/zoom=time,([\d.]+),([\d.]+)/).map(Number);
  ensure(from > 0.5 && from < 3.2 && to > 4.8 && to < 7.5, `8 s became ${from} to ${to}`);
  ensure((await ticksOf(page, "queueing")).join() !== before, "the axis stayed");
  ensure(!(await page.locator("#tip").isVisible()), "values under fingers that zoom");
});

await test("in print there are no controls, and it is light", { scheme: "dark" }, async (page) => {
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  equal(await page.locator("#chips:visible, .tools:visible, .runs:visible, .anchor:visible").count(), 0, "controls");
  const colours = await page.evaluate(() => [document.body, document.querySelector("h1")].map((element) => getComputedStyle(element)).map((style, i) => (i ? style.color : style.backgroundColor)));
  equal(colours[0], "rgb(255, 255, 255)", "the paper");
  ensure(/^rgb\(\d\d, \d\d, \d\d\)$/.test(colours[1]), `ink ${colours[1]}`);
  equal(await page.locator(".panel:visible").evaluateAll((all) => all.filter((one) => getComputedStyle(one).breakInside !== "avoid").length), 0, "panels that may be cut");
  ensure((await page.pdf({ format: "A4", printBackground: true })).length > 20000, "no pages");
});

await test("without scripts the figures are there", { script: false }, async (page) => {
  ensure((await page.locator("figure svg path.line").count()) > 5, "no curves");
  ensure(await page.locator("#chips").isHidden(), "switches that do nothing");
});

for (const [index, file] of [report, ...others].entries()) {
  for (const width of [1400, 420]) {
    await test(`no text is cut, page ${index + 1}, ${width} px`, { file, width }, async (page) => {
      const cut = await page.locator(".panels svg:visible").evaluateAll((all) => all.flatMap((svg) => [...svg.querySelectorAll("text.name")].filter((text) => {
        const { x, width } = text.getBBox();
        return x < 0 || x + width > svg.viewBox.baseVal.width;
      }).map((text) => text.textContent)));
      equal(cut.join(), "", "names over the edge");
    });
  }
  await test(`a controller has its own colour, page ${index + 1}`, { file }, async (page) => {
    const wrong = await page.locator("svg .name").evaluateAll((names) => names.flatMap((name) => {
      const controller = name.textContent.match(/^([a-z0-9-]+)(:[^@]*)?@/)?.[1];
      const colour = [...(name.closest("[class*='c-']")?.classList ?? [])].find((word) => /^c-/.test(word));
      return !controller || !colour || colour === `c-${controller}` || colour.startsWith("c-other-") ? [] : [`${name.textContent}: ${colour}`];
    }));
    equal(wrong.join(), "", "colours of others");
    equal(await page.locator("figure svg :is(.c0, .c1, .c2, .c3, .c4, .c5, .c6, .c8, .c9):has([data-name*='@'])").count(), 0, "contestants with colours by place");
  });
}

for (const [index, file] of others.entries()) {
  await test(`cursor, page ${index + 2}`, { file }, async (page) => {
    const svg = page.locator("svg:visible:has(g.plot [data-y])").first();
    if (!(await svg.count())) return;
    const place = await inFirst(page, svg, 0.5);
    await page.mouse.move(place.x, place.y);
    const text = await page.locator("#tip").innerText();
    ensure((await page.locator("#tip").isVisible()) && /\d/.test(text), `no values: ${text}`);
  });
}

for (const [index, file] of [report, ...others].entries()) {
  for (const [scheme, width] of [["light", 1400], ["dark", 1400], ["light", 420]]) {
    await test(`axe, page ${index + 1}, ${scheme}, ${width} px`, { file, scheme, width }, async (page) => {
      await page.evaluate(() => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      const text = serious.map(({ id, nodes }) => `${id} (${nodes.length}): ${nodes[0].html.slice(0, 160)} ${nodes[0].failureSummary ?? ""}`);
      equal(text.join("; "), "", "violations");
    });
  }
}

await browser.close();
console.log(`${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed ? 1 : 0);
