//! Which datapath a flow goes over, and how.
//!
//! A datapath is a [`DatapathRow`] of [`ROWS`], at the end of a file of its own; [`register`] adds one at run time. A row says how the
//! text of its options is read and written, and makes the two ends of a flow in virtual time, where it can; what it offers to
//! controllers stands in its [`Datapath`]. Who runs its flows in real time is a row of `testbed::race`.

mod alcc;
mod icn;
mod program;
mod quic;
mod tcp;
mod udp;

use std::sync::{Arc, PoisonError, RwLock};

use paceline_cc::datapath::TCP;
use paceline_cc::{Datapath, Spec};
use paceline_transport::HEADER_BYTES;

use crate::endpoints::{FlowEnds, Making};
use crate::icn::Asking;
use crate::program::Program;

pub use alcc::Handover;
pub use tcp::DrivenBy;

/// A datapath.
#[derive(Debug)]
pub struct DatapathRow {
    /// What is known of it.
    pub datapath: &'static Datapath,
    /// The same for options that choose a way of using it.
    pub way: fn(&How) -> Option<&'static Datapath>,
    /// The options that its text takes, for an error; nothing where it takes none.
    pub takes: Option<&'static str>,
    /// Reads one option, `key=word`; nothing where it is not one.
    pub read: fn(&mut How, key: &str, word: &str) -> Option<()>,
    /// The options that differ from their defaults, as `read` takes them.
    pub write: fn(&How) -> Vec<String>,
    /// Whether a TCP with a controller of its own lies below.
    pub above: bool,
    /// Payload bytes of a full packet, where the datapath and not the flow decides.
    pub payload: Option<u32>,
    /// Bytes of the headers of a packet with data.
    pub headers: u32,
    /// Makes the ends of a flow in virtual time; nothing where the simulator does not have it.
    pub ends: Option<fn(Making<'_>) -> FlowEnds>,
}

/// How a datapath is used. Each row reads the options that it knows, and the rest keep their defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct How {
    /// Who drives a flow of the kernel's TCP in the real world; the first that can, where nothing is said.
    pub driven_by: Option<DrivenBy>,
    /// The controller of the TCP below.
    pub lower: Option<Spec>,
    /// How that TCP is used.
    pub handover: Handover,
    /// How named content is asked for.
    pub asking: Asking,
    /// The program that runs the flow.
    pub program: Option<Arc<Program>>,
}

/// Every datapath of paceline for its controllers, in the order of lists.
pub static ROWS: [&DatapathRow; 7] = [&udp::ROW, &tcp::ROW, &alcc::ROW, &icn::ROW, &quic::ROW, &quic::NOQ, &quic::S2N];

/// Those that were added.
static ADDED: RwLock<Vec<&'static DatapathRow>> = RwLock::new(Vec::new());

/// Adds a datapath for as long as the process runs, unless one of its name is there.
pub fn register(row: &'static DatapathRow) {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    if ROWS.iter().chain(added.iter()).all(|known| known.datapath.name != row.datapath.name) {
        added.push(row);
    }
}

/// Every datapath, those that were added last.
pub fn rows() -> Vec<&'static DatapathRow> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    ROWS.iter().chain(added.iter()).copied().collect()
}

/// A datapath, and how a flow uses it.
#[derive(Clone, Debug)]
pub struct Via {
    row: &'static DatapathRow,
    /// How it is used.
    pub how: How,
}

impl PartialEq for Via {
    fn eq(&self, other: &Self) -> bool {
        self.row.datapath.name == other.row.datapath.name && self.how == other.how
    }
}

impl Via {
    /// Over this datapath, as usual.
    pub fn over(row: &'static DatapathRow) -> Self {
        Self { row, how: How::default() }
    }

    /// Native datagrams.
    pub fn udp() -> Self {
        Self::over(&udp::ROW)
    }

    /// A TCP flow that the controller itself drives; in the real world by this, or by the first that can.
    pub fn tcp(driven_by: Option<DrivenBy>) -> Self {
        Self { row: &tcp::ROW, how: How { driven_by, ..How::default() } }
    }

    /// Above a TCP flow that the controller `lower` drives.
    pub fn alcc(lower: Spec, handover: Handover) -> Self {
        Self { row: &alcc::ROW, how: How { lower: Some(lower), handover, ..How::default() } }
    }

    /// Named content: where data goes has the controller and asks for it.
    pub fn icn(asking: Asking) -> Self {
        Self { row: &icn::ROW, how: How { asking, ..How::default() } }
    }

    /// QUIC by quinn, in the real world alone ([`crate::endpoints::check`]).
    pub fn quic() -> Self {
        Self::over(&quic::ROW)
    }

    /// A program that is not ours, with the controller that it has, in the real world alone; none where a scenario is yet to describe it.
    pub fn of_program(program: Option<Arc<Program>>) -> Self {
        Self { row: &program::ROW, how: How { program, ..How::default() } }
    }

