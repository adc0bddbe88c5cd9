//! The paths on which rules are judged: scenarios, each with one flow of the contestant that is watched.

use paceline_lab::contestant::Contestant;
use paceline_lab::programs::ProgramsError;
use paceline_lab::run::RunError;
use paceline_lab::scenario::{Options, Plan, ScenarioError, Source};

use crate::cases::Case;
use crate::read::FileError;
use crate::trajectory::Facts;

/// A path with what happens on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rig {
    /// 50 Mbit/s, 50 ms there and back, drop-tail of 1 BDP: windows of some hundred packets.
    Long,
    /// 10 Mbit/s, 20 ms, drop-tail of 1 BDP: windows of some ten packets.
    Short,
    /// 10 Mbit/s, 50 ms, drop-tail of 1 BDP.
    Middle,
    /// As [`Rig::Long`]; at 20 s the rate falls to 25, at 22 s to 10 Mbit/s: the largest window falls twice, by a quarter and by a fifth.
    Falling,
    /// 50 Mbit/s, 40 ms, drop-tail of 3 BDP: room for a start-up that overshoots.
    Deep,
    /// 20 Mbit/s, 40 ms, 1 % of the packets lost at random.
    Lossy,
    /// 20 Mbit/s, 40 ms, a queue without limit.
    Endless,
    /// 48 Mbit/s, 40 ms, drop-tail of 1 BDP; CUBIC comes at 15 s.
    Beside,
    /// 100 Mbit/s, 20 ms, marks from 1 ms of queue on.
    Marking,
    /// 50 Mbit/s, 40 ms, drop-tail of 1 BDP, 0.1 % of the packets lost at random; the application writes 5 Mbit/s.
    Unused,
    /// A test case of the BBR draft.
    Case(&'static Case),
}

impl Rig {
    /// Every one but the draft's cases, which are [`crate::cases::ALL`].
    pub const ALL: [Self; 10] = [
        Self::Long,
        Self::Short,
        Self::Middle,
        Self::Falling,
        Self::Deep,
        Self::Lossy,
        Self::Endless,
        Self::Beside,
        Self::Marking,
        Self::Unused,
    ];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        self.parts().name
    }

    const fn parts(self) -> Parts {
        match self {
            Self::Long => Parts::of("long", 50.0, 50.0, "droptail:bdp=1", 60),
            Self::Short => Parts::of("short", 10.0, 20.0, "droptail:bdp=1", 40),
            Self::Middle => Parts::of("middle", 10.0, 50.0, "droptail:bdp=1", 60),
            Self::Falling => Parts {
                more: "schedule = [[\"0s\", \"50 Mbit/s\"], [\"20s\", \"25 Mbit/s\"], [\"22s\", \"10 Mbit/s\"]]\n",
                about: ", 25 Mbit/s from 20 s on, 10 from 22 s on",
                ..Parts::of("falling", 50.0, 50.0, "droptail:bytes=312500", 60)
            },
            Self::Deep => Parts::of("deep", 50.0, 40.0, "droptail:bdp=3", 60),
            Self::Lossy => Parts {
                more: "loss = 0.01\n",
                about: ", 1 % random loss",
                ..Parts::of("lossy", 20.0, 40.0, "droptail:bdp=1", 30)
            },
            Self::Endless => Parts::of("endless", 20.0, 40.0, "infinite", 30),
            Self::Beside => Parts {
                flows: "\n[[flows]]\n\n[[flows]]\ncontestant = \"cubic@tcp\"\nstart = \"15s\"\n",
                about: ", CUBIC beside it from 15 s on",
                ..Parts::of("beside", 48.0, 40.0, "droptail:bdp=1", 60)
            },
            Self::Marking => Parts::of("marking", 100.0, 20.0, "step:threshold=1ms,limit=2MB", 30),
            Self::Unused => Parts {
                more: "loss = 0.001\n",
                flows: "\n[[flows]]\nworkload = { rate = \"5 Mbit/s\" }\n",
                about: ", 0.1 % random loss; the application writes 5 Mbit/s",
                ..Parts::of("unused", 50.0, 40.0, "droptail:bdp=1", 30)
            },
            Self::Case(case) => Parts::of(case.name, case.rate_mbps(), case.rtt_ms(), case.queue, case.seconds),
        }
    }

    /// What is known of its path.
    pub const fn facts(self) -> Facts {
        let Parts { rate, rtt, .. } = self.parts();
        Facts { rate_mbps: Some(rate), rtt_ms: Some(rtt) }
    }

    /// The draft's case that it is.
    pub const fn case(self) -> Option<&'static Case> {
        match self {
            Self::Case(case) => Some(case),
            _ => None,
        }
    }

    /// Whether an application of ours writes what is sent on it.
    pub fn has_application(self) -> bool {
        self.parts().flows.contains("workload") || self.case().is_some_and(|case| !case.flow.is_empty())
    }

    /// In one line.
    pub fn about(self) -> String {
        if let Self::Case(case) = self {
            return case.about();
        }
        let Parts { rate, rtt, queue, about, .. } = self.parts();
        format!("{rate} Mbit/s, {rtt} ms, {queue}{about}")
    }

    /// The scenario that it is, as a file.
    pub fn scenario(self, contestant: &Contestant) -> String {
        if let Self::Case(case) = self {
            return case.scenario(&contestant.to_string());
        }
        let Parts { name, rate, rtt, queue, seconds, more, flows, .. } = self.parts();
        let rate = if more.contains("schedule") { String::new() } else { format!("rate = \"{rate} Mbit/s\"\n") };
        let delay = rtt * 500.0;
        format!(
            "name = \"conform-{name}\"\ntitle = \"{about}\"\nseconds = {seconds}\nruns = 1\n\
             contestants = [\"{contestant}\"]\n\n[down]\n{rate}{more}delay = \"{delay}us\"\nqueue = \"{queue}\"\n\n\
             [up]\ndelay = \"{delay}us\"\n{flows}",
            about = self.about(),
        )
    }

    /// The plan of its one run.
    ///
    /// # Errors
    /// When the contestant cannot run on it.
    pub fn plan(self, contestant: &Contestant) -> Result<Plan, RigError> {
        let file = format!("conform/{}.toml", self.name());
        let mut source = Source::from_text(&file, &self.scenario(contestant), Options::default());
        if let Some((name, trace)) = self.case().and_then(Case::trace) {
            source = source.with_trace(name, trace);
        }
        if let Some(program) = contestant.via.program() {
            source = source.with_program(program.as_ref().clone());
        }
        let mut plan = source.plans()?.into_iter().next().ok_or(RigError::NoRun)?;
        // With its options, which for the scenario are defaults.
        plan.scenario.contestants = vec![contestant.clone()];
        Ok(plan)
    }
}

