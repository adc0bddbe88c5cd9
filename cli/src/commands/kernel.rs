//! `paceline kernel`: TCP congestion controls in the kernel, by eBPF.

pub(super) mod doctor;
#[cfg(feature = "ebpf")]
mod ebpf;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;

use super::live;

/// TCP congestion controls of ours in the kernel, by eBPF: which there are, load one, give it to one command, watch its flows.
///
/// Loading takes root, Linux 6.4 or newer, and a paceline built with the feature ebpf. Nothing becomes a default, and nothing stays
/// loaded when what loaded it ends.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// The modules: what each can do, whether it runs on this kernel, and which processes have it loaded.
    List {
        /// One JSON object per module.
        #[arg(long)]
        json: bool,
    },
    /// Load a module until this command ends: any user's sockets may select it meanwhile.
    Load(LoadArgs),
    /// End the `paceline kernel load` that holds a module.
    Unload {
        #[command(flatten)]
        of: NameArgs,
        /// Which processes ended, as a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Run a command whose TCP connections, and no others, use a module; it is loaded where it is not.
    Run(RunArgs),
    /// Watch the connections of this network namespace that use a module.
    Watch(WatchArgs),
    /// Check what of this machine and of this build modules need. Exit status 2 when one cannot be loaded here.
    Doctor {
        /// As one JSON object.
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
pub(crate) struct NameArgs {
    /// The module, as `paceline kernel list` has it; or a controller such as copa:delta=0.1, which this process then runs for the
    /// flows of the module paceline.
    name: String,
}

#[derive(clap::Args)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    of: NameArgs,
    /// Make it the default of this network namespace until then; the one before is restored afterwards.
    #[arg(long)]
    default: bool,
    #[command(flatten)]
    reports: ReportsArgs,
    /// One JSON object once it is loaded, instead of a line for people.
    #[arg(long)]
    json: bool,
}

/// Reports of in-band telemetry.
#[derive(clap::Args)]
// Those of the bus mean something with them alone.
#[command(mut_group("BusArgs", |bus| bus.requires("telemetry")))]
pub(crate) struct ReportsArgs {
    /// Take in reports of in-band telemetry for its connections, as paceline int agent does; a controller that runs in this process
    /// is informed of them as well.
    #[arg(long)]
    telemetry: bool,
    #[command(flatten)]
    bus: super::int::BusArgs,
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    of: NameArgs,
    #[command(flatten)]
    reports: ReportsArgs,
    /// How it went, as JSON, once the command has ended; - for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The command and its arguments, after --.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    live: live::Live,
    /// Connections of every congestion control.
    #[arg(long)]
    all: bool,
}

impl Command {
    /// Whether it needs a process with a single thread, and handles signals itself.
    pub(crate) fn moves(&self) -> bool {
        matches!(self, Self::Load(_) | Self::Run(_))
    }
}

#[cfg(feature = "ebpf")]
pub(crate) use ebpf::{reentered, run};

/// How to get what this build lacks.
pub(super) const BUILD: &str = "build one with: cargo build --release -p paceline-cli --features ebpf";

#[cfg(not(feature = "ebpf"))]
pub(crate) fn run(command: &Command) -> anyhow::Result<std::process::ExitCode> {
    match command {
        Command::Doctor { json } => doctor::run(*json),
        _ => anyhow::bail!("kernel: this paceline has no eBPF; {BUILD}"),
    }
}

#[cfg(not(feature = "ebpf"))]
pub(crate) fn reentered() -> Option<std::process::ExitCode> {
    None
}
