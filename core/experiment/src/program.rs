//! Programs that are not ours as flows of a world in real time: what describes one, and what comes out of it.
//!
//! A [`Program`] is a table `[programs.NAME]` of a scenario; a flow over [`crate::Via::program`] runs it as two processes, whose packets are
//! known by their addresses. `docs/guide/programs.md` has the keys and the variables that its commands find.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use paceline_cc::names::is_plain;
use paceline_cc::{Nanos, Time};
use serde::{Deserialize, Serialize};

mod check;

pub use check::ProgramError;

/// A program with its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name: that of its table.
    #[serde(skip)]
    pub name: String,
    /// The command of the end that data comes from, for `/bin/sh -c`.
    pub sender: String,
    /// The command of the end that data goes to.
    pub receiver: String,
    /// Which of them listens, and starts first.
    #[serde(default = "default::server")]
    pub server: Side,
    /// When that one is ready.
    #[serde(default = "default::ready")]
    pub ready: Ready,
    /// How long it may take until then.
    #[serde(default = "default::ready_within")]
    pub ready_within: Nanos,
    /// Where it listens.
    #[serde(default = "default::port")]
    pub port: u16,
    /// Parameters and their values: defaults in a scenario's table, in a flow those that a contestant gave. In the environment in
    /// upper case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// A command that runs once a race, before anything is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// A command whose first line is its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Variables to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables to take over from paceline's own environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inherit: Vec<String>,
    /// Congestion control of the kernel's TCP at both ends; without it the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Settings below `net.` of both ends' namespaces.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// The user that it runs as; without it ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The signal at the end of its flow.
    #[serde(default = "default::stop")]
    pub stop: StopSignal,
    /// How long the side that is not the server may end by itself before the signal.
    #[serde(default = "default::wait")]
    pub linger: Nanos,
    /// How long after the signal it is killed.
    #[serde(default = "default::wait")]
    pub grace: Nanos,
    /// Exit statuses of an end by itself that are not a failure.
    #[serde(default = "default::exit")]
    pub exit: Vec<i32>,
    /// A bulk flow may end long before its time.
    #[serde(default)]
    pub early: bool,
    /// Numbers of its own for the record.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Figure>,
}

/// An end of a program's flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Where data comes from.
    Sender,
    /// Where it goes.
    Receiver,
}

impl Side {
    /// As scenarios, errors and variables have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }
}

/// When a server is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// A TCP listener or a bound UDP socket of its namespace has the port.
    Listens,
    /// This text stands in its output.
    Line(String),
    /// This long after its start.
    After(Nanos),
}

/// A signal that asks a program to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// Hangup.
    Hup,
    /// Interrupt, as Ctrl-C.
    Int,
    /// Quit.
    Quit,
    /// User-defined, the first.
    Usr1,
    /// User-defined, the second.
    Usr2,
    /// Termination.
    Term,
    /// Not to be caught.
    Kill,
}

/// A number in what a program wrote: `FILE#/JSON/pointer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Figure {
    /// The file, from the folder of the flow's outputs on: `sender.out`, `receiver/result.json`.
    pub file: String,
    /// Where in it, by RFC 6901.
    pub pointer: String,
}

impl TryFrom<String> for Figure {
    type Error = ProgramError;

    fn try_from(text: String) -> Result<Self, ProgramError> {
        check::figure(&text)
    }
}

impl From<Figure> for String {
    fn from(figure: Figure) -> Self {
        format!("{}#{}", figure.file, figure.pointer)
    }
}

/// Defaults of our choice.
mod default {
    use super::{Nanos, Ready, Side, StopSignal};

    /// As iperf3 and most measuring programs do.
    pub(super) fn server() -> Side {
        Side::Receiver
    }

    /// Needs nothing of the program.
    pub(super) fn ready() -> Ready {
        Ready::Listens
    }

    /// A Python program takes 0.3 s (measured), a loaded machine ten times as long.
    pub(super) fn ready_within() -> Nanos {
        Nanos::from_millis(5_000)
    }