/// What a rig is made of.
struct Parts {
    name: &'static str,
    /// Mbit/s.
    rate: f64,
    /// There and back, ms.
    rtt: f64,
    queue: &'static str,
    seconds: u32,
    /// What else stands under `[down]`.
    more: &'static str,
    /// `[[flows]]`, where others run beside it.
    flows: &'static str,
    /// The same in words.
    about: &'static str,
}

impl Parts {
    /// A path with one flow and nothing else.
    const fn of(name: &'static str, rate: f64, rtt: f64, queue: &'static str, seconds: u32) -> Self {
        Self { name, rate, rtt, queue, seconds, more: "", flows: "", about: "" }
    }
}

/// Why a rig could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RigError {
    /// The scenario does not take the contestant.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// It has no run.
    #[error("the scenario has no run; report it")]
    NoRun,
    /// Its world cannot run it, or did not reach the end.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Its program cannot run, or may not.
    #[error(transparent)]
    Programs(#[from] ProgramsError),
    /// What its program left cannot be read.
    #[error("{contestant}: {problem}")]
    Left {
        /// Whose program.
        contestant: String,
        /// The file, and what is wrong with it.
        problem: FileError,
    },
    /// The real world left no points.
    #[error("{0}: the run left no samples of its flow; report it")]
    NoSamples(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rig_is_a_scenario() {
        let contestant: Contestant = "cubic@tcp".parse().unwrap();
        let bbr3: Contestant = "bbr3@tcp".parse().unwrap();
        for rig in Rig::ALL.into_iter().chain(crate::cases::ALL.iter().map(|case| Rig::Case(case))) {
            let contestant = if rig.case().is_some() { &bbr3 } else { &contestant };
            let plan = rig.plan(contestant).unwrap_or_else(|error| panic!("{error}"));
            assert!(plan.own()[0], "{}", rig.name());
        }
    }
}
