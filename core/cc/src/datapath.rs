//! The datapaths, what each offers to a controller, and the one answer to whether a controller can run over one:
//! [`Datapath::carries`].

use std::fmt;

use crate::ability::Ability;
use crate::names::either;
use crate::registry::Spec;

/// The name of the TCP of ours in the kernel whose window stays open, below a controller of the application
/// (`datapaths/kernel/src/bpf/open_window.bpf.c`).
pub const OPEN_WINDOW: &str = "paceline_open";

/// What is known of a datapath.
#[derive(Debug, PartialEq)]
pub struct Datapath {
    /// Its name behind the `@` of a contestant; for a way to use one, with the option that chooses it.
    pub name: &'static str,
    /// One line for a list.
    pub summary: &'static str,
    /// Where its code lives: in the simulator, and in real time.
    pub lives: &'static str,
    /// Whether the simulator has it.
    pub simulated: bool,
    /// What it offers.
    pub offers: &'static [Ability],
    /// Everything else, and why.
    pub lacks: &'static [Lack],
    /// Controller, parameter and value: what a parameter is over it that is left to the datapath ([`Spec::over`]).
    pub defaults: &'static [(&'static str, &'static str, &'static str)],
}

/// What a datapath does not offer.
#[derive(Debug, PartialEq)]
pub struct Lack {
    /// What is missing.
    pub ability: Ability,
    /// Why, so that it goes on "it needs ..., and".
    pub why: &'static str,
    /// What to do instead, where another datapath is not the answer.
    pub instead: Option<&'static str>,
}

impl Lack {
    const fn new(ability: Ability, why: &'static str) -> Self {
        Self { ability, why, instead: None }
    }

    const fn or(self, instead: &'static str) -> Self {
        Self { instead: Some(instead), ..self }
    }
}

const NO_TELEMETRY: Lack = Lack::new(Ability::Telemetry, "no reports of hops reach it in this version");
const NO_ARRIVALS_ABOVE: Lack =
    Lack::new(Ability::ArrivalTimes, "the TCP below reports when packets were acknowledged, not when they arrived");

/// A datagram is handed over by itself: nothing gathers them on their way (draft-ietf-ccwg-bbr-06 section 5.5.8).
const DATAGRAMS: &[(&str, &str, &str)] = &[("bbr3", "budget", "1")];

/// As of datagrams. What comes is data itself: no acknowledgement is delayed or stretched, for which BBR's window has two BDP, and its
/// estimator makes room for bunches. Receivers that begin one after the other come to equal shares in ProbeRTT, within half a minute
/// where it comes every 5 s at half a BDP, as in BBRv2 and BBRv3 (draft-ietf-ccwg-bbr-06 section 2.16.2), and not at 4 packets every 10 s.
const REQUESTS: &[(&str, &str, &str)] =
    &[DATAGRAMS[0], ("bbr", "cwnd_gain", "1.5"), ("bbr", "probe_rtt", "5"), ("bbr", "probe_rtt_gain", "0.5")];

/// Native datagrams.
pub const UDP: Datapath = Datapath {
    name: "udp",
    summary: "native datagrams, nothing is sent again",
    lives: "`transport::datagram`; over sockets `udp`",
    simulated: true,
    offers: &Ability::ALL,
    lacks: &[],
    defaults: DATAGRAMS,
};

/// A TCP flow that the controller itself drives.
pub const TCP: Datapath = Datapath {
    name: "tcp",
    summary: "a TCP flow that the controller drives; with `--real` in the kernel, by its own of that name, a module of ours, or an agent",
    lives: "`transport::stream`; in the kernel `testbed::tcp`, `kernel`",
    simulated: true,
    offers: &[Ability::ExactGaps, Ability::ExactMarks, Ability::Ect1, Ability::Telemetry, Ability::ArrivalTimes],
    lacks: &[Lack::new(Ability::ReceiverHalf, "TCP can't carry its feedback")],
    defaults: &[],
};

