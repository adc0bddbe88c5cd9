// The sliders' edits of a scenario's text: node --test.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { append, read, remove, set } from "../toml.js";

const text = `# Who races.
name = "x" # a name
contestants = [
  "cubic@tcp", # ours
  "copa:delta=0.1@udp",
]

[down]
rate = "12 Mbit/s"   # a rate
jitter = { max = "5ms" }

[up]
delay = "3ms"

# The flows.
[[flows]]
count = 2

[[flows]]
workload = { poisson = { mean_gap = "100ms", min = "4kB" } }
`;

test("values are found wherever they stand", () => {
  const found = read(text);
  assert.equal(found.get("down.rate"), "12 Mbit/s");
  assert.equal(found.get("down.jitter.max"), "5ms");
  assert.deepEqual(found.get("contestants"), ["cubic@tcp", "copa:delta=0.1@udp"]);
  assert.equal(found.count("flows"), 2);
  assert.equal(found.get("flows.0.count"), 2);
  assert.equal(found.get("flows.1.workload.poisson.min"), "4kB");
  assert.equal(found.line("down.jitter"), 10);
  assert.equal(read('flows = [{ count = 3 }, {}]\nlinks.a.rate = "1 Mbit/s"').count("flows"), 2);
});

test("a change leaves every other character", () => {
  assert.equal(set(text, "down.rate", "3 Mbit/s"), text.replace("12 Mbit/s", "3 Mbit/s"));
  assert.equal(set(text, "down.jitter.max", "7ms"), text.replace("5ms", "7ms"));
  assert.equal(set(text, "down.loss", 0.01), text.replace('"5ms" }\n', '"5ms" }\nloss = 0.01\n'));
  assert.equal(set(text, "flows.1.start", "2s"), `${text}start = "2s"\n`);
  assert.equal(set(text, "flows.0.start", "2s"), text.replace("count = 2\n", 'count = 2\nstart = "2s"\n'));
  assert.equal(set(text, "seed", 7), text.replace("]\n\n[down]", "]\nseed = 7\n\n[down]"));
  assert.equal(set(text, "telemetry.profile", "C3"), `${text}\n[telemetry]\nprofile = "C3"\n`);
  assert.equal(set("[down]\nrate = 1", "down.jitter.max", "1ms"), '[down]\nrate = 1\njitter = { max = "1ms" }\n');
  assert.equal(set("x = [1 , 2]\na = { b = 1 }", "a.c", 2), "x = [1 , 2]\na = { b = 1, c = 2 }");
  assert.equal(set("a = {}", "a.c", 2), "a = { c = 2 }");
});

test("a key that goes takes its line along, in a table within a line its comma", () => {
  assert.equal(remove(text, "down.rate"), text.replace('rate = "12 Mbit/s"   # a rate\n', ""));
  assert.equal(remove(text, "flows.0"), text.replace("[[flows]]\ncount = 2\n\n", ""));
  assert.equal(remove("a = { b = 1, c = 2 }", "a.b"), "a = { c = 2 }");
  assert.equal(remove("a = { b = 1, c = 2 }", "a.c"), "a = { b = 1 }");
  assert.equal(remove(text, "down.nothing"), text);
  assert.equal(read(append(text, "flows", { start: "1s" })).get("flows.2.start"), "1s");
});

test("text that is not TOML changes nothing and ends", () => {
  for (const wrong of ["[", "a", "a = ", 'a = "', "a = [1,", "a = { b", "[[x", "a = '''", "= 1", "\u0000", "a.b. = 1"]) {
    assert.equal(read(wrong).get("down.rate"), undefined);
    assert.equal(remove(wrong, "down.rate"), wrong);
  }
});

test("every shipped scenario is read, and can be changed and changed back", () => {
  const folder = new URL("../../../scenarios/", import.meta.url);
  const files = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".toml") && !/sweeps|programs/.test(name));
  assert.ok(files.length > 50);
  for (const file of files) {
    const text = readFileSync(new URL(file, folder), "utf8");
    const found = read(text);
    assert.ok(found.get("name"), file);
    const link = found.has("down.delay") ? "down" : `links.${found.names("links")[0]}`;
    assert.equal(remove(set(text, "seed", 7), "seed"), text, file);
    const delay = found.get(`${link}.delay`);
    if (delay === undefined) continue;
    assert.equal(set(set(text, `${link}.delay`, "1h"), `${link}.delay`, delay), text, file);
  }
});
