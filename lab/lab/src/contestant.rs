//! Who races: `CONTROLLER@VIA`, such as `copa:delta=0.1@udp`, `cubic@tcp`, `copa@tcp:driven_by=agent`, `sprout@alcc/bbr`, `copa@alcc:mode=inline/reno`,
//! `bbr@icn:ceiling=window`. And `NAME@program`, such as `iperf3:cc=bbr@program`: a program that is not ours, described by a table of
//! the scenario, to which [`Contestant::bound`] binds it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use paceline_cc::datapath::{PROGRAM, TCP};
use paceline_cc::foreign::{clipped, printable};
use paceline_cc::names::{either, is_plain, nearest};
use paceline_cc::{Misfit, Spec, SpecError};
use paceline_experiment::Program;
use paceline_experiment::program::ProgramError;
use paceline_experiment::via::{UnknownOption, Via, rows};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::input;

/// The TCP under `@alcc` where neither the contestant nor its controller names one (Linux's default).
const LOWER: &str = "cubic";
/// The TCP under `@alcc/open`, whose window is never the limit: in the real world the open window (docs/guide/kernel.md), 65536
/// packets.
const OPEN: &str = "fixed:window=65536";

/// A controller over a datapath.
#[derive(Clone, Debug, PartialEq)]
pub struct Contestant {
    /// The controller.
    pub controller: Spec,
    /// The datapath.
    pub via: Via,
}

/// Why a contestant cannot race.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ContestantError {
    /// No datapath is named.
    #[error("'{0}' names no datapath; write {list}", list = over_any(.0))]
    NoVia(String),
    /// The datapath is unknown.
    #[error("'{text}': unknown datapath '{via}'; {hint}")]
    UnknownVia {
        /// The contestant as given.
        text: String,
        /// The datapath as given.
        via: String,
        /// The nearest ones.
        hint: String,
    },
    /// Only `alcc` has a TCP underneath to name.
    #[error("'{text}': only alcc runs above a named TCP; write '@{via}'")]
    NoLower {
        /// The contestant as given.
        text: String,
        /// The datapath.
        via: String,
    },
    /// What stands behind the datapath is not one of its options.
    #[error("'{text}': {via} takes {takes}, not '{option}'")]
    Option {
        /// The contestant as given.
        text: String,
        /// The datapath.
        via: &'static str,
        /// The options that it takes.
        takes: &'static str,
        /// The option as given.
        option: String,
    },
    /// The controller needs what the datapath lacks.
    #[error("'{text}': {misfit}")]
    Misfit {
        /// The contestant as given.
        text: String,
        /// What it needs, and where it can run.
        misfit: Misfit,
    },
    /// The controller of the TCP under `alcc` needs what TCP lacks.
    #[error("'{text}': below, {problem}; write '@alcc/cubic'", problem = misfit.problem())]
    Lower {
        /// The contestant as given.
        text: String,
        /// What the lower controller needs.
        misfit: Misfit,
    },
    /// No program has this name.
    #[error("'{text}': no program '{name}'; {hint}")]
    NoProgram {
        /// The contestant as given.
        text: String,
        /// The program as given.
        name: String,
        /// The nearest, or where tables come from.
        hint: String,
    },
    /// A program does not take what is wanted of it.
    #[error("'{text}': {problem}")]
    Program {
        /// The contestant as given.
        text: String,
        /// What is wrong.
        problem: Box<ProgramError>,
    },
    /// The controller's own text is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// The datapaths by name.
fn names() -> Vec<&'static str> {
    rows().iter().map(|row| row.datapath.name).collect()
}

/// `'reno@udp', 'reno@tcp' or ...`.
fn over_any(controller: &str) -> String {
    either(&names().into_iter().map(|name| format!("'{controller}@{name}'")).collect::<Vec<_>>())
}

fn default_lower(controller: &Spec) -> &'static str {
    controller.entry().lower.unwrap_or(LOWER)
}

