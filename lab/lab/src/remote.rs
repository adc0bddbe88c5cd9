//! A race between this host and another one, where `paceline serve --race` runs: the path is the real one, and there is no scenario.
//!
//! Contestants take turns, in an order that is drawn anew for each run. Nothing needs a clock that both hosts have: records say
//! [`EndClocks::None`] and leave open what one would be needed for.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use paceline_cc::datapath::TCP;
use paceline_cc::{Nanos, Spec};
use paceline_experiment::{DrivenBy, DumbbellWay, Flow, Seed};
use paceline_testbed::remote::wire::EndFigures;
use paceline_testbed::remote::{RaceClient, RemoteError, RemoteRun};

use crate::contestant::{Contestant, ContestantError, split_list};
use crate::numbers::plain;
use crate::race::Race;
use crate::record::{EndClocks, FlowRecord, Record, Run, Span, rounded};
use crate::run::{RunError, World};
use crate::runner::{Attempt, Progress, Runner, RunnerError, Task, TaskLabel};
use crate::stats::Summary;
use crate::version::{VERSION, commit};

/// How a race between two hosts is run.
#[derive(Clone, Debug)]
pub struct RemoteSettings {
    /// Who races, as `--contestants` has it.
    pub contestants: String,
    /// Seconds of a run.
    pub seconds: f64,
    /// Runs of each contestant.
    pub runs: u32,
    /// Of everything random.
    pub seed: u64,
    /// This host sends, in place of the server.
    pub up: bool,
    /// Seconds between two runs.
    pub pause: f64,
}

/// Why there is no race between two hosts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteRaceError {
    /// A contestant is none.
    #[error("--contestants: {0}")]
    Contestant(Box<ContestantError>),
    /// A contestant is there twice.
    #[error("--contestants: {0} is there twice; name it once")]
    Twice(String),
    /// There is none at all.
    #[error("--contestants: name some, such as cubic@tcp,copa@udp")]
    NoContestants,
    /// A number that no race has.
    #[error("{option} {value}: give {wanted}")]
    Number {
        /// The option.
        option: &'static str,
        /// What was given.
        value: f64,
        /// What is possible.
        wanted: &'static str,
    },
    /// The other end sends by a file of this one.
    #[error(
        "--contestants: {0}: both ends build it, and the other one has no such file; name a model that comes with paceline"
    )]
    LocalModel(String),
    /// The other host, or a contestant that does not go between hosts.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// No run was begun.
    #[error(transparent)]
    Runner(#[from] RunnerError<RunError>),
}

/// A contestant that a client names: unlike one of this machine's user, it opens no file.
pub fn foreign(text: &str) -> Option<Flow> {
    let (controller, _) = text.split_once('@')?;
    controller.parse::<Spec>().ok()?;
    let contestant: Contestant = text.parse().ok()?;
    Some(flow(&contestant))
}

fn flow(contestant: &Contestant) -> Flow {
    Flow::bulk(contestant.controller.clone(), contestant.via.clone())
}

impl RemoteSettings {
    /// Who races.
    ///
    /// # Errors
    /// [`RemoteRaceError`]: what of these settings no race has.
    fn contestants(&self) -> Result<Vec<Contestant>, RemoteRaceError> {
        let number = |option, value, wanted, good: bool| {
            if good { Ok(()) } else { Err(RemoteRaceError::Number { option, value, wanted }) }
        };
        number("--seconds", self.seconds, "seconds from 0.1 on, such as 10", (0.1..=86_400.0).contains(&self.seconds))?;
        number("--pause", self.pause, "seconds up to 600, such as 1", (0.0..=600.0).contains(&self.pause))?;
        number("--runs", self.runs.into(), "1 or more", (1..=100_000).contains(&self.runs))?;
        let mut contestants: Vec<Contestant> = Vec::new();
        for text in split_list(&self.contestants) {
            let contestant: Contestant = text.parse().map_err(|error| RemoteRaceError::Contestant(Box::new(error)))?;
            if contestants.contains(&contestant) {
                return Err(RemoteRaceError::Twice(contestant.to_string()));
            }
            if contestant.controller.is_local() {
                return Err(RemoteRaceError::LocalModel(contestant.to_string()));
            }
            RaceClient::check(&flow(&contestant), self.up)?;
            contestants.push(contestant);
        }
        if contestants.is_empty() { Err(RemoteRaceError::NoContestants) } else { Ok(contestants) }
    }

