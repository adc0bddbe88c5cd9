//! `paceline doctor`: what this machine allows.

mod alcc;

use std::fmt::Write;
use std::process::ExitCode;

use paceline_emulator::machine::{Checkup, Fact, Feature, Fitness, examine};
use paceline_lab::version;
use paceline_named::router::Server;
use serde_json::{Map, Value, json};

use super::verdicts::{describe, features_as_json};

/// Check this machine: which features work here, which work in part, and why others do not.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// As one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut checkup = examine();
    checkup.facts.insert(0, this_build());
    checkup.others.push(quic());
    checkup.others.extend(super::kernel::doctor::features());
    checkup.others.push(kernel_store());
    checkup.others.extend(alcc::features());
    let features: Vec<&Feature> = checkup.emulation.iter().chain(&checkup.others).collect();
    if args.json {
        crate::print::out(&format!("{}\n", as_json(&checkup, &features)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    let width = checkup.facts.iter().map(|fact| fact.name.len()).max().unwrap_or(0);
    for fact in &checkup.facts {
        writeln!(text, "{:width$}  {}", fact.name, fact.value)?;
    }
    text.push('\n');
    describe(&mut text, &features)?;
    crate::print::out(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The version and the features that it was built with, and without.
fn this_build() -> Fact {
    let features = [
        ("dns", cfg!(feature = "dns")),
        ("ebpf", cfg!(feature = "ebpf")),
        ("parquet", cfg!(feature = "parquet")),
        ("quic", cfg!(feature = "quic")),
        ("quic-noq", cfg!(feature = "quic-noq")),
        ("quic-s2n", cfg!(feature = "quic-s2n")),
    ];
    let named = |is: bool| {
        let names: Vec<&str> = features.iter().filter(|(_, has)| *has == is).map(|(name, _)| *name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let value = format!("{}; features: {}; without: {}", version::build(), named(true), named(false));
    Fact { name: "paceline", value }
}

/// Needs nothing of the machine, and of this program that it was built in.
fn quic() -> Feature {
    let verdict = if cfg!(feature = "quic") {
        Fitness::Works("in user space".to_owned())
    } else {
        Fitness::No("not in this build; cargo build --release -p paceline-cli --features quic".to_owned())
    };
    Feature { name: "quic", verdict }
}

fn kernel_store() -> Feature {
    let works = "on interfaces whose drivers have native XDP";
    let tried = Server::try_kernel_store().map(|()| Fitness::Works(works.to_owned()));
    Feature { name: "kernel store", verdict: tried.unwrap_or_else(|error| Fitness::No(error.to_string())) }
}

fn as_json(checkup: &Checkup, features: &[&Feature]) -> Value {
    let facts: Map<String, Value> =
        checkup.facts.iter().map(|fact| (fact.name.to_owned(), Value::from(fact.value.clone()))).collect();
    let features = features_as_json(features);
    json!({ "machine": facts, "features": features, "version": version::VERSION, "commit": version::commit() })
}