/// Above a TCP flow, in the way that suits the controller.
pub const ALCC: Datapath = Datapath {
    name: "alcc",
    summary: "above a TCP flow with a controller of its own, which alone sees marks",
    lives: "`transport::above`; above a socket `alcc`",
    simulated: true,
    offers: &[Ability::ReceiverHalf, Ability::ExactGaps, Ability::ExactMarks, Ability::Ect1],
    lacks: &[NO_ARRIVALS_ABOVE, NO_TELEMETRY],
    defaults: &[],
};

/// Named content, by requests.
pub const ICN: Datapath = Datapath {
    name: "icn",
    summary: "named content: where data goes runs the controller and asks for it, a router answers and forgets",
    lives: "`icn`; over sockets `named`, in races `testbed::race`",
    simulated: true,
    offers: &[Ability::ArrivalTimes],
    lacks: &[
        Lack::new(Ability::ReceiverHalf, "a router runs nothing of a controller"),
        Lack::new(Ability::ExactGaps, "the units of one request leave the router together"),
        Lack::new(Ability::ExactMarks, "a router's packets are not ECN-capable"),
        Lack::new(Ability::Ect1, "a router's packets are not ECN-capable"),
        NO_TELEMETRY,
    ],
    defaults: REQUESTS,
};

/// Inside quinn.
pub const QUIC: Datapath = Datapath {
    name: "quic",
    summary: "QUIC, as the congestion controller of quinn; with `--real`, in builds with the feature `quic`",
    lives: "`quic`",
    simulated: false,
    offers: &[Ability::Telemetry],
    lacks: &[
        Lack::new(Ability::ReceiverHalf, "QUIC as quinn speaks it has no frame for its feedback"),
        Lack::new(Ability::ExactGaps, "a controller of quinn sets only a window"),
        Lack::new(Ability::ExactMarks, "quinn reports only that something was marked"),
        Lack::new(Ability::Ect1, "quinn sends ECT(0)"),
        Lack::new(Ability::ArrivalTimes, "QUIC as quinn speaks it does not report them"),
    ],
    defaults: DATAGRAMS,
};

/// Inside noq.
pub const QUIC_NOQ: Datapath = Datapath {
    name: "quic/noq",
    summary: "QUIC, as the congestion controller of noq; with `--real`, in builds with the feature `quic-noq`",
    lives: "`quic::noq`",
    simulated: false,
    offers: &[Ability::Telemetry],
    lacks: &[
        Lack::new(Ability::ReceiverHalf, "QUIC as noq speaks it has no frame for its feedback"),
        Lack::new(Ability::ExactGaps, "a controller of noq sets only a window and a rate"),
        Lack::new(Ability::ExactMarks, "noq reports only that something was marked"),
        Lack::new(Ability::Ect1, "noq sends ECT(0)"),
        Lack::new(Ability::ArrivalTimes, "QUIC as noq speaks it does not report them"),
    ],
    defaults: DATAGRAMS,
};

const NO_HALF_IN_S2N: Lack =
    Lack::new(Ability::ReceiverHalf, "QUIC as s2n-quic speaks it has no frame for its feedback");
const NO_ARRIVALS_IN_S2N: Lack = Lack::new(Ability::ArrivalTimes, "QUIC as s2n-quic speaks it does not report them");

/// Inside s2n-quic, between two ends of ours.
pub const QUIC_S2N: Datapath = Datapath {
    name: "quic/s2n",
    summary: "QUIC, as the congestion controller of s2n-quic, with exact departures; with `--real`, in builds with the feature `quic-s2n`",
    lives: "`quic::s2n`",
    simulated: false,
    offers: &[Ability::ExactGaps, Ability::ExactMarks, Ability::Ect1, Ability::Telemetry],
    lacks: &[NO_HALF_IN_S2N, NO_ARRIVALS_IN_S2N],
    defaults: DATAGRAMS,
};

const ITS_OWN: &str = "a program has a controller of its own";

/// A program that is not ours, with the controller that it has: none of ours runs over it, so that it is not among [`DATAPATHS`].
pub const PROGRAM: Datapath = Datapath {
    name: "program",
    summary: "a program that is not ours, with the controller that it has; with `--real`",
    lives: "`testbed::race`",
    simulated: false,
    offers: &[],
    lacks: &[
        Lack::new(Ability::ReceiverHalf, ITS_OWN),
        Lack::new(Ability::ExactGaps, ITS_OWN),
        Lack::new(Ability::ExactMarks, ITS_OWN),
        Lack::new(Ability::Ect1, ITS_OWN),
        Lack::new(Ability::Telemetry, ITS_OWN),
        Lack::new(Ability::ArrivalTimes, ITS_OWN),
    ],
    defaults: &[],
};