impl Contestant {
    /// Whether a program that is not ours runs its flows.
    pub fn is_program(&self) -> bool {
        self.via.row().datapath.name == PROGRAM.name
    }

    /// The same, where it is a program, with the one of these that it names, whose options it has.
    ///
    /// # Errors
    /// [`ContestantError::NoProgram`] and [`ContestantError::Program`].
    pub fn bound(self, programs: &BTreeMap<String, Program>) -> Result<Self, Box<ContestantError>> {
        if !self.is_program() {
            return Ok(self);
        }
        let (text, wanted) = (self.to_string(), self.controller.to_string());
        let (name, options) = wanted.split_once(':').unwrap_or((&wanted, ""));
        let Some(table) = programs.get(name) else {
            let hint = match programs.len() {
                0 => format!(
                    "add a table [programs.{name}], or programs_from = \"FILE\", such as scenarios/programs.toml"
                ),
                _ => nearest(name, programs.keys().map(String::as_str)),
            };
            return Err(Box::new(ContestantError::NoProgram { text, name: clipped(name), hint }));
        };
        let refused = |problem| ContestantError::Program { text, problem: Box::new(problem) };
        let program = table.with(options).map_err(refused).map_err(Box::new)?;
        Ok(Self { controller: Spec::elsewhere(&program.text(table)), via: Via::of_program(Some(Arc::new(program))) })
    }

    /// The datapath as text: `udp`, `tcp`, `alcc`, `alcc/bbr`.
    pub fn via_text(&self) -> String {
        let via = self.via.text();
        match self.via.lower().map(Spec::to_string).filter(|lower| lower != default_lower(&self.controller)) {
            Some(lower) if lower == OPEN => format!("{via}/open"),
            Some(lower) => format!("{via}/{lower}"),
            None => via,
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.controller, self.via_text())
    }
}

impl FromStr for Contestant {
    type Err = ContestantError;

    fn from_str(text: &str) -> Result<Self, ContestantError> {
        let text = text.trim();
        let shown = || printable(text, 60);
        let Some((controller, via)) = text.split_once('@') else {
            // A wrong name is the first thing to fix.
            input::controller(text)?;
            return Err(ContestantError::NoVia(shown()));
        };
        if via == PROGRAM.name {
            let controller = printable(controller, usize::MAX);
            let name = controller.split(':').next().unwrap_or_default();
            if !is_plain(name) {
                let hint = "write a name of [programs] before the @".to_owned();
                return Err(ContestantError::NoProgram { text: shown(), name: clipped(name), hint });
            }
            return Ok(Self { controller: Spec::elsewhere(&controller), via: Via::of_program(None) });
        }
        let controller = input::controller(controller)?;
        let find = |name: &str| rows().into_iter().find(|row| row.datapath.name == name);
        // A datapath may have a slash in its name.
        let lower = via.split_once('/').filter(|_| find(via).is_none());
        let (over, lower) = lower.map_or((via, None), |(over, lower)| (over, Some(lower)));
        let with_options = over.split_once(':').and_then(|(name, options)| {
            let row = find(name)?;
            row.takes.map(|takes| (row, takes, options))
        });
        let mut via = match with_options {
            Some((row, takes, options)) => {
                let mut via = Via::over(row);
                let unknown = |UnknownOption(option)| ContestantError::Option {
                    text: shown(),
                    via: row.datapath.name,
                    takes,
                    option,
                };
                via.read(options).map_err(unknown)?;
                via
            }
            None => Via::over(find(over).ok_or_else(|| unknown_via(shown(), over))?),
        };
        if via.row().above {
            let lower: Spec = match lower {
                None => default_lower(&controller).parse()?,
                Some("open") => OPEN.parse()?,
                Some(lower) => input::controller(lower)?,
            };
            TCP.carries(&lower).map_err(|misfit| ContestantError::Lower { text: shown(), misfit })?;
            via.how.lower = Some(lower);
        } else if let Some(lower) = lower {
            let stacks = names().iter().any(|name| name.strip_prefix(over).is_some_and(|rest| rest.starts_with('/')));
            let via = over.to_owned();
            let unknown = || unknown_via(shown(), &format!("{over}/{lower}"));
            return Err(if stacks { unknown() } else { ContestantError::NoLower { text: shown(), via } });
        }
        via.datapath().carries(&controller).map_err(|misfit| ContestantError::Misfit { text: shown(), misfit })?;
        Ok(Self { controller, via })
    }
}

