//! Scenarios and traces of the repository, by their names below `scenarios/`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use paceline_path::Trace;

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Those that were read.
static READ: Mutex<BTreeMap<&str, Arc<Trace>>> = Mutex::new(BTreeMap::new());

/// The traces of these files, by the names that scenarios of the repository have for them.
pub(crate) fn traces(wanted: impl Fn(&str) -> bool) -> Vec<(String, Arc<Trace>)> {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let mut traces = Vec::new();
    for (name, steps) in TRACES.iter().filter(|(name, _)| wanted(name.rsplit('/').next().unwrap_or(name))) {
        let trace = read.entry(name).or_insert_with(|| Arc::new(trace(name, steps)));
        traces.extend(["", "../", "scenarios/"].map(|before| (format!("{before}{name}"), Arc::clone(trace))));
    }
    traces
}

/// The trace of these steps, as `build.rs` writes them.
fn trace(name: &str, steps: &[u8]) -> Trace {
    let (mut times, mut time, mut shift) = (Vec::new(), 0, 0);
    for byte in steps {
        time += u32::from(byte & 127) << shift;
        shift += 7;
        if *byte < 128 {
            shift = 0;
            times.push(time);
        }
    }
    Trace::from_millis(name, times).expect("a test makes every one")
}
