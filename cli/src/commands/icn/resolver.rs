//! `paceline icn resolver`.

use std::path::PathBuf;

use paceline_icn::resolve::{Limits, ResolveKey};
use paceline_named::resolver::{PORT, Service, ServiceConfig};

use super::super::ending::Ends;
use super::super::{count, listening, udp};
use super::places::address;
use crate::complaint;

/// Run the service that knows where objects are: routers announce what they have, requesters ask.
///
/// Those with the key may announce; anybody may ask. An answer is never longer than its question.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen.
    #[arg(long, value_name = "ADDR", default_value_t = format!("127.0.0.1:{PORT}"))]
    listen: String,
    /// The key that announcing routers share with it: a file with 64 hexadecimal digits that no other user may read.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Keep the table in this file over a restart, however it is ended; without it routers have to announce again.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Pairs of an object and a place at most.
    #[arg(long, value_name = "N", default_value_t = Limits::default().entries, value_parser = count::<usize>)]
    entries: usize,
    /// One JSON object at the start instead of a line for people.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let config = ServiceConfig {
        listen: address("--listen", &args.listen, PORT)?,
        key: ResolveKey::new(&udp::secret(&args.key)?),
        limits: Limits { entries: args.entries, ..Limits::default() },
        state: args.state.clone(),
    };
    let ends = Ends::begin()?;
    let service = Service::bind(&config)?;
    let ending = ends.watched()?;
    crate::print::out(&listening(service.local_addr()?, args.json))?;
    service.run(ending.flag(), &mut |trouble| complaint::print(&trouble.to_string()))?;
    Ok(())
}