/// What may stand behind the `@` of a contestant with a controller of ours, in the order of lists.
pub const DATAPATHS: &[Datapath] = &[UDP, TCP, ALCC, ICN, QUIC, QUIC_NOQ, QUIC_S2N];

/// [`TCP`] in the kernel, by an agent in user space that steers the flow.
pub const TCP_AGENT: Datapath = Datapath {
    name: "tcp:driven_by=agent",
    summary: "with `--real`, a TCP flow of the kernel that an agent steers from user space",
    lives: "`kernel::agent`",
    simulated: false,
    offers: &[],
    lacks: &[
        Lack::new(Ability::ReceiverHalf, "TCP can't carry its feedback"),
        Lack::new(Ability::ExactGaps, "the agent sets only a window and a pacing rate"),
        Lack::new(Ability::ExactMarks, "the kernel at the other end repeats a mark until it is answered (RFC 3168)"),
        Lack::new(Ability::Ect1, "the kernel sends ECT(0)"),
        Lack::new(Ability::ArrivalTimes, "TCP does not report them"),
        NO_TELEMETRY,
    ],
    defaults: &[],
};

/// [`ALCC`] in chunks that the controller permits.
pub const ALCC_QUEUE: Datapath = Datapath {
    name: "alcc:mode=queue",
    summary: "in chunks that the controller permits",
    offers: &[Ability::ExactGaps, Ability::ExactMarks, Ability::Ect1],
    lacks: &[
        Lack::new(Ability::ReceiverHalf, "only frames carry its feedback").or("use mode=framed"),
        NO_ARRIVALS_ABOVE,
        NO_TELEMETRY,
    ],
    ..ALCC
};

/// [`ALCC`] straight to the kernel.
pub const ALCC_INLINE: Datapath = Datapath {
    name: "alcc:mode=inline",
    summary: "straight to the kernel, whose pacing rate and buffers the controller sets",
    offers: &[Ability::ExactMarks, Ability::Ect1],
    lacks: &[
        Lack::new(Ability::ReceiverHalf, "only frames carry its feedback").or("use mode=framed"),
        Lack::new(Ability::ExactGaps, "inline the kernel is given only a rate").or("use mode=queue"),
        NO_ARRIVALS_ABOVE,
        NO_TELEMETRY,
    ],
    ..ALCC
};

/// [`ALCC`] in frames to a receiver of ours.
pub const ALCC_FRAMED: Datapath = Datapath {
    name: "alcc:mode=framed",
    summary: "in frames that a receiver of ours acknowledges",
    offers: ALCC.offers,
    lacks: ALCC.lacks,
    ..ALCC
};

const ORDINARY_CLIENT: Lack = Lack::new(Ability::ReceiverHalf, "an ordinary client has none").or("take copa or verus");

/// The preloaded library: [`ALCC_INLINE`] to clients that know nothing of it.
pub const SHIM: Datapath = Datapath {
    name: "shim",
    summary: "`paceline shim`: an unmodified program's TCP connections, inline",
    lives: "`shim`",
    simulated: false,
    offers: ALCC_INLINE.offers,
    lacks: &[
        ORDINARY_CLIENT,
        Lack::new(Ability::ExactGaps, "inline the kernel is given only a rate")
            .or("use mode queue, or another start-up"),
        NO_ARRIVALS_ABOVE,
        NO_TELEMETRY,
    ],
    defaults: &[],
};

/// The preloaded library with queues: [`ALCC_QUEUE`] to clients that know nothing of it.
pub const SHIM_QUEUE: Datapath = Datapath {
    name: "shim --mode queue",
    summary: "`paceline shim --mode queue`: the same through queues in the program",
    offers: ALCC_QUEUE.offers,
    lacks: &[ORDINARY_CLIENT, NO_ARRIVALS_ABOVE, NO_TELEMETRY],
    ..SHIM
};

