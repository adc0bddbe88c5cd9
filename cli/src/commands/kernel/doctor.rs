//! What of this machine and of this build modules need: for `paceline kernel doctor` and `paceline doctor`.

use std::process::ExitCode;

use paceline_emulator::command::find;
use paceline_emulator::machine::{Feature, Fitness, loading};

use super::BUILD;
use crate::commands::verdicts::{describe, features_as_json};
use crate::exit::Exit;

pub(super) fn run(json: bool) -> anyhow::Result<ExitCode> {
    let features = features();
    let features: Vec<&Feature> = features.iter().collect();
    if json {
        crate::print::out(&format!("{}\n", features_as_json(&features)))?;
    } else {
        let mut text = String::new();
        describe(&mut text, &features)?;
        crate::print::out(&text)?;
    }
    let missing = features.iter().any(|feature| matches!(feature.verdict, Fitness::No(_)));
    Ok(if missing { Exit::Refused.into() } else { ExitCode::SUCCESS })
}

/// One feature for each thing that can be missing.
pub(in crate::commands) fn features() -> Vec<Feature> {
    let build = Feature { name: "kernel: build", verdict: build() };
    let cgroup = Feature { name: "kernel: cgroup v2", verdict: cgroup() };
    [build].into_iter().chain(loading()).chain([cgroup]).collect()
}

fn build() -> Fitness {
    if cfg!(feature = "ebpf") {
        return Fitness::Works("this paceline has the feature ebpf".to_owned());
    }
    let tools = match find("clang".as_ref()) {
        Ok(_) => "",
        Err(_) => "; before that: apt-get install clang libelf-dev zlib1g-dev pkg-config",
    };
    Fitness::No(format!("this paceline has no eBPF; {BUILD}{tools}"))
}

#[cfg(feature = "ebpf")]
fn cgroup() -> Fitness {
    match paceline_kernel::Cgroup::create() {
        Ok(cgroup) => {
            let above = cgroup.place().parent().unwrap_or(cgroup.place()).display();
            Fitness::Works(format!("a command gets one below {above}"))
        }
        Err(error) => Fitness::No(error.to_string()),
    }
}

#[cfg(not(feature = "ebpf"))]
fn cgroup() -> Fitness {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    match mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4)) {
        Some(place) => Fitness::Works(place.to_owned()),
        None => Fitness::No("no cgroup v2 is mounted; mount -t cgroup2 none /sys/fs/cgroup".to_owned()),
    }
}