    /// The program that runs the flow, where one does.
    pub fn program(&self) -> Option<&Arc<Program>> {
        self.how.program.as_ref()
    }

    /// Whether the application gets all bytes in their order, and lost ones are sent again for it.
    pub fn in_order(&self) -> bool {
        self.row.datapath.name == TCP.name
    }

    /// Its row of the table.
    pub fn row(&self) -> &'static DatapathRow {
        self.row
    }

    /// The controller of the TCP below, where there is one.
    pub fn lower(&self) -> Option<&Spec> {
        self.how.lower.as_ref()
    }

    /// Payload bytes of a full packet, where others have `mss`.
    pub fn payload(&self, mss: u32) -> u32 {
        self.row.payload.unwrap_or(mss)
    }

    /// What is known of it.
    pub fn datapath(&self) -> &'static Datapath {
        (self.row.way)(&self.how).unwrap_or(self.row.datapath)
    }

    /// Reads `key=word,key=word` into its options.
    ///
    /// # Errors
    /// The first option that the datapath does not take.
    pub fn read(&mut self, options: &str) -> Result<(), UnknownOption> {
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let read = option.split_once('=').and_then(|(key, word)| (self.row.read)(&mut self.how, key, word));
            read.ok_or_else(|| UnknownOption(paceline_cc::foreign::clipped(option)))?;
        }
        Ok(())
    }

    /// Its name and the options that differ from their defaults, as contestants have them; the TCP below is not among them.
    pub fn text(&self) -> String {
        let options = (self.row.write)(&self.how);
        let name = self.row.datapath.name;
        if options.is_empty() { name.to_owned() } else { format!("{name}:{}", options.join(",")) }
    }
}

/// An option that a datapath does not take, as given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no option '{0}'")]
pub struct UnknownOption(pub String);

impl DatapathRow {
    /// One without options, in the real world alone.
    const fn real(datapath: &'static Datapath) -> Self {
        Self {
            datapath,
            way: one_way,
            takes: None,
            read: reads_nothing,
            write: writes_nothing,
            above: false,
            payload: None,
            headers: HEADER_BYTES,
            ends: None,
        }
    }
}

/// For a row that is used in one way.
fn one_way(_: &How) -> Option<&'static Datapath> {
    None
}

/// For a row without options.
fn reads_nothing(_: &mut How, _: &str, _: &str) -> Option<()> {
    None
}

/// For a row without options.
fn writes_nothing(_: &How) -> Vec<String> {
    Vec::new()
}

/// The value that stands beside this name.
fn named<T: Copy>(values: &[(&str, T)], name: &str) -> Option<T> {
    values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// The name that stands beside this value.
fn name_of<'n, T: PartialEq>(values: &[(&'n str, T)], value: &T) -> Option<&'n str> {
    values.iter().find(|(_, known)| known == value).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use paceline_cc::Ability;
    use paceline_cc::datapath::DATAPATHS;

    use super::*;

    #[test]
    fn the_rows_are_the_datapaths() {
        let rows: Vec<&str> = ROWS.iter().map(|row| row.datapath.name).collect();
        assert_eq!(rows, DATAPATHS.iter().map(|datapath| datapath.name).collect::<Vec<_>>());
        for row in ROWS {
            assert_eq!(row.ends.is_some(), row.datapath.simulated, "{}", row.datapath.name);
        }
    }

    #[test]
    fn a_program_stands_beside_the_table_with_a_controller_that_is_a_name() {
        let via = Via::of_program(Some(Arc::new(Program::new("own", "exec s", "exec r"))));
        assert_eq!((via.text().as_str(), via.program().map(|program| program.port)), ("program", Some(20_000)));
        assert!(via.row().ends.is_none() && rows().iter().all(|row| row.datapath.name != "program"));
        let lacks = |ability| via.datapath().lacks.iter().filter(|lack| lack.ability == ability).count();
        assert!(Ability::ALL.into_iter().all(|ability| lacks(ability) == 1));
        let spec = Spec::elsewhere("own:cc=bbr");
        assert_eq!((spec.to_string().as_str(), via.datapath().carries(&spec)), ("own:cc=bbr", Ok(())));
        assert!(spec != Spec::elsewhere("own") && spec == spec.clone());
        assert!(paceline_cc::registry::find(spec.entry().name).is_none());
        assert_eq!(spec.build(&paceline_cc::Env::default()).window(), 65_536 * 1448);
    }

    #[test]
    fn tcp_names_all_who_may_drive_it() {
        let names = paceline_cc::names::either(&DrivenBy::ALL.map(DrivenBy::name));
        assert_eq!(tcp::ROW.takes, Some(format!("driven_by={names}").as_str()));
    }
}
