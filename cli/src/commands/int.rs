//! `paceline int`: in-band telemetry.

#[cfg(feature = "ebpf")]
mod ebpf;
mod nodes;

use std::process::ExitCode;

use clap::Subcommand;

/// In-band telemetry: hops write what they see into packets of TCP over IPv6, the receiving host takes it out and reports it.
///
/// Takes root, Linux 6.2 or newer, and a paceline built with the feature ebpf. Everything ends with the command that began it.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The sending host: put a header into the packets of chosen flows, with room for the hops.
    Source(nodes::SourceArgs),
    /// A hop: write what an interface's queue looks like into headers that leave through it.
    Transit(nodes::TransitArgs),
    /// The receiving host: take headers out of what arrives, and report what they say.
    Sink(nodes::SinkArgs),
}

impl Args {
    /// Whether it handles signals itself.
    pub(crate) fn moves(&self) -> bool {
        matches!(self.command, Command::Source(_) | Command::Transit(_) | Command::Sink(_))
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    here(&args.command)
}

#[cfg(feature = "ebpf")]
use ebpf::run as here;

#[cfg(not(feature = "ebpf"))]
fn here(_: &Command) -> anyhow::Result<ExitCode> {
    anyhow::bail!("int: this paceline has no eBPF; {}", super::kernel::BUILD)
}