/// [`QUIC_S2N`] in a program with s2n-quic's own loop, to anyone.
pub const QUIC_S2N_PROGRAM: Datapath = Datapath {
    name: "quic/s2n in a program",
    summary: "`paceline_quic::Factory::s2n`: the controller in a program that uses s2n-quic",
    offers: &[Ability::ExactMarks, Ability::Telemetry],
    lacks: &[
        NO_HALF_IN_S2N,
        Lack::new(Ability::ExactGaps, "s2n-quic's own loop wakes up once a millisecond")
            .or("use paceline_quic::s2n::Io"),
        Lack::new(Ability::Ect1, "s2n-quic sends ECT(0)").or("take dctcp"),
        NO_ARRIVALS_IN_S2N,
    ],
    ..QUIC_S2N
};

/// Ways to use a datapath that offer less than it, and the libraries that no contestant names.
pub const WAYS: &[Datapath] = &[TCP_AGENT, ALCC_QUEUE, ALCC_INLINE, ALCC_FRAMED, SHIM, SHIM_QUEUE, QUIC_S2N_PROGRAM];

/// Some datapath has a value of its own for this parameter.
pub(crate) fn decides(controller: &str, param: &str) -> bool {
    let here = |(who, what, _): &(&str, &str, &str)| *who == controller && *what == param;
    DATAPATHS.iter().chain(WAYS).any(|datapath| datapath.defaults.iter().any(here))
}

impl Datapath {
    /// Whether it offers `ability`.
    pub fn offers(&self, ability: Ability) -> bool {
        self.offers.contains(&ability)
    }

    /// Whether the controller, with the start-up that its parameters name, can run over it.
    ///
    /// # Errors
    /// The first thing that it needs and the datapath lacks: why, and what to do.
    pub fn carries(&'static self, spec: &Spec) -> Result<(), Misfit> {
        let Some((who, lack)) = self.lacking(spec) else { return Ok(()) };
        let others = || {
            let fit: Vec<String> = DATAPATHS
                .iter()
                .filter(|other| other.lacking(spec).is_none())
                .map(|other| format!("@{}", other.name))
                .collect();
            if fit.is_empty() {
                "leave it out: no datapath has that".to_owned()
            } else {
                format!("use {}", either(&fit))
            }
        };
        let fix = lack.instead.map_or_else(others, str::to_owned);
        Err(Misfit { spec: spec.to_string(), who, ability: lack.ability, datapath: self, why: lack.why, fix })
    }

    /// What it lacks of what the controller needs, and who needs it: the controller itself or its start-up.
    fn lacking(&self, spec: &Spec) -> Option<(String, &'static Lack)> {
        let lack = |ability| self.lacks.iter().find(|lack| lack.ability == ability);
        let own = || spec.entry().needs().find_map(lack).map(|lack| (spec.entry().name.to_owned(), lack));
        let start_up = || {
            let entry = spec.start_up()?;
            let lack = entry.needs.iter().copied().find_map(lack)?;
            Some((format!("start={}", entry.name), lack))
        };
        own().or_else(start_up)
    }
}

/// Why a controller cannot run over a datapath. Its text is one sentence that ends in what to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Misfit {
    /// The controller with its parameters.
    pub spec: String,
    /// Which part of it: its name, or `start=NAME`.
    pub who: String,
    /// What that needs.
    pub ability: Ability,
    /// The datapath that lacks it.
    pub datapath: &'static Datapath,
    /// Why it does.
    pub why: &'static str,
    /// What to do.
    pub fix: String,
}

impl Misfit {
    /// The sentence without what to do.
    pub fn problem(&self) -> String {
        format!("{} needs {}, and {}", self.who, self.ability.needed(), self.why)
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem(), self.fix)
    }
}

