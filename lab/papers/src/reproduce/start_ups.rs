//! The start-ups that are debated today on the same paths with the same seeds: slow start, HyStart, HyStart++, SEARCH, Rapid
//! Start, Careful Resume, paced chirping, and BBR's own. A claim of a paper or draft is a claim here; those of ours hold `start=chirp` against all rivals.
//!
//! A start-up is a line of [`START_UPS`], a path a line of its experiment.

mod alone;
mod beside;
mod claims;
mod constant;
mod limited;
mod links;
mod measure;
mod page;
mod summary;
mod web;

use super::bench::{File, Setup, file};
use super::{Markdown, Paper, Runs, experiment};

/// Everything about start-ups.
pub(super) const PAPER: Paper = Paper {
    name: "start-ups",
    title: "Start-ups: slow start, HyStart, HyStart++, SEARCH, Rapid Start, Careful Resume, paced chirping, and BBR's own",
    about: &[
        "Each start-up runs under CUBIC (beside a greedy flow of L4S under Prague), BBR has its own, on the same paths with the same \
         seeds. With eq1 hops report their room; each packet then has 64 bytes of header more. Claims are those of drafts and papers, judged by their sign and within 25 % of their size (the tolerance is ours), \
         and ours, to which all are held.",
        "t80: from a flow's first packet to the end of the first window (a round trip, or 20 packet times if that is longer) in which \
         80 % of what is free was delivered, and again in the next one. Queue: the longest wait of a packet of any flow from the \
         first packet until 4 RTT after the end of the start-up. Lost: packets that queues dropped in that time.",
    ],
    rivals: &[("start=chirp@", "chirp")],
    runs: Runs::SimulatedFirst,
    experiments: &[
        experiment("constant", "Constant", "Alone on links of constant rates", constant::conduct),
        experiment("satellite", "Satellite", "Alone over a geostationary satellite", links::satellite),
        experiment("web", "Web", "Short flows beside a bulk flow", web::flows),
        experiment("limited", "Limited", "An application that sends less than the link carries", limited::conduct),
        experiment("l4s", "L4S", "A newcomer beside a greedy flow over DualPI2", beside::conduct),
        experiment("cellular", "Cellular", "Alone over cellular links", links::cellular),
        experiment("wifi", "Wi-Fi", "Alone over Wi-Fi", links::wifi),
        experiment("policer", "Policer", "Alone behind a policer", links::policer),
    ],
    page: Some(Markdown { file: "start-ups.md", text: page::page }),
};

/// A start-up that is compared.
#[derive(Debug)]
pub(super) struct StartUp {
    /// As tables name it.
    name: &'static str,
    /// Parameters of the controller that it starts; or, without `=`, a controller that has its own.
    spec: &'static str,
    /// It remembers this share of the window that is right: what the path holds, or what of it is free.
    remembers: Option<f64>,
    /// Its packets carry telemetry.
    reported: bool,
}

/// A start-up that remembers nothing.
const fn start_up(name: &'static str, spec: &'static str) -> StartUp {
    StartUp { name, spec, remembers: None, reported: false }
}

/// Careful Resume that remembers this share of the right window.
const fn resume(name: &'static str, share: f64) -> StartUp {
    StartUp { name, spec: "start=resume", remembers: Some(share), reported: false }
}

/// Who is compared, ours last.
const START_UPS: &[StartUp] = &[
    start_up("slow", "start=slow"),
    start_up("hystart", "start=hystart"),
    start_up("hystart++", "start=hystart++"),
    start_up("search", "start=search"),
    start_up("search, no drain", "start=search,search_drain=off"),
    start_up("rapid", "start=rapid"),
    start_up("rapid, hystart++", "start=rapid,rapid_exit=hystart++"),
    resume("resume", 1.0),
    resume("resume, 4 times too high", 4.0),
    resume("resume, 4 times too low", 0.25),
    StartUp { name: "eq1", spec: "start=eq1", remembers: None, reported: true },
    start_up("bbr", "bbr"),
    start_up("bbr3", "bbr3"),
    start_up("chirp-p", "start=chirp-p"),
    start_up("chirp-q", "start=chirp-q"),
    start_up("chirp-r", "start=chirp-r"),
    start_up("chirp", "start=chirp"),
];

