//! The packets of a race in a file.

use std::io;
use std::path::Path;

use paceline_emulator::emulator::EmulatorTap;
use paceline_emulator::log::{LogLost, Pcapng};
use paceline_experiment::Graph;
use paceline_files::Draft;
use paceline_linux::clock::Clock;

/// Begins a capture of the headers on all links, by their names.
pub(super) fn begin(file: &Path, clock: Clock, graph: &Graph) -> Result<Box<dyn EmulatorTap>, LogLost> {
    let name = file.display().to_string();
    let links: Vec<&str> = graph.hops().iter().step_by(2).map(|hop| hop.name.as_str()).collect();
    let lost = |error: io::Error| LogLost { name: name.clone(), problem: error.into() };
    let draft = Draft::regular(file).map_err(|error| lost(error.source))?;
    let place = |draft: Draft| draft.finish().map_err(io::Error::other);
    Ok(Box::new(Pcapng::new(&name, draft, clock, Pcapng::HEADERS, &links, place).map_err(lost)?))
}