fn unknown_via(text: String, via: &str) -> ContestantError {
    let hint = if via.contains('@') {
        "put a comma between contestants".to_owned()
    } else {
        nearest(via, names().into_iter())
    };
    ContestantError::UnknownVia { text, via: clipped(via), hint }
}

impl<'de> Deserialize<'de> for Contestant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Contestant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Splits a list at its commas, but not at those between a controller's parameters: a piece whose text before the first
/// `=` names no controller (`delta` in `copa:mode=default,delta=0.1@udp`) continues the one before it.
pub fn split_list(list: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for piece in list.split(',') {
        let continues = piece.split_once('=').is_some_and(|(key, _)| !key.contains([':', '@']));
        match items.last_mut() {
            Some(last) if continues => {
                last.push(',');
                last.push_str(piece);
            }
            _ => items.push(piece.to_owned()),
        }
    }
    items.iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_parameters_together() {
        assert_eq!(
            split_list("copa:mode=default,delta=0.1@udp, cubic@tcp,reno@alcc/fixed:window=3,rate=2,x@y"),
            ["copa:mode=default,delta=0.1@udp", "cubic@tcp", "reno@alcc/fixed:window=3,rate=2", "x@y"]
        );
        assert_eq!(
            split_list("copa@alcc:mode=inline,acks=info/bbr,cubic@tcp"),
            ["copa@alcc:mode=inline,acks=info/bbr", "cubic@tcp"]
        );
        assert!(split_list(" , ").is_empty());
    }

    #[test]
    fn text_round_trips() {
        for text in [
            "reno@tcp",
            "copa@tcp:driven_by=agent",
            "reno@quic",
            "copa@quic/noq",
            "prague:start=chirp@quic/s2n",
            "fixed:window=7@udp",
            "copa@alcc",
            "sprout@alcc/bbr",
            "reno@alcc/fixed:window=3",
            "copa@alcc:mode=inline",
            "copa@alcc:acks=info/reno",
            "sprout@alcc:mode=framed/bbr",
            "copa@alcc:mode=queue,acks=stamps",
            "copa@alcc:buffer=100kB/reno",
            "copa@alcc:acks=stamps,share=on/bbr",
            "copa@alcc/open",
            "bbr@icn",
            "bbr@icn:aggregation=one,triple=off,ceiling=window,disorder=4",
            "bbr@icn:aggregation=20,ceiling=unlimited",
        ] {
            assert_eq!(text.parse::<Contestant>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_program_is_bound_to_its_table() {
        let options = [("cc", "cubic"), ("rate", "8M")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let program = Program { options: options.into(), ..Program::new("iperf3", "s", "r") };
        let programs = BTreeMap::from([("iperf3".to_owned(), program)]);
        let bound = |text: &str| text.parse::<Contestant>().unwrap().bound(&programs);
        let bbr = bound("iperf3:rate=8M,cc=bbr@program").unwrap();
        assert_eq!((bbr.to_string().as_str(), bbr.is_program()), ("iperf3:cc=bbr@program", true));
        assert_eq!(bbr.via.program().unwrap().options["cc"], "bbr");
        assert_eq!(bound("cubic@tcp").unwrap().to_string(), "cubic@tcp");
        let wrong = |text: &str| bound(text).unwrap_err().to_string();
        assert_eq!(wrong("iperf@program"), "'iperf@program': no program 'iperf'; did you mean iperf3?");
        assert_eq!(wrong("iperf3:c=bbr@program"), "'iperf3:c=bbr@program': iperf3 has no option 'c'; did you mean cc?");
        let none = "own@program".parse::<Contestant>().unwrap().bound(&BTreeMap::new()).unwrap_err().to_string();
        assert!(none.contains("add a table [programs.own], or programs_from"), "{none}");
        let parse = |text: &str| text.parse::<Contestant>().unwrap_err().to_string();
        assert_eq!(parse("@program"), "'@program': no program ''; write a name of [programs] before the @");
        assert!(parse("../x@program").starts_with("'../x@program': no program '../x'"), "{}", parse("../x@program"));
    }

    #[test]
    fn errors_name_the_fix() {
        let cases = [
            (
                "reno",
                "'reno' names no datapath; write 'reno@udp', 'reno@tcp', 'reno@alcc', 'reno@icn', 'reno@quic', 'reno@quic/noq' or 'reno@quic/s2n'",
            ),
            ("rno", "unknown controller 'rno'; did you mean reno?"),
            ("reno@tpc", "'reno@tpc': unknown datapath 'tpc'; did you mean tcp?"),
            ("reno@tcp b@tcp", "'reno@tcp b@tcp': unknown datapath 'tcp b@tcp'; put a comma between contestants"),
            (
                "bbr@icn:ceiling=none",
                "'bbr@icn:ceiling=none': icn takes aggregation=paper, one or UNITS (1 to 64), triple=on or off, ceiling=bounded, window or unlimited, and disorder=UNITS (1 to 64), not 'ceiling=none'",
            ),
            (
                "sprout@icn",
                "'sprout@icn': sprout needs its receiver half at the other end, and a router runs nothing of a controller; use @udp or @alcc",
            ),
            (
                "sprout@tcp",
                "'sprout@tcp': sprout needs its receiver half at the other end, and TCP can't carry its feedback; use @udp or @alcc",
            ),
            (
                "copa@alcc:mode=fast",
                "'copa@alcc:mode=fast': alcc takes mode=queue, inline or framed, acks=stamps or info, buffer=BYTES and share=on, not 'mode=fast'",
            ),
            (
                "copa@tcp:mode=inline",
                "'copa@tcp:mode=inline': tcp takes driven_by=kernel, module or agent, not 'mode=inline'",
            ),
            (
                "sprout@alcc:mode=inline",
                "'sprout@alcc:mode=inline': sprout needs its receiver half at the other end, and only frames carry its feedback; use mode=framed",
            ),
            (
                "cubic:start=chirp@alcc:mode=inline",
                "'cubic:start=chirp@alcc:mode=inline': start=chirp needs an exact gap before each packet, and inline the kernel is given only a rate; use mode=queue",
            ),
            (
                "dctcp@quic",
                "'dctcp@quic': dctcp needs an exact count of ECN marks, and quinn reports only that something was marked; use @udp, @tcp, @alcc or @quic/s2n",
            ),
            (
                "reno@alcc/sprout",
                "'reno@alcc/sprout': below, sprout needs its receiver half at the other end, and TCP can't carry its feedback; write '@alcc/cubic'",
            ),
            ("reno@udp/reno", "'reno@udp/reno': only alcc runs above a named TCP; write '@udp'"),
            (
                "prague@quic/noq",
                "'prague@quic/noq': prague needs an exact count of ECN marks, and noq reports only that something was marked; use @udp, @tcp, @alcc or @quic/s2n",
            ),
            (
                "sprout@quic/s2n",
                "'sprout@quic/s2n': sprout needs its receiver half at the other end, and QUIC as s2n-quic speaks it has no frame for its feedback; use @udp or @alcc",
            ),
            ("reno@quic/nqo", "'reno@quic/nqo': unknown datapath 'quic/nqo'; did you mean quic/noq?"),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Contestant>().unwrap_err().to_string(), error);
        }
    }
}
