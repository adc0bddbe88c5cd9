//! `[[when]]`: a change that a controller triggers is the step of a schedule that it would be if its time were known.

use std::sync::{Arc, Mutex};

use paceline_cc::event_log::Log;
use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Controller, Nanos, Time};
use paceline_experiment::{Outcome, Subject, Tap};
use paceline_lab::scenario::{Options, Source};

/// The event log of the only flow.
#[derive(Default)]
struct Logged(Arc<Mutex<Option<Log<Vec<u8>>>>>);

struct Writing(Arc<Mutex<Option<Log<Vec<u8>>>>>);

impl Observer for Writing {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        if let Some(log) = self.0.lock().unwrap().as_mut() {
            log.on_event(event, controller);
        }
    }
}

impl Tap for Logged {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        *self.0.lock().unwrap() = Some(Log::new(Vec::new(), of.spec, of.env, "").unwrap());
        Some(Box::new(Writing(self.0.clone())))
    }
}

/// The lines of the flow's events, and what the run left.
fn run(text: &str, seed: u64) -> (Vec<String>, Outcome) {
    let options = Options { seed: Some(seed), ..Options::default() };
    let plan = Source::from_text("a.toml", text, options).plans().unwrap_or_else(|error| panic!("{error}")).remove(0);
    let contestant = plan.scenario.contestants[0].clone();
    let config = plan.world(&contestant, Some(Nanos::from_millis(100))).unwrap();
    let mut logged = Logged::default();
    let outcome = paceline_sim::run(config, Some(&mut logged));
    let log = logged.0.lock().unwrap().take().unwrap().finish().unwrap();
    (String::from_utf8(log).unwrap().lines().skip(1).map(str::to_owned).collect(), outcome)
}

fn scenario(down: &str, rest: &str) -> String {
    format!(
        "name = \"a\"\nseconds = 6\nruns = 1\ncontestants = [\"bbr3@tcp\"]\n\n[down]\n{down}queue = \"droptail:bytes=100kB\"\n\n\
         [up]\ndelay = \"10ms\"\n\n[[flows]]\nhandshake = true\n{rest}"
    )
}

const RATE: &str = "rate = \"20 Mbit/s\"\n";
const DELAY: &str = "delay = \"10ms\"\n";

fn watch(set: &str) -> String {
    format!("\n[[when]]\nis = {{ state = \"UP\" }}\ndelay = \"1ns\"\nset = {{ {set} }}\n")
}