    fn direction(&self) -> DumbbellWay {
        if self.up { DumbbellWay::Up } else { DumbbellWay::Down }
    }

    /// In words that can be read again, in place of a scenario.
    fn text(&self, peer: SocketAddr) -> String {
        let Self { contestants, seconds, runs, seed, pause, .. } = self;
        let list: Vec<String> = split_list(contestants).iter().map(|one| format!("{one:?}")).collect();
        format!(
            "# paceline race --remote: the path is the real one\nremote = \"{peer}\"\ndirection = \"{}\"\nseconds = {seconds}\n\
             runs = {runs}\nseed = {seed}\npause = {pause}\ncontestants = [{}]\n",
            self.direction().name(),
            list.join(", ")
        )
    }
}

/// Runs every contestant as often as the settings say, against the server of `client`.
///
/// # Errors
/// [`RemoteRaceError`], before any run. A run that fails is one of the failures of the race.
pub fn race_remote(
    client: RaceClient,
    settings: &RemoteSettings,
    progress: &dyn Progress,
) -> Result<Race, RemoteRaceError> {
    let contestants = settings.contestants()?;
    let (peer, time) = (client.peer(), Nanos::from_secs_f64(settings.seconds));
    let client = Mutex::new(client);
    client.lock().unwrap_or_else(PoisonError::into_inner).begin(time)?;
    let mut jobs = Vec::new();
    for number in 1..=settings.runs {
        for contestant in turns(&contestants, settings.seed, number) {
            let first = jobs.is_empty();
            jobs.push(Job { contestant, number, first, time, settings, client: &client });
        }
    }
    let mut runs = Vec::new();
    let mut failures = Vec::new();
    for result in Runner::new(1, progress).each(&jobs)? {
        match result {
            Ok(done) => runs.push(done),
            Err(failure) => failures.push(failure),
        }
    }
    let place = |record: &Record| {
        let name = record.contestant();
        contestants.iter().position(|contestant| contestant.to_string() == name)
    };
    runs.sort_by_key(|(run, _)| (place(&run.record), run.record.run));
    let mut notes = about(&mut runs);
    notes.extend(capped(&runs));
    let mut runs: Vec<Run> = runs.into_iter().map(|(run, _)| run).collect();
    let summaries = Summary::all(runs.iter().map(|run| &run.record));
    for run in &mut runs {
        let name = run.record.contestant();
        run.contestant = summaries.iter().position(|summary| summary.contestant == name).unwrap_or_default();
    }
    let way = if settings.up { "to" } else { "from" };
    let text = settings.text(peer);
    Ok(Race {
        name: NAME.to_owned(),
        title: format!("{way} {peer} over the real network"),
        scenario: text.clone(),
        effective: text,
        seed: settings.seed,
        version: VERSION.to_owned(),
        runs,
        summaries,
        failures,
        notes,
    })
}

/// What records have in the place of a scenario's name.
const NAME: &str = "remote";

/// The order of a run.
fn turns(contestants: &[Contestant], seed: u64, number: u32) -> Vec<&Contestant> {
    let mut turns: Vec<&Contestant> = contestants.iter().collect();
    turns.sort_by_cached_key(|contestant| Seed(seed).derive(&format!("turn of {contestant} in run {number}")));
    turns
}

/// One run of one contestant.
struct Job<'a> {
    contestant: &'a Contestant,
    number: u32,
    first: bool,
    time: Nanos,
    settings: &'a RemoteSettings,
    client: &'a Mutex<RaceClient>,
}

impl Task for Job<'_> {
    type Output = (Run, RemoteRun);
    type Error = RunError;

    fn label(&self) -> TaskLabel {
        TaskLabel { name: self.contestant.to_string(), number: self.number, seed: self.settings.seed }
    }

    fn lasts(&self) -> Duration {
        Duration::from_secs_f64(self.settings.seconds + self.settings.pause)
    }

    fn run(&self) -> Result<Attempt<Self::Output>, RunError> {
        let Self { contestant, number, first, time, settings, client } = *self;
        if !first {
            thread::sleep(Duration::from_secs_f64(settings.pause));
        }
        let text = contestant.to_string();
        let seed = Seed(settings.seed).derive(&format!("controller of {text} in run {number}"));
        let mut client = client.lock().unwrap_or_else(PoisonError::into_inner);
        let done = client.run(&flow(contestant), &text, settings.up, seed, time)?;
        let record = record(contestant, number, settings, &done);
        Ok(Attempt::certain((Run { own: vec![true], ..Run::recorded(record) }, done)))
    }
}