impl std::error::Error for Misfit {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datapath_offers_or_lacks_each_ability_once() {
        for datapath in DATAPATHS.iter().chain(WAYS) {
            for ability in Ability::ALL {
                let offered = datapath.offers.iter().filter(|offer| **offer == ability).count();
                let lacked = datapath.lacks.iter().filter(|lack| lack.ability == ability).count();
                assert_eq!(offered + lacked, 1, "{}: {ability}", datapath.name);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_one_sentence_with_the_fix() {
        let misfit =
            |spec: &str, datapath: &'static Datapath| datapath.carries(&spec.parse().unwrap()).unwrap_err().to_string();
        let half = "sprout needs its receiver half at the other end, and";
        assert_eq!(misfit("sprout", &TCP), format!("{half} TCP can't carry its feedback; use @udp or @alcc"));
        assert_eq!(misfit("sprout", &SHIM), format!("{half} an ordinary client has none; take copa or verus"));
        assert_eq!(misfit("sprout", &ALCC_QUEUE), format!("{half} only frames carry its feedback; use mode=framed"));
        assert_eq!(
            misfit("cubic:start=chirp", &QUIC),
            "start=chirp needs an exact gap before each packet, and a controller of quinn sets only a window; \
             use @udp, @tcp, @alcc or @quic/s2n"
        );
        assert_eq!(
            misfit("reno:start=chirp-q", &ALCC_INLINE),
            "start=chirp-q needs an exact gap before each packet, and inline the kernel is given only a rate; use mode=queue"
        );
        assert_eq!(
            misfit("dctcp", &QUIC),
            "dctcp needs an exact count of ECN marks, and quinn reports only that something was marked; \
             use @udp, @tcp, @alcc or @quic/s2n"
        );
        assert_eq!(
            misfit("reno:start=chirp", &TCP_AGENT),
            "start=chirp needs an exact gap before each packet, and the agent sets only a window and a pacing rate; \
             use @udp, @tcp, @alcc or @quic/s2n"
        );
        assert!(misfit("prague:start=chirp", &QUIC).starts_with("prague needs an exact count"));
        assert_eq!(
            misfit("prague", &QUIC_S2N_PROGRAM),
            "prague needs packets with ECT(1), and s2n-quic sends ECT(0); take dctcp"
        );
    }

    #[test]
    fn what_is_left_to_a_datapath_is_as_that_has_it() {
        for datapath in DATAPATHS.iter().chain(WAYS) {
            for (controller, param, value) in datapath.defaults {
                let over = controller.parse::<Spec>().unwrap().over(datapath).to_string();
                assert!(over.contains(&format!("{param}={value}")), "{over}");
            }
        }
        let over = |spec: &str, datapath| spec.parse::<Spec>().unwrap().over(datapath).to_string();
        assert_eq!(over("bbr3", &UDP), "bbr3:budget=1");
        assert_eq!(over("bbr3:budget=2", &UDP), "bbr3:budget=2");
        assert_eq!(over("bbr", &ICN), "bbr:cwnd_gain=1.5,probe_rtt=5,probe_rtt_gain=0.5");
        assert_eq!((over("bbr", &TCP), over("bbr", &UDP)), ("bbr".to_owned(), "bbr".to_owned()));
        for given in ["bbr3:budget=3", "bbr:cwnd_gain=2,probe_rtt=10,probe_rtt_gain=0", "bbr:probe_gain=1.25"] {
            let kept = given.replace("bbr:probe_gain=1.25", "bbr:cwnd_gain=1.5,probe_rtt=5,probe_rtt_gain=0.5");
            assert_eq!(over(given, &ICN), kept, "what is given stays, if it is the default of other datapaths too");
        }
        assert_eq!((over("bbr3", &TCP), over("bbr3", &SHIM)), ("bbr3".to_owned(), "bbr3".to_owned()));
        assert_eq!(over("cubic:start=rapid", &QUIC), "cubic:start=rapid");
    }

    #[test]
    fn what_fits_runs() {
        for (spec, datapath) in [
            ("sprout", &ALCC),
            ("cubic", &QUIC),
            ("dctcp:start=chirp", &TCP),
            ("cubic:start=chirp", &SHIM_QUEUE),
            ("prague:start=chirp", &QUIC_S2N),
            ("dctcp", &QUIC_S2N_PROGRAM),
        ] {
            assert_eq!(datapath.carries(&spec.parse().unwrap()), Ok(()), "{spec}@{}", datapath.name);
        }
    }
}
