//! Table 1: what a server needs. Its memory is what the tables of a router have after one receiver and after 10,000; processor time is
//! measured by `scripts/bench-icn`, beside nginx over the kernel's TCP, on a quiet machine.

use crate::reproduce::prelude::*;

use super::run::{self, beside, claim};
use super::{OURS, USERS};

/// Receivers.
const RECEIVERS: [usize; 3] = [1, 100, 10_000];

/// Bytes of a router's tables after the receivers, and how many of these got their object; the worst of the runs.
type Kept = (usize, usize);

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let setup = |receivers: usize| {
        Setup::new(&USERS, OURS).set("flows.0.workload.poisson.count", &receivers.to_string()).whole()
    };
    let setups = RECEIVERS.map(setup);
    let kept = |_: &Setup, run: &Finished<'_>| -> Kept {
        let memory = run.outcome.routers.iter().map(|router| router.memory).sum();
        (memory, run.flow(0).completions.len())
    };
    let conducted = |bench: &Bench<'_>| bench.run(&setups, kept);
    let here = found(&conducted(bench)?);
    if bench.is_real() { Ok(beside(here, found(&bench.simulated(conducted)?))) } else { Ok(here) }
}

/// What the runs say, by how many receivers they had.
fn found(runs: &[Vec<Kept>]) -> Findings {
    let worst = |(bytes, whole): Kept, run: &Kept| (bytes.max(run.0), whole.min(run.1));
    let found: Vec<Kept> = runs.iter().map(|runs| runs.iter().fold((0, usize::MAX), worst)).collect();
    let cell = |at: usize| {
        let ((bytes, whole), (first, _)) = (found[at], found[0]);
        let ours = format!("{} bytes more than after one; {whole} objects", bytes as i64 - first as i64);
        let holds = bytes == first && whole == RECEIVERS[at];
        run::cell("table1", format!("{} receivers", RECEIVERS[at]), ours, holds)
    };
    let text = "a router keeps nothing of a receiver: its tables have as many bytes after any number of them";
    let row = |at: usize| plain(RECEIVERS[at].to_string(), [found[at].0, found[at].1].map(|count| count.to_string()));
    let paper = |name: &str, cells: [&str; 4]| plain(name, cells.map(str::to_owned));
    Findings {
        setup: vec![
            "Processor time is measured by scripts/bench-icn (docs/results/icn.md): it belongs to real sockets on a quiet machine. Here: the \
             memory of a router's tables, as the product makes them."
                .to_owned(),
        ],
        claims: vec![claim(text, OURS, "0 bytes a connection; TCP: about 3000", vec![cell(1), cell(2)])],
        tables: vec![
            Table::new(
                "A router's tables",
                "Buckets of sources, the queue, and what waits for an upstream router.",
                ["bytes", "objects fetched"],
                (0..RECEIVERS.len()).map(row),
            ),
            Table::new(
                "The paper's table",
                "500 Mbit/s, 10 ms, 100 users, 60 s.",
                ["CPU, %", "bytes a connection", "lines of code", "keeps state"],
                [
                    paper("Ours (the paper's)", ["4.8 \u{b1} 0.4", "0", "\u{2248} 500", "no"]),
                    paper("TCP with BBR", ["8.8 \u{b1} 0.6", "\u{2248} 3000", "> 15000", "yes"]),
                    paper("TCP with CUBIC", ["7.0 \u{b1} 0.5", "\u{2248} 3000", "> 15000", "yes"]),
                ],
            ),
        ],
        whole: true,
        scenarios: vec![&USERS],
        ..Findings::default()
    }
}