fn record(contestant: &Contestant, number: u32, settings: &RemoteSettings, done: &RemoteRun) -> Record {
    let RemoteRun { sender, receiver, .. } = done;
    let seconds = settings.seconds;
    let mbps = |bytes: u64| rounded(bytes as f64 / seconds / 125_000.0);
    let by = (contestant.via.row().datapath.name == TCP.name).then_some(DrivenBy::Kernel);
    let flow = FlowRecord {
        controller: contestant.controller.to_string(),
        via: contestant.via_text(),
        driven_by: by,
        direction: Some(settings.direction()),
        end_s: seconds,
        throughput_mbps: mbps(receiver.wire_bytes),
        goodput_mbps: Some(mbps(receiver.bytes)),
        rtt_ms: round_trips(sender),
        loss: rounded(sender.lost as f64 / sender.packets.max(1) as f64),
        packets: sender.packets,
        retransmits: Some(sender.retransmits),
        timeouts: Some(sender.timeouts),
        ecn_marks: sender.marks,
        limited_below: (sender.limited_below != u32::MAX).then(|| rounded(f64::from(sender.limited_below) / 1e6)),
        ..FlowRecord::default()
    };
    Record {
        scenario: NAME.to_owned(),
        world: World::Real,
        clock: Some(EndClocks::None),
        controller: flow.controller.clone(),
        via: flow.via.clone(),
        driven_by: by,
        seed: settings.seed,
        run: number,
        seconds,
        throughput_mbps: flow.throughput_mbps,
        goodput_mbps: flow.goodput_mbps,
        rtt_ms: flow.rtt_ms,
        loss: flow.loss,
        retransmits: flow.retransmits,
        timeouts: flow.timeouts,
        ecn_marks: flow.ecn_marks,
        cpu_s: Some(rounded((sender.cpu_ns as f64 + receiver.cpu_ns as f64) / 1e9)),
        version: VERSION.to_owned(),
        commit: commit().map(str::to_owned),
        flows: vec![flow],
        ..Record::default()
    }
}

/// Mean and quantiles as the wire has them: in microseconds, the mean first.
fn round_trips(sender: &EndFigures) -> Option<Span> {
    let (mean, quantiles) = sender.rtt_us.split_first()?;
    let millis = |micros: u32| rounded(f64::from(micros) / 1e3);
    let at = |percent: usize| quantiles.get(percent).copied().map(millis);
    Some(Span { min: at(0)?, mean: millis(*mean), p50: at(50)?, p95: at(95)?, p99: at(99)?, max: at(100)? })
}

/// What round trips are longer than the shortest of the race goes into the records, and what is not known into a note.
fn about(runs: &mut [(Run, RemoteRun)]) -> Vec<String> {
    let least = runs.iter().filter_map(|(run, _)| run.record.rtt_ms).map(|rtt| rtt.min).reduce(f64::min);
    let Some(least) = least else { return Vec::new() };
    for (run, done) in runs.iter_mut() {
        let above = |value: f64| rounded((value - least).max(0.0));
        let queue = run.record.rtt_ms.map(|Span { min, mean, p50, p95, p99, max }| Span {
            min: above(min),
            mean: above(mean),
            p50: above(p50),
            p95: above(p95),
            p99: above(p99),
            max: above(max),
        });
        run.record.queue_ms = queue;
        run.record.flows.iter_mut().for_each(|flow| flow.queue_ms = queue);
        let quantiles = done.sender.rtt_us.iter().skip(1);
        run.queue_quantiles_ms = quantiles.map(|micros| above(f64::from(*micros) / 1e3)).collect();
    }
    let least = plain(least);
    vec![format!(
        "clock: none: the two hosts have no clock in common, and the path is not ours, so one-way delay, its parts and the share used \
         are not known. Queue is round trip above {least} ms, the shortest of the race, of both directions; losses are what senders \
         declared lost"
    )]
}