/// How many events two runs have in common from their start.
fn alike(one: &[String], other: &[String]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[test]
fn a_live_change_is_the_step_of_a_schedule_and_leaves_what_was_before_as_it_was() {
    type Step = fn(u64) -> String;
    let cases: [(&str, Step); 3] = [
        ("\"down.rate\" = \"9 Mbit/s\"", |at| {
            format!("schedule = [[\"0s\", \"20 Mbit/s\"], [\"{at}ns\", \"9 Mbit/s\"]]\n{DELAY}")
        }),
        ("\"down.delay\" = \"25ms\"", |at| {
            format!("{RATE}delay_schedule = [[\"0s\", \"10ms\"], [\"{at}ns\", \"25ms\"]]\n")
        }),
        ("\"down.outage\" = \"300ms\"", |at| {
            format!("{RATE}{DELAY}outages = [[\"{at}ns\", \"{}ns\"]]\n", at + 300_000_000)
        }),
    ];
    let path = format!("{RATE}{DELAY}");
    for (set, step) in cases {
        for seed in 1..=3 {
            let (live, outcome) = run(&scenario(&path, &watch(set)), seed);
            let [fired] = outcome.fired[..] else { panic!("{set}: {:?}", outcome.fired) };
            assert_eq!((fired.when, fired.value), (0, 5.0));
            let at = fired.at.as_nanos() + 1;
            let (planned, _) = run(&scenario(&step(at), ""), seed);
            assert_eq!(alike(&live, &planned), live.len().max(planned.len()), "{set}, seed {seed}");
            let (without, _) = run(&scenario(&path, ""), seed);
            let same = alike(&live, &without);
            assert!(same < live.len(), "{set} changed nothing");
            let before = live.iter().filter(|line| now(line) <= fired.at).count();
            assert!(before > 1000 && same >= before, "{set}, seed {seed}: {same} of {before} events before it");
        }
    }
}

/// When the event of a line was.
fn now(line: &str) -> Time {
    let text = line.split_once("\"now\":").unwrap().1;
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    Time::from_nanos(digits.parse().unwrap())
}

/// What the link could carry in each tenth of a second, Mbit/s.
fn capacity(rest: &str) -> Vec<f64> {
    let (_, outcome) = run(&scenario(&format!("{RATE}{DELAY}"), rest), 1);
    outcome.series.unwrap().capacity_mbps
}

#[test]
fn what_was_in_force_returns_unless_another_entry_changed_it() {
    let when = |delay: &str, lasts: &str, rate: &str| {
        let set = format!("set = {{ \"down.rate\" = \"{rate}\" }}");
        format!("\n[[when]]\nis = {{ state = \"Startup\" }}\ndelay = \"{delay}\"\nfor = \"{lasts}\"\n{set}\n")
    };
    let alone = capacity(&when("1s", "2s", "0.5x"));
    assert!([alone[8], alone[12], alone[28], alone[32]] == [20.0, 10.0, 10.0, 20.0], "{alone:?}");
    // The second begins within the first and outlasts it: the first gives nothing back, the second what it found.
    let both = capacity(&format!("{}{}", when("1s", "2s", "0.5x"), when("2s", "2s", "0.5x")));
    assert!([both[12], both[22], both[32], both[42], both[55]] == [10.0, 5.0, 5.0, 10.0, 10.0], "{both:?}");
}

#[test]
fn an_application_pauses_resumes_and_is_given_another_workload() {
    let when = |delay: &str, lasts: &str, workload: &str| {
        let set = format!("set = {{ \"flows.0.workload\" = {workload} }}");
        format!("\n[[when]]\nis = {{ state = \"Startup\" }}\ndelay = \"{delay}\"\n{lasts}{set}\n")
    };
    let throughput = |rest: &str| {
        let (_, outcome) = run(&scenario(&format!("{RATE}{DELAY}"), rest), 1);
        (outcome.series.unwrap().flows[0].throughput_mbps.clone(), outcome.flows[0].bytes_ready)
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (silent, _) = throughput(&when("2s", "for = \"2s\"\n", "\"pause\""));
    assert!(mean(&silent[10..19]) > 18.0 && mean(&silent[22..39]) == 0.0 && mean(&silent[43..50]) > 18.0, "{silent:?}");
    let (slow, _) = throughput(&when("2s", "for = \"2s\"\n", "{ rate = \"2 Mbit/s\" }"));
    assert!((mean(&slow[25..39]) - 2.07).abs() < 0.1 && mean(&slow[43..50]) > 18.0, "{slow:?}");
    // What has an end is not ended by a pause, and all of it arrives.
    let (paused, ready) =
        throughput(&format!("workload = {{ bytes = \"3MB\" }}\n{}", when("500ms", "for = \"1s\"\n", "\"pause\"")));
    assert!(mean(&paused[7..15]) == 0.0 && ready == 3_000_000, "{ready}: {paused:?}");
    let resumed = format!("{}{}", when("500ms", "", "\"pause\""), when("3s", "", "\"resume\""));
    let (resumed, _) = throughput(&resumed);
    assert!(mean(&resumed[10..29]) == 0.0 && mean(&resumed[40..60]) > 18.0, "{resumed:?}");
}

#[test]
fn loss_and_reordering_that_are_set_act_while_they_last() {
    let set = |what: &str| {
        format!("\n[[when]]\nis = {{ state = \"Startup\" }}\ndelay = \"2s\"\nfor = \"1s\"\nset = {{ {what} }}\n")
    };
    let path = format!("{RATE}{DELAY}");
    let (_, lossy) = run(&scenario(&path, &set("\"down.loss\" = 0.1")), 1);
    let lost = lossy.hops[0].lost.packets;
    // 10 % of what 20 Mbit/s carry in a second, less what the losses cost.
    assert!((30..=200).contains(&lost), "{lost}");
    let (events, _) = run(&scenario(&path, &set("\"down.reorder\" = { share = 0.1, delay = \"4ms\" }")), 1);
    let (plain, _) = run(&scenario(&path, ""), 1);
    assert!(alike(&events, &plain) < events.len());
}
