//! Who races: `CONTROLLER@VIA`, such as `copa:delta=0.1@udp`, `cubic@tcp`, `copa@tcp:driven_by=agent`, `sprout@alcc/bbr`, `copa@alcc:mode=inline/reno`,
//! `bbr@icn:ceiling=window`.

use std::fmt;
use std::str::FromStr;

mod icn;

use paceline_cc::datapath::{ALCC, DATAPATHS, TCP};
use paceline_cc::foreign::{clipped, printable};
use paceline_cc::names::{either, nearest};
use paceline_cc::{Bytes, Misfit, Spec, SpecError};
use paceline_experiment::{Acks, DrivenBy, Handover, Mode, Via};
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
    /// What stands behind `alcc:` is not one of its options.
    #[error(
        "'{text}': alcc takes mode=queue, inline or framed, acks=stamps or info, buffer=BYTES and share=on, not '{option}'"
    )]
    Handover {
        /// The contestant as given.
        text: String,
        /// The option as given.
        option: String,
    },
    /// What stands behind `tcp:` is not one of its options.
    #[error("'{text}': tcp takes driven_by={list}, not '{option}'", list = either(&DrivenBy::ALL.map(DrivenBy::name)))]
    DrivenBy {
        /// The contestant as given.
        text: String,
        /// The option as given.
        option: String,
    },
    /// What stands behind `icn:` is not one of its options.
    #[error(
        "'{text}': icn takes aggregation=paper, one or UNITS (1 to 64), triple=on or off, ceiling=bounded, window or unlimited, \
         and disorder=UNITS (1 to 64), not '{option}'"
    )]
    Asking {
        /// The contestant as given.
        text: String,
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
    /// The controller's own text is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// The datapaths by name.
fn names() -> Vec<&'static str> {
    DATAPATHS.iter().map(|datapath| datapath.name).collect()
}

/// `'reno@udp', 'reno@tcp' or ...`.
fn over_any(controller: &str) -> String {
    either(&names().into_iter().map(|name| format!("'{controller}@{name}'")).collect::<Vec<_>>())
}

fn default_lower(controller: &Spec) -> &'static str {
    controller.entry().lower.unwrap_or(LOWER)
}

impl Contestant {
    /// The datapath as text: `udp`, `tcp`, `alcc`, `alcc/bbr`.
    pub fn via_text(&self) -> String {
        match &self.via {
            Via::Udp | Via::Tcp(None) | Via::Quic => self.via.datapath().name.to_owned(),
            Via::Icn(asking) => format!("icn{}", icn::text(*asking)),
            Via::Tcp(Some(driven_by)) => format!("tcp:driven_by={}", driven_by.name()),
            Via::Alcc(lower, handover) => match lower.to_string() {
                lower if lower == default_lower(&self.controller) => format!("alcc{}", handover_text(*handover)),
                lower if lower == OPEN => format!("alcc{}/open", handover_text(*handover)),
                lower => format!("alcc{}/{lower}", handover_text(*handover)),
            },
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
        let controller = input::controller(controller)?;
        let (via, lower) = match via.split_once('/') {
            Some((via, lower)) => (via, Some(lower)),
            None => (via, None),
        };
        if lower.is_some() && via != ALCC.name && names().contains(&via) {
            return Err(ContestantError::NoLower { text: shown(), via: via.to_owned() });
        }
        let (via, options) = match via.split_once(':') {
            Some((via @ ("alcc" | "tcp" | "icn"), options)) => (via, options),
            _ => (via, ""),
        };
        let via = match via {
            "udp" => Via::Udp,
            "tcp" => Via::Tcp(driven_by(options).map_err(|option| option.of_tcp(shown()))?),
            "alcc" => {
                let lower: Spec = match lower {
                    None => default_lower(&controller).parse()?,
                    Some("open") => OPEN.parse()?,
                    Some(lower) => input::controller(lower)?,
                };
                let handover = handover(options).map_err(|option| option.of_alcc(shown()))?;
                TCP.carries(&lower).map_err(|misfit| ContestantError::Lower { text: shown(), misfit })?;
                Via::Alcc(lower, handover)
            }
            "quic" => Via::Quic,
            "icn" => Via::Icn(icn::asking(options).map_err(|option| option.of_icn(shown()))?),
            other => {
                let via = clipped(other);
                let hint = if other.contains('@') {
                    "put a comma between contestants".to_owned()
                } else {
                    nearest(other, names().into_iter())
                };
                return Err(ContestantError::UnknownVia { text: shown(), via, hint });
            }
        };
        via.datapath().carries(&controller).map_err(|misfit| ContestantError::Misfit { text: shown(), misfit })?;
        Ok(Self { controller, via })
    }
}

const MODES: [(&str, Mode); 3] = [("queue", Mode::Queue), ("inline", Mode::Inline), ("framed", Mode::Framed)];
const ACKS: [(&str, Acks); 2] = [("stamps", Acks::Stamps), ("info", Acks::Info)];

/// An option that its datapath does not take, as given.
struct Unknown(String);

impl Unknown {
    fn new(option: &str) -> Self {
        Self(clipped(option))
    }

