//! The pages, in Markdown with SVG files beside them.

use std::fmt::Write as _;

use paceline_cc::datapath::{DATAPATHS, Datapath};
use paceline_cc::entry::{Entry, Param};
use paceline_cc::{Ability, Spec};
use paceline_lab::numbers::plain;

use super::paths::PATHS;
use super::{ControllerProfile, Seen};

/// Name of the page that compares.
pub const INDEX: &str = "index.md";

/// Every file by its name: [`INDEX`], a page for each controller, a picture for each run.
pub fn pages(profiles: &[ControllerProfile]) -> Vec<(String, String)> {
    let mut files = vec![(INDEX.to_owned(), index(profiles))];
    for profile in profiles {
        let name = profile.entry.name;
        files.push((format!("{name}.md"), page(profile)));
        let seen = PATHS.iter().zip(&profile.seen);
        files.extend(
            seen.filter_map(|(path, seen)| {
                Some((format!("{name}-{}.svg", path.id), seen.as_ref().ok()?.picture.clone()))
            }),
        );
    }
    files
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('<', "&lt;").replace('|', "\\|")
}

fn index(profiles: &[ControllerProfile]) -> String {
    let mut text = String::from(
        "# Controllers\n\nEach controller with its defaults, alone on six standard paths (beside CUBIC on the last), over `@udp`, in the \
         simulator. These pages are made from runs when the site is built, by `paceline controllers --pages DIR`. The paths have no \
         marks (ECN) and no telemetry: what needs either behaves as without it.\n\n\
         Each cell: throughput in Mbit/s / queueing delay in ms (95th percentile of the flow's packets).\n\n| controller |",
    );
    PATHS.iter().for_each(|path| text += &format!(" [{}](#{}) |", path.title, anchor(path.title)));
    text += &format!("\n|---|{}\n", "---|".repeat(PATHS.len()));
    for ControllerProfile { entry, seen } in profiles {
        let _ = write!(text, "| [{0}]({0}.md) |", entry.name);
        for seen in seen {
            let shown = seen.as_ref().map_or_else(
                |_| "failed".to_owned(),
                |seen| format!("{}\u{a0}/\u{a0}{}", plain(seen.mbps), plain(seen.queue_p95_ms)),
            );
            let _ = write!(text, " {shown} |");
        }
        text.push('\n');
    }
    text += "\nBeside CUBIC each would have 12 Mbit/s. What the controllers are:\n\n";
    profiles.iter().for_each(|of| text += &format!("- [{0}]({0}.md): {1}\n", of.entry.name, cell(of.entry.summary)));
    text += "\n## The paths\n\nAs scenario files, for `paceline race FILE.toml --contestants NAME@udp --report DIR`. The trace lies in \
             `scenarios/traces`.\n";
    for path in &PATHS {
        let _ = write!(text, "\n### {}\n\n{}\n\n```toml\n{}```\n", path.title, path.about, path.scenario("copa@udp"));
    }
    text
}

/// The anchor of a heading.
fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

fn page(ControllerProfile { entry, seen }: &ControllerProfile) -> String {
    let mut text = format!("# {}\n\n{}.\n\nSource: {}.", entry.name, sentence(entry.summary), cell(entry.source));
    let needs: Vec<&str> = entry.needs().map(Ability::name).collect();
    if !needs.is_empty() {
        let _ = write!(text, " It cannot work without: {}.", needs.join(", "));
    }
    let _ = write!(text, " It runs over {}.\n\n## On six paths\n\n", vias(entry).join(", "));
    text += "With its defaults, over `@udp`, in the simulator, one run with a fixed seed. The paths are described [here](index.md#the-paths).\n\n\
             | path | Mbit/s | share, % | queue p50, ms | queue p95, ms | lost, % |\n|---|---|---|---|---|---|\n";
    let each = || PATHS.iter().zip(seen);
    for (path, seen) in each() {
        let figures = seen.as_ref().map_or_else(|_| vec!["failed".to_owned(); 5], figures);
        let _ = writeln!(text, "| [{}](#{}) | {} |", path.title, anchor(path.title), figures.join(" | "));
    }
    text += "\nShare: of what the link could carry; beside CUBIC, of what both got from 10 s on.\n";
    for (path, seen) in each() {
        let _ = write!(text, "\n### {}\n\n{}\n\n", path.title, path.about);
        match seen {
            Ok(seen) => {
                let _ = write!(
                    text,
                    "{}\n\n![{}: throughput and queueing delay over time]({}-{}.svg)\n",
                    seen.sentence, path.title, entry.name, path.id
                );
            }
            Err(why) => {
                let _ = writeln!(text, "The run failed: {}", cell(&why.to_string()));
            }
        }
    }
    text += "\n## Parameters\n\n";
    text += &parameters(entry);
    text
}

fn figures(seen: &Seen) -> Vec<String> {
    let Seen { mbps, share, queue_p50_ms, queue_p95_ms, loss, .. } = seen;
    [*mbps, 100.0 * share, *queue_p50_ms, *queue_p95_ms, 100.0 * loss].map(plain).to_vec()
}

/// With a capital.
fn sentence(summary: &str) -> String {
    let mut letters = summary.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    cell(&format!("{first}{}", letters.as_str()))
}

fn vias(entry: &Entry) -> Vec<String> {
    let carries =
        |datapath: &&'static Datapath| entry.name.parse::<Spec>().is_ok_and(|spec| datapath.carries(&spec).is_ok());
    DATAPATHS.iter().filter(carries).map(|datapath| format!("`@{}`", datapath.name)).collect()
}

/// Its own, then those that come with its start-ups.
fn parameters(entry: &'static Entry) -> String {
    let own = |param: &&Param| entry.params.iter().any(|own| own.name == param.name);
    let start: Vec<&Param> = entry.params().filter(|param| !own(param)).collect();
    let own: Vec<&Param> = entry.params.iter().collect();
    let mut text = String::new();
    if own.is_empty() {
        text += "It has none of its own.\n";
    } else {
        let _ = write!(text, "As in `{}:{}={}`.\n\n{}", entry.name, own[0].name, own[0].default, table(&own));
    }
    if !start.is_empty() {
        text += &format!("\n### Of its start-up\n\n{}", table(&start));
    }
    text
}

fn table(params: &[&Param]) -> String {
    let mut text =
        String::from("| parameter | default | unit | takes | where the default comes from |\n|---|---|---|---|---|\n");
    for param in params {
        let cells = [param.default, param.unit, &param.kind.to_string(), param.source].map(cell);
        let _ = writeln!(text, "| `{}` | {} |", param.name, cells.join(" | "));
    }
    text
}
