// Takes a race along: buttons for the link, the command, files, digests, and the report in place.

import { $, make, save } from "./dom.js";
import { command, savePicture } from "./share.js";
import { read } from "./toml.js";

/** Ties the buttons to the page's state; `begin()`, `scenario(text)` and `over(records, request)` say how far it is. */
export const takeAlong = ({ state, picture, ask, say }) => {
  let records = [];
  const lines = () => records.map(({ line }) => line);
  let raced = { scenario: "" };
  let html = "";
  const name = () => String(read(state.text).get("name") ?? "race").replaceAll(/[^\w-]+/g, "-");
  const needsRace = ["records-json", "records-csv", "picture-svg", "picture-png", "make-report", "save-report"];
  const enable = (on) => needsRace.forEach((id) => { $(id).disabled = !on; });

  const copy = async (text, what) => {
    try {
      await navigator.clipboard.writeText(text);
      say(`${what} is copied.`);
    } catch {
      say(`The browser does not let the page copy; here it is: ${text}`);
    }
  };
  const report = async () => {
    if (!html) ({ html = "" } = await ask({ ask: "report", ...raced, command: $("command").textContent, kept: records.map(({ kept }) => kept) }));
    return html;
  };
  const showReport = async () => {
    const text = await report();
    const frame = make("iframe", { src: "report.html", sandbox: "allow-scripts allow-downloads", title: "Report of the race" });
    const hear = ({ source, data }) => {
      if (source !== frame.contentWindow) return;
      if (data.ready) frame.contentWindow.postMessage(text, "*");
      if (Number.isFinite(data.height)) frame.style.height = `${Math.min(Math.max(data.height, 300), 30_000)}px`;
    };
    addEventListener("message", hear);
    $("report-place").replaceChildren(frame);
  };

  $("link").addEventListener("click", () => copy(location.href, "The link"));
  $("copy-command").addEventListener("click", () => copy($("command").textContent, "The command"));
  $("scenario-file").addEventListener("click", () => save(`${name()}.toml`, state.text, "application/toml"));
  $("records-json").addEventListener("click", () => save("records.jsonl", `${lines().join("\n")}\n`, "application/jsonl"));
  $("records-csv").addEventListener("click", async () => save("records.csv", (await ask({ ask: "csv", lines: lines() })).csv, "text/csv"));
  $("picture-svg").addEventListener("click", () => savePicture(picture.file(read(raced.scenario).get("title") ?? name()), name(), "svg"));
  $("picture-png").addEventListener("click", () => savePicture(picture.file(read(raced.scenario).get("title") ?? name()), name(), "png"));
  $("make-report").addEventListener("click", showReport);
  $("save-report").addEventListener("click", async () => save("report.html", await report(), "text/html"));

  return {
    begin: () => {
      records = [];
      html = "";
      enable(false);
      $("digests").textContent = "";
      $("digests-summary").textContent = "Digests of the records come with the race";
      $("report-place").replaceChildren();
    },
    scenario: (text) => {
      const shipped = state.about.scenarios.find((one) => one.text === text);
      const foreign = Object.keys(state.traces).filter((trace) => text.includes(trace));
      const own = state.controllers.some((one) => text.includes(`"${one.name}@`) || text.includes(`"${one.name}:`));
      $("again").textContent = own
        ? "The command does not know controllers in JavaScript; without them, the same records come from:"
        : `The same records, to the byte, come from the command${shipped ? "" : `, with the scenario saved as scenarios/${name()}.toml${foreign.length ? ` and ${foreign.join(", ")} beside it` : ""}`}:`;
      $("command").textContent = command(shipped ? shipped.path.replace(/^scenarios\//, "") : `${name()}.toml`);
    },
    over: async (all, { own: _, ...request }) => {
      records = all;
      raced = request;
      enable(records.length > 0);
      if (!records.length) return;
      const list = (await ask({ ask: "digest", lines: lines() })).digest.trim().split("\n");
      $("digests-summary").textContent = list.length === 1 ? `Digest ${list[0]}` : `Digests of ${list.length} records, the first ${list[0].split(" ")[0]}`;
      $("digests").textContent = list.join("\n");
    },
  };
};
