//! What this machine allows of congestion control above TCP.

use std::time::Duration;

use paceline_alcc::Acks;
use paceline_emulator::machine::{Feature, Fitness};
use paceline_preload::Library;

use crate::complaint;

/// How long a loopback connection may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts threads: comes after everything that needs to be alone.
pub(super) fn features() -> Vec<Feature> {
    vec![Feature { name: "shim", verdict: library() }, Feature { name: "acks from stamps", verdict: stamps() }]
}

fn library() -> Fitness {
    match Library::find() {
        Ok(Library { path, elf }) => Fitness::Works(format!("{}, {}", path.display(), elf.architecture())),
        Err(error) => Fitness::No(complaint::with_causes(&error)),
    }
}

/// Asks the kernel by doing it.
fn stamps() -> Fitness {
    match paceline_alcc::acks_here(PATIENCE) {
        Ok(Acks::Stamps) => Fitness::Works("the kernel reports when each chunk was acknowledged".to_owned()),
        Ok(_) => Fitness::FallsBack("the kernel gives no time stamps; TCP_INFO is asked every 1 to 5 ms".to_owned()),
        Err(error) => Fitness::No(format!("a loopback connection failed ({error})")),
    }
}