    fn of_tcp(self, text: String) -> ContestantError {
        ContestantError::DrivenBy { text, option: self.0 }
    }

    fn of_alcc(self, text: String) -> ContestantError {
        ContestantError::Handover { text, option: self.0 }
    }

    fn of_icn(self, text: String) -> ContestantError {
        ContestantError::Asking { text, option: self.0 }
    }
}

/// Reads `driven_by=agent`, or nothing.
fn driven_by(options: &str) -> Result<Option<DrivenBy>, Unknown> {
    if options.is_empty() {
        return Ok(None);
    }
    let named = |by: &DrivenBy| options.strip_prefix("driven_by=") == Some(by.name());
    let found = DrivenBy::ALL.into_iter().find(named);
    found.map(Some).ok_or_else(|| Unknown::new(options))
}

/// Reads `mode=inline,acks=info`.
fn handover(options: &str) -> Result<Handover, Unknown> {
    let mut handover = Handover::default();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let refused = || Unknown::new(option);
        let (key, word) = option.split_once('=').ok_or_else(refused)?;
        match key {
            "mode" => handover.mode = MODES.iter().find(|(name, _)| *name == word).ok_or_else(refused)?.1,
            "acks" => handover.acks = ACKS.iter().find(|(name, _)| *name == word).ok_or_else(refused)?.1,
            "buffer" => {
                let bytes: Bytes = word.parse().map_err(|_| refused())?;
                let bytes = u32::try_from(bytes.0).ok().filter(|bytes| (4096..=1 << 30).contains(bytes));
                handover.buffer = Some(bytes.ok_or_else(refused)?);
            }
            "share" if word == "on" => handover.share = true,
            "share" if word == "off" => handover.share = false,
            _ => return Err(refused()),
        }
    }
    Ok(handover)
}

/// The inverse: nothing where everything is left to the datapath.
fn handover_text(handover: Handover) -> String {
    let mode = MODES.iter().find(|(_, mode)| *mode == handover.mode).map(|(name, _)| format!("mode={name}"));
    let acks = ACKS.iter().find(|(_, acks)| *acks == handover.acks).map(|(name, _)| format!("acks={name}"));
    let buffer = handover.buffer.map(|bytes| format!("buffer={}", Bytes(bytes.into())));
    let share = handover.share.then(|| "share=on".to_owned());
    let options: Vec<String> = mode.into_iter().chain(acks).chain(buffer).chain(share).collect();
    if options.is_empty() { String::new() } else { format!(":{}", options.join(",")) }
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
    fn errors_name_the_fix() {
        let cases = [
            ("reno", "'reno' names no datapath; write 'reno@udp', 'reno@tcp', 'reno@alcc', 'reno@icn' or 'reno@quic'"),
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
                "'dctcp@quic': dctcp needs an exact count of ECN marks, and quinn reports only that something was marked; use @udp, @tcp or @alcc",
            ),
            (
                "reno@alcc/sprout",
                "'reno@alcc/sprout': below, sprout needs its receiver half at the other end, and TCP can't carry its feedback; write '@alcc/cubic'",
            ),
            ("reno@udp/reno", "'reno@udp/reno': only alcc runs above a named TCP; write '@udp'"),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Contestant>().unwrap_err().to_string(), error);
        }
    }
}
