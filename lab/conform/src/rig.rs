//! The paths on which rules are judged: scenarios, each with one flow of the contestant that is watched.

use paceline_lab::contestant::Contestant;
use paceline_lab::run::RunError;
use paceline_lab::scenario::{Options, Plan, ScenarioError, Source};

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
}

impl Rig {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::Long,
        Self::Short,
        Self::Middle,
        Self::Falling,
        Self::Deep,
        Self::Lossy,
        Self::Endless,
        Self::Beside,
        Self::Marking,
    ];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Long => "long",
            Self::Short => "short",
            Self::Middle => "middle",
            Self::Falling => "falling",
            Self::Deep => "deep",
            Self::Lossy => "lossy",
            Self::Endless => "endless",
            Self::Beside => "beside",
            Self::Marking => "marking",
        }
    }

    /// Rate in Mbit/s, round trip in ms, queue, what else stands under `[down]`, seconds, flows beside.
    const fn parts(self) -> (f64, f64, &'static str, &'static str, u32, &'static str) {
        match self {
            Self::Long => (50.0, 50.0, "droptail:bdp=1", "", 60, ""),
            Self::Short => (10.0, 20.0, "droptail:bdp=1", "", 40, ""),
            Self::Middle => (10.0, 50.0, "droptail:bdp=1", "", 60, ""),
            Self::Falling => (
                50.0,
                50.0,
                "droptail:bytes=312500",
                "schedule = [[\"0s\", \"50 Mbit/s\"], [\"20s\", \"25 Mbit/s\"], [\"22s\", \"10 Mbit/s\"]]\n",
                60,
                "",
            ),
            Self::Deep => (50.0, 40.0, "droptail:bdp=3", "", 60, ""),
            Self::Lossy => (20.0, 40.0, "droptail:bdp=1", "loss = 0.01\n", 30, ""),
            Self::Endless => (20.0, 40.0, "infinite", "", 30, ""),
            Self::Beside => (
                48.0,
                40.0,
                "droptail:bdp=1",
                "",
                60,
                "\n[[flows]]\n\n[[flows]]\ncontestant = \"cubic@tcp\"\nstart = \"15s\"\n",
            ),
            Self::Marking => (100.0, 20.0, "step:threshold=1ms,limit=2MB", "", 30, ""),
        }
    }

    /// What is known of its path.
    pub const fn facts(self) -> Facts {
        let (rate, rtt, ..) = self.parts();
        Facts { rate_mbps: Some(rate), rtt_ms: Some(rtt) }
    }

    /// In one line.
    pub fn about(self) -> String {
        let (rate, rtt, queue, ..) = self.parts();
        let more = match self {
            Self::Falling => ", 25 Mbit/s from 20 s on, 10 from 22 s on",
            Self::Lossy => ", 1 % random loss",
            Self::Beside => ", CUBIC beside it from 15 s on",
            _ => "",
        };
        format!("{rate} Mbit/s, {rtt} ms, {queue}{more}")
    }

    /// The scenario that it is, as a file.
    pub fn scenario(self, contestant: &Contestant) -> String {
        let (rate, rtt, queue, more, seconds, flows) = self.parts();
        let rate = if more.contains("schedule") { String::new() } else { format!("rate = \"{rate} Mbit/s\"\n") };
        let delay = rtt * 500.0;
        format!(
            "name = \"conform-{name}\"\ntitle = \"{about}\"\nseconds = {seconds}\nruns = 1\n\
             contestants = [\"{contestant}\"]\n\n[down]\n{rate}{more}delay = \"{delay}us\"\nqueue = \"{queue}\"\n\n\
             [up]\ndelay = \"{delay}us\"\n{flows}",
            name = self.name(),
            about = self.about(),
        )
    }

    /// The plan of its one run.
    ///
    /// # Errors
    /// When the contestant cannot run on it.
    pub fn plan(self, contestant: &Contestant) -> Result<Plan, RigError> {
        let file = format!("conform/{}.toml", self.name());
        let source = Source::from_text(&file, &self.scenario(contestant), Options::default());
        source.plans()?.into_iter().next().ok_or(RigError::NoRun)
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
        for rig in Rig::ALL {
            let plan = rig.plan(&contestant).unwrap_or_else(|error| panic!("{error}"));
            assert!(plan.own()[0], "{}", rig.name());
        }
    }
}