    /// As our own flows from the first on; each flow has namespaces of its own.
    pub(super) fn port() -> u16 {
        20_000
    }

    pub(super) fn stop() -> StopSignal {
        StopSignal::Term
    }

    /// Twice a second to write results.
    pub(super) fn wait() -> Nanos {
        Nanos::from_millis(2_000)
    }

    pub(super) fn exit() -> Vec<i32> {
        vec![0]
    }
}

/// Where the programs of a run work. Who makes one has seen to it that the scenario's commands may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramPlaces {
    /// The race's folder: what `prepare` made.
    pub shared: PathBuf,
    /// The run's folders begin with this: `DIR/CONTESTANT-RUN`.
    pub outputs: PathBuf,
    /// The number of the run, from 1.
    pub run: u32,
    /// What programs said of themselves before the race, by their names.
    pub versions: BTreeMap<String, String>,
}

impl ProgramPlaces {
    /// The folder of this flow of the run.
    pub fn of_flow(&self, flow: usize) -> PathBuf {
        let mut path = self.outputs.clone().into_os_string();
        path.push(format!("-{flow}"));
        path.into()
    }
}

/// What a flow of a program left beside its packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramOutcome {
    /// What its command `version` said.
    pub version: Option<String>,
    /// The addresses of its sender and of its receiver, of IPv4 and of IPv6 where it has them.
    pub addresses: Vec<[IpAddr; 2]>,
    /// When its active side was started.
    pub start: Time,
    /// How each side ended.
    pub sender: ProgramEnd,
    /// How each side ended.
    pub receiver: ProgramEnd,
    /// Its own numbers, those that were there.
    pub figures: BTreeMap<String, f64>,
    /// The qlogs that it left.
    pub qlog: Vec<PathBuf>,
    /// What its packets showed.
    pub seen: SeenOutside,
}

/// How a side of a program ended, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramEnd {
    /// Its exit status; none where a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// When.
    pub ended: Time,
    /// CPU time of all its processes.
    pub cpu: Nanos,
    /// Its output was longer than what is kept.
    pub cut: bool,
}

/// What is seen of a flow from outside, beside delays and losses. `None`: not of this protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenOutside {
    /// `tcp`, `quic`, `udp`, `tcp+udp`, ...; none without a packet of data.
    pub protocol: Option<&'static str>,
    /// Connections that carried data.
    pub connections: u64,
    /// When the first data packet entered the path.
    pub first_data: Option<Time>,
    /// Segments that were sent again.
    pub retransmits: Option<u64>,
    /// Bytes that were acknowledged in order.
    pub acknowledged: Option<u64>,
    /// There were more connections than are followed.
    pub overfull: bool,
}

impl Program {
    /// One with these commands, and every default.
    pub fn new(name: &str, sender: &str, receiver: &str) -> Self {
        Self {
            name: name.to_owned(),
            sender: sender.to_owned(),
            receiver: receiver.to_owned(),
            server: default::server(),
            ready: default::ready(),
            ready_within: default::ready_within(),
            port: default::port(),
            options: BTreeMap::new(),
            prepare: None,
            version: None,
            env: BTreeMap::new(),
            inherit: Vec::new(),
            congestion: None,
            sysctl: BTreeMap::new(),
            user: None,
            stop: default::stop(),
            linger: default::wait(),
            grace: default::wait(),
            exit: default::exit(),
            early: false,
            figures: BTreeMap::new(),
        }
    }

    /// Its name with the options that differ from those of `table`, as contestants have it.
    pub fn text(&self, table: &Self) -> String {
        let given = self.options.iter().filter(|(name, value)| table.options.get(*name) != Some(*value));
        let given: Vec<String> = given.map(|(name, value)| format!("{name}={value}")).collect();
        if given.is_empty() { self.name.clone() } else { format!("{}:{}", self.name, given.join(",")) }
    }

