//! `paceline emulate --check`.

use std::fmt::Write;
use std::process::ExitCode;

use paceline_cc::{Nanos, Rate};
use paceline_emulator::accuracy::{Quantiles, accuracy, bare};
use paceline_emulator::machine::{Feature, Verdict, examine};
use paceline_emulator::world::Wire;

use super::report::micros;
use crate::commands::UNTRUSTED;
use crate::commands::doctor::describe;

/// Rates at which accuracy is stated, in Mbit/s.
const RATES: [f64; 3] = [12.0, 100.0, 500.0];
/// How long each measurement takes, twice.
const SPAN: Nanos = Nanos::from_millis(2000);

pub(super) fn run() -> anyhow::Result<ExitCode> {
    let checkup = examine();
    let features: Vec<&Feature> = checkup.emulation.iter().collect();
    let mut text = String::new();
    describe(&mut text, &features)?;
    crate::print(&text)?;
    if matches!(features.first(), Some(Feature { verdict: Verdict::No(_), .. })) {
        return Ok(ExitCode::FAILURE);
    }
    let quantiles = |found: Quantiles| format!("p50 {}, p99 {}", micros(found.p50), micros(found.p99));
    crate::print(&format!("\nping over a bare veth pair: {}\n", quantiles(bare(SPAN)?)))?;
    let mut trusted = true;
    for rate in RATES.map(Rate::from_mbps) {
        let found = accuracy(Wire::preferred(), rate, SPAN)?;
        let mut line = String::new();
        write!(line, "{:>3.0} Mbit/s, 10 ms each way: ", rate.as_mbps())?;
        write!(line, "goodput {:+.2} %; ", 100.0 * found.goodput_error())?;
        write!(line, "added round trip {}; ", quantiles(found.rtt_error))?;
        write!(line, "release error {}; ", quantiles(found.release_error))?;
        let verdict = if found.trusted { "trusted" } else { "NOT to be trusted" };
        writeln!(line, "{:.0} % of a core, {}: {verdict}", 100.0 * found.cpu, found.scheduling)?;
        crate::print(&line)?;
        trusted &= found.trusted;
    }
    Ok(if trusted { ExitCode::SUCCESS } else { ExitCode::from(UNTRUSTED) })
}
