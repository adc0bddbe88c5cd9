//! `paceline icn serve`: a content router with all it serves in its own store.

use std::path::PathBuf;

use paceline_cc::units::Bytes;
use paceline_named::router::{KernelStoreConfig, Server, ServerConfig};

use super::announce::Announce;
use super::running;

/// Serve the objects of a store by name.
///
/// Nothing is remembered of receivers. Addresses have to prove that they are not false before they get more than three times what they
/// sent.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The store: a folder into which `paceline icn publish` put something.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    #[command(flatten)]
    answering: running::Answering,
    /// Threads that share the address.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Answer what is asked for often, unit by unit, in the kernel, out of so much of its memory, such as 256MB (needs eBPF, root, and native XDP).
    #[arg(long, value_name = "BYTES", requires = "interface")]
    kernel_store: Option<Bytes>,
    /// The interface that requests for --kernel-store come in by.
    #[arg(long, value_name = "NAME", requires = "kernel_store")]
    interface: Option<String>,
    #[command(flatten)]
    announcing: Announce,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let config = ServerConfig { threads: args.threads.into(), ..args.answering.config(&args.store)? };
    let kernel = args.kernel_store.zip(args.interface.clone());
    let kernel = kernel.map(|(Bytes(bytes), interface)| KernelStoreConfig { bytes, interface });
    let mut announcer = None;
    let start = || {
        let server = Server::start_with(&config, kernel.as_ref())?;
        announcer = args.announcing.start(&config.store, server.address())?;
        Ok(server)
    };
    running::run(start, args.answering.json)
}