    /// The same with the options of a contestant, `key=value,key=value`.
    ///
    /// # Errors
    /// An option that it does not have, or a value that is not a plain name.
    pub fn with(&self, options: &str) -> Result<Self, ProgramError> {
        let mut program = self.clone();
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if !is_plain(value) {
                return Err(ProgramError::Value { name: name.to_owned(), value: value.to_owned() });
            }
            let unknown = || ProgramError::Option {
                program: self.name.clone(),
                name: name.to_owned(),
                known: self.options.keys().cloned().collect(),
            };
            value.clone_into(program.options.get_mut(name).ok_or_else(unknown)?);
        }
        Ok(program)
    }

    /// The commands that it runs, with the keys that have them.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let once = [("prepare", self.prepare.as_deref()), ("version", self.version.as_deref())];
        let once = once.into_iter().filter_map(|(key, command)| Some((key, command?)));
        once.chain([("sender", self.sender.as_str()), ("receiver", self.receiver.as_str())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with these commands alone.
    fn plain() -> Program {
        Program::new("own", "exec s", "exec r")
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let text = r#"{ "sender": "exec s", "receiver": "exec r" }"#;
        let program = Program { name: "own".to_owned(), ..serde_json::from_str(text).unwrap() };
        assert_eq!(program, plain());
        assert_eq!((program.server, program.port, program.stop), (Side::Receiver, 20_000, StopSignal::Term));
        assert_eq!((program.ready.clone(), program.exit.clone(), program.early), (Ready::Listens, vec![0], false));
        assert_eq!(program.ready_within, Nanos::from_millis(5_000));
        assert_eq!(program.linger, Nanos::from_millis(2_000));
        assert_eq!(program.commands().collect::<Vec<_>>(), [("sender", "exec s"), ("receiver", "exec r")]);
        assert!(serde_json::from_str::<Program>(r#"{ "sender": "a", "receiver": "b", "servr": "sender" }"#).is_err());
        assert!(serde_json::from_str::<Program>(r#"{ "sender": "a" }"#).is_err());
    }

    #[test]
    fn options_come_from_the_table_and_from_the_contestant() {
        let table = [("cc", "cubic"), ("rate", "8M")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let table = Program { options: table.into(), ..plain() };
        assert_eq!(table.with("").unwrap().text(&table), "own");
        let given = table.with("rate=4M,cc=bbr").unwrap();
        assert_eq!(given.text(&table), "own:cc=bbr,rate=4M");
        assert_eq!(table.with("cc=cubic").unwrap().text(&table), "own", "a default is not written");
        let wrong = |options: &str| table.with(options).unwrap_err().to_string();
        assert_eq!(wrong("cx=bbr"), "own has no option 'cx'; did you mean cc?");
        assert_eq!(plain().with("cc=bbr").unwrap_err().to_string(), "own has no options; write own@program");
        for value in ["$(id)", "a;b", "", "a b"] {
            let text = format!("cc={value}");
            assert!(wrong(&text).contains("is not a plain name"), "{text}: {}", wrong(&text));
        }
    }

    #[test]
    fn a_figure_is_a_file_and_a_pointer() {
        let figure = Figure::try_from("sender.out#/end/sum/bytes".to_owned()).unwrap();
        assert_eq!((figure.file.as_str(), figure.pointer.as_str()), ("sender.out", "/end/sum/bytes"));
        assert_eq!(String::from(figure), "sender.out#/end/sum/bytes");
        for text in ["sender.out", "/etc/passwd#/a", "../x#/a", "sender/../../x#/a", "#/a", "sender.out#end"] {
            assert!(Figure::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn each_flow_has_a_folder() {
        let places =
            ProgramPlaces { shared: "s".into(), outputs: "d/iperf3-2".into(), run: 2, versions: BTreeMap::new() };
        assert_eq!(places.of_flow(1), PathBuf::from("d/iperf3-2-1"));
    }
}