impl StartUp {
    /// With this window controller over this datapath.
    fn contestant(&self, policy: &str, via: &str) -> String {
        if self.spec.contains('=') { format!("{policy}:{}@{via}", self.spec) } else { format!("{}@{via}", self.spec) }
    }

    /// A contestant that has it, as claims name it.
    fn title(&self, contestant: &str) -> String {
        match self.remembers {
            Some(share) => format!("{contestant} (remembers {share} times the window)"),
            None => contestant.to_owned(),
        }
    }

    /// Whether a claim of this title is about it, with any policy over any datapath.
    fn is(&self, title: &str) -> bool {
        let contestant = title.split_once(" (").map_or(title, |(contestant, _)| contestant);
        let (controller, _) = contestant.split_once('@').unwrap_or((contestant, ""));
        let spec = controller.split_once(':').map_or(controller, |(_, start)| start);
        spec == self.spec && self.title(contestant) == title
    }

    /// A flow starts so with what it is told: by an earlier one of a path of this many packets and seconds, as far as it remembers that,
    /// or by hops, over TCP alone, which carries their reports in both worlds.
    fn informed(&self, setup: Setup, flow: usize, packets: f64, rtt: f64) -> Setup {
        let reported = self.reported && setup.contestant().ends_with("@tcp");
        let setup = setup.set_if(reported, "telemetry", "{}");
        let setup =
            (0..flow).fold(setup, |setup, other| setup.set_if(reported, &format!("flows.{other}.telemetry"), "false"));
        let Some(share) = self.remembers else { return setup };
        let window = format!("{:.0}B", share * packets * measure::PAYLOAD);
        let setup = setup.set(&format!("flows.{flow}.remembered.window"), &window);
        setup.set(&format!("flows.{flow}.remembered.rtt"), &format!("{:.0}us", rtt * 1e6))
    }

    /// Its place in [`START_UPS`].
    fn place(name: &str) -> Option<usize> {
        START_UPS.iter().position(|one| one.name == name)
    }
}

/// What is not tried, and why.
const UNTRIED: &[(&str, &str)] = &[(
    "12: TCP RAPID (Konda and Kaur 2009) has the capacity in 1 to 4 RTT with a negligible queue",
    "only its abstract was readable",
)];

static ALONE: File = file!("start-ups/alone.toml");
static BESIDE: File = file!("start-ups/beside.toml");
static WEB: File = file!("start-ups/web.toml");
static LIMITED: File = file!("start-ups/limited.toml");
static WIFI: File = file!("start-ups/wifi.toml");

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use paceline_lab::scenario::{Options, Source};

    #[test]
    fn the_scenarios_run_as_they_are() {
        for file in [&ALONE, &BESIDE, &WEB, &LIMITED, &WIFI] {
            let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file.path);
            assert_eq!(std::fs::read_to_string(&there).unwrap(), file.text, "{}", file.path);
            let plans = Source::from_text(file.path, file.text, Options::default()).plans();
            assert!(plans.is_ok(), "{}", plans.unwrap_err());
        }
    }

    #[test]
    fn those_who_are_compared_exist_and_ours_is_last() {
        for one in START_UPS {
            let own = START_UPS.iter().filter(|other| other.is(&one.title(&one.contestant("prague", "udp")))).count();
            assert_eq!(own, 1, "{}", one.name);
            for (policy, via) in [("cubic", "tcp"), ("prague", "tcp"), ("cubic", "udp")] {
                let who = one.contestant(policy, via);
                assert!(crate::claim::ClaimError::check("", &who).is_ok(), "{who}");
            }
        }
        assert_eq!(START_UPS.last().map(|one| one.name), Some("chirp"));
    }
}
