//! `paceline emulate --check`.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use paceline_cc::{Nanos, Rate};
use paceline_emulator::accuracy::{Quantiles, accuracy, bare};
use paceline_emulator::machine::{Feature, Fitness, examine};
use paceline_emulator::world::Wire;
use paceline_files::is_standard;
use serde_json::{Value, json};

use super::report::micros;
use crate::commands::save;
use crate::commands::verdicts::{describe, features_as_json};
use crate::exit::Exit;

/// Rates at which accuracy is stated, in Mbit/s.
const RATES: [f64; 3] = [12.0, 100.0, 500.0];
/// How long each measurement takes, twice.
const SPAN: Nanos = Nanos::from_millis(2000);

pub(super) fn run(json: Option<&Path>) -> anyhow::Result<ExitCode> {
    let checkup = examine();
    let features: Vec<&Feature> = checkup.emulation.iter().collect();
    // Where the objects go to standard output, nothing else does.
    let say = |text: &str| if json.is_some_and(is_standard) { Ok(()) } else { crate::print::out(text) };
    let mut object = json!({ "features": features_as_json(&features) });
    let mut text = String::new();
    describe(&mut text, &features)?;
    say(&text)?;
    if matches!(features.first(), Some(Feature { verdict: Fitness::No(_), .. })) {
        keep(json, &object)?;
        return Ok(Exit::Failed.into());
    }
    let quantiles = |found: Quantiles| format!("p50 {}, p99 {}", micros(found.p50), micros(found.p99));
    let without = bare(SPAN)?;
    say(&format!("\nping over a bare veth pair: {}\n", quantiles(without)))?;
    let figures = |found: Quantiles| json!({ "p50": found.p50.as_micros(), "p99": found.p99.as_micros() });
    object["bare_rtt_us"] = figures(without);
    let (mut trusted, mut measured) = (true, Vec::new());
    for rate in RATES.map(Rate::from_mbps) {
        let found = accuracy(Wire::preferred(), rate, SPAN)?;
        let mut line = String::new();
        write!(line, "{:>3.0} Mbit/s, 10 ms each way: ", rate.as_mbps())?;
        write!(line, "goodput {:+.2} %; ", 100.0 * found.goodput_error())?;
        write!(line, "added round trip {}; ", quantiles(found.rtt_error))?;
        write!(line, "release error {}; ", quantiles(found.release_error))?;
        let verdict = if found.trusted { "trusted" } else { "NOT to be trusted" };
        writeln!(line, "{:.0} % of a core, {}: {verdict}", 100.0 * found.cpu, found.scheduling)?;
        say(&line)?;
        measured.push(json!({
            "rate_mbps": rate.as_mbps(),
            "goodput_error": found.goodput_error(),
            "added_rtt_us": figures(found.rtt_error),
            "release_error_us": figures(found.release_error),
            "cpu": found.cpu,
            "scheduling": found.scheduling.to_string(),
            "trusted": found.trusted,
        }));
        trusted &= found.trusted;
    }
    object["trusted"] = trusted.into();
    object["rates"] = measured.into();
    keep(json, &object)?;
    Ok(if trusted { ExitCode::SUCCESS } else { Exit::Untrusted.into() })
}

fn keep(json: Option<&Path>, object: &Value) -> anyhow::Result<()> {
    json.map_or(Ok(()), |path| save("--json", path, |out| writeln!(out, "{object}")))
}
