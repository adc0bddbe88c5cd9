//! What there is to race with.

use paceline_cc::datapath::DATAPATHS;
use paceline_cc::registry::controllers;
use paceline_cc::start_ups::START_UPS;
use paceline_lab::{listing, version};
use paceline_report::palette;
use serde_json::{Value, json};

use crate::shipped::{SCENARIOS, TRACES};

pub(crate) fn about() -> Value {
    let datapaths = DATAPATHS.iter().filter(|datapath| datapath.simulated);
    json!({
        "told": "about",
        "version": version::VERSION,
        "commit": version::commit(),
        "style": palette::STYLE,
        "controllers": controllers().into_iter().map(listing::controller).collect::<Vec<_>>(),
        "start_ups": START_UPS.iter().map(listing::start_up).collect::<Vec<_>>(),
        "datapaths": datapaths.map(listing::datapath).collect::<Vec<_>>(),
        "scenarios": SCENARIOS.iter().map(|(name, text)| scenario(name, text)).collect::<Vec<_>>(),
        "traces": TRACES.iter().map(|(path, _)| path).collect::<Vec<_>>(),
    })
}

fn scenario(name: &str, text: &str) -> Value {
    let key = |key: &str| {
        let value =
            |line: &str| Some(line.strip_prefix(key)?.strip_prefix(" = \"")?.trim_end().strip_suffix('"')?.to_owned());
        text.lines().find_map(value)
    };
    let first = text.lines().next().unwrap_or_default().trim_start_matches('#').trim();
    json!({ "path": format!("scenarios/{name}"), "name": key("name"), "title": key("title"), "first": first, "text": text })
}