/// Who was held back by what the server permits.
fn capped(runs: &[(Run, RemoteRun)]) -> Option<String> {
    let held: Vec<String> = runs
        .iter()
        .filter(|(_, done)| done.sender.capped)
        .map(|(run, _)| format!("{} run {}", run.record.contestant(), run.record.run))
        .collect();
    let most = plain(runs.first()?.1.most.as_mbps());
    (!held.is_empty()).then(|| {
        format!("{}: had all of the {most} Mbit/s that the server permits; start it with --most-mbps", held.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(contestants: &str) -> RemoteSettings {
        let contestants = contestants.to_owned();
        RemoteSettings { contestants, seconds: 10.0, runs: 3, seed: 1, up: false, pause: 0.0 }
    }

    #[test]
    fn each_run_has_an_order_of_its_own_and_everyone_in_it() {
        let contestants = settings("cubic@tcp,copa@udp,reno@udp,bbr@udp").contestants().unwrap();
        let names = |number| turns(&contestants, 1, number).iter().map(ToString::to_string).collect::<Vec<_>>();
        let orders: Vec<Vec<String>> = (1..=20).map(names).collect();
        assert_eq!(orders, (1..=20).map(names).collect::<Vec<_>>(), "the same seed");
        let firsts: std::collections::BTreeSet<&String> = orders.iter().map(|order| &order[0]).collect();
        assert_eq!(firsts.len(), 4, "{orders:?}");
        assert!(orders.iter().all(|order| contestants.iter().all(|one| order.contains(&one.to_string()))));
    }

    #[test]
    fn settings_that_no_race_has_are_refused_in_one_line() {
        let refused = |settings: &RemoteSettings, what: &str| {
            let error = settings.contestants().unwrap_err().to_string();
            assert!(error.contains(what) && !error.contains('\n'), "{error}");
        };
        refused(&settings(""), "--contestants: name some, such as cubic@tcp,copa@udp");
        refused(&settings("rno@udp"), "did you mean reno?");
        refused(&settings("copa@udp,copa@udp"), "--contestants: copa@udp is there twice");
        refused(&settings("bbr@icn"), "races between hosts go over udp, tcp and alcc; write bbr@udp");
        refused(&RemoteSettings { seconds: 0.0, ..settings("reno@udp") }, "--seconds 0: give seconds from 0.1 on");
        refused(&RemoteSettings { seconds: f64::NAN, ..settings("reno@udp") }, "--seconds NaN");
        refused(&RemoteSettings { runs: 0, ..settings("reno@udp") }, "--runs 0: give 1 or more");
        refused(&RemoteSettings { pause: -1.0, ..settings("reno@udp") }, "--pause -1");
    }

    #[test]
    fn a_client_names_contestants_and_no_files() {
        assert!(foreign("copa:delta=0.1@udp").is_some() && foreign("sprout@alcc").is_some());
        assert!(foreign("mdi:model=/etc/passwd@udp").is_none());
        assert!(foreign("copa").is_none() && foreign("").is_none() && foreign("@@@").is_none());
    }

    #[test]
    fn queueing_is_the_round_trip_above_the_shortest_of_the_race() {
        let contestant = &settings("copa@udp").contestants().unwrap()[0];
        let run = |from: u32| {
            let rtt_us = [&[from + 50][..], &(from..=from + 100).collect::<Vec<_>>()].concat();
            let sender = EndFigures { packets: 200, lost: 1, rtt_us, limited_below: u32::MAX, ..EndFigures::default() };
            let receiver = EndFigures { wire_bytes: 1_250_000, bytes: 1_000_000, ..EndFigures::default() };
            let done = RemoteRun { sender, receiver, most: paceline_cc::Rate::from_mbps(1000.0) };
            (Run::recorded(record(contestant, 1, &settings("copa@udp"), &done)), done)
        };
        let mut runs = vec![run(20_000), run(30_000)];
        let notes = about(&mut runs);
        assert!(notes[0].starts_with("clock: none: ") && notes[0].contains("above 20.0 ms"), "{notes:?}");
        let [first, second] = [0, 1].map(|index| runs[index].0.record.clone());
        assert_eq!((first.queue_ms.unwrap().p50, second.queue_ms.unwrap().p50), (0.05, 10.05));
        assert_eq!((first.throughput_mbps, first.goodput_mbps, first.loss), (1.0, Some(0.8), 0.005));
        assert_eq!((first.delay_ms, first.utilization, first.split), (None, None, crate::record::Split::default()));
        let json = serde_json::to_value(&first).unwrap();
        assert_eq!((&json["clock"], &json["delay_ms"]), (&"none".into(), &serde_json::Value::Null));
        assert_eq!(runs[1].0.queue_quantiles_ms.len(), 101);
    }
}
