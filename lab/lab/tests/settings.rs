//! Keys of a scenario set from outside: what they do, and what is refused.

use paceline_cc::{Nanos, Rate};
use paceline_experiment::{DumbbellWay, Workload};
use paceline_lab::race::{Settings, race};
use paceline_lab::scenario::{Options, Plan, Scenario, Source};
use proptest::prelude::*;

const SMALL: &str = r#"
name = "small"
contestants = ["reno@tcp"]
[down]
rate = "10 Mbit/s"
delay = "5ms"
[[flows]]
workload = { poisson = { mean_gap = "1s", alpha = 1.2, min = "2kB", max = "9kB" } }
[[flows]]
start = "1s"
"#;

fn plans(set: &[&str]) -> Result<Vec<Plan>, String> {
    let set = set.iter().map(|given| (*given).to_owned()).collect();
    let options = Options { set, ..Options::default() };
    Source::from_text("s.toml", SMALL, options).plans().map_err(|error| error.to_string())
}

fn scenario(set: &[&str]) -> Scenario {
    plans(set).unwrap_or_else(|error| panic!("{error}")).remove(0).scenario
}

fn error(set: &[&str]) -> String {
    plans(set).map(|plans| plans[0].scenario.to_toml()).unwrap_err()
}

#[test]
fn a_key_gets_the_value() {
    let set = scenario(&[
        "seconds=10",
        "down.delay=25ms",
        "down.queue=step:threshold=1ms",
        "up.loss = 0.5",
        "flows.0.count=3",
        "flows[1].paced=true",
        "flows.0.workload.poisson.mean_gap=11ms",
        "contestants=['cubic@tcp', 'copa@udp']",
        "title=\"5\"",
        "cross=[{ rate = '1 Mbit/s' }]",
        "cross.0.direction=up",
    ]);
    assert_eq!((set.seconds, set.title.as_str(), set.contestants.len()), (10.0, "5", 2));
    assert_eq!((set.down.delay, set.down.rate), (Nanos::from_millis(25), Some(Rate::from_mbps(10.0))));
    assert_eq!(set.down.queue.map(|queue| queue.to_string().starts_with("step:threshold=1ms")), Some(true));
    assert_eq!(set.up.loss.map(|loss| loss.mean()), Some(0.5));
    assert_eq!((set.flows[0].count, set.flows[1].count, set.flows[1].paced), (3, 1, true));
    let Workload::Poisson(poisson) = &set.flows[0].workload else { panic!("{:?}", set.flows[0].workload) };
    assert_eq!((poisson.mean_gap, poisson.max.0), (Nanos::from_millis(11), 9000));
    assert_eq!(set.cross[0].direction, DumbbellWay::Up);
}

#[test]
fn the_last_one_wins_and_other_options_come_after() {
    assert_eq!(scenario(&["down.delay=1ms", "down.delay=2ms"]).down.delay, Nanos::from_millis(2));
    let options = Options { seconds: Some(3.0), set: vec!["seconds=10".to_owned()], ..Options::default() };
    assert_eq!(Source::from_text("s.toml", SMALL, options).plans().unwrap()[0].scenario.seconds, 3.0);
}

#[test]
fn an_empty_value_takes_the_key_out() {
    let set =
        scenario(&["down.rate=", "down.schedule=[['0s', '1 Mbit/s'], ['1s', '2 Mbit/s']]", "flows=", "flows=[{}]"]);
    assert_eq!((set.down.rate, set.down.schedule.is_some(), set.flows.len()), (None, true, 1));
}

#[test]
fn a_rate_may_wander() {
    let chain =
        "down.schedule={ markov = { rates = ['2 Mbit/s', '4 Mbit/s..8 Mbit/s', '20 Mbit/s'], hold = '200ms' } }";
    let set = ["down.rate=", chain, "seconds=5", "runs=3"].map(str::to_owned).to_vec();
    let source = Source::from_text("s.toml", SMALL, Options { set, ..Options::default() });
    let race = race(&source, &Settings::default()).unwrap();
    let again = Source::from_text("s.toml", &race.effective, Options::default()).plans().unwrap();
    assert_eq!(source.plans().unwrap()[0].scenario.down.schedule, again[0].scenario.down.schedule);
    let used: Vec<f64> = race.runs.iter().map(|run| run.record.utilization.unwrap()).collect();
    assert!(used.iter().all(|used| *used > 0.5 && *used <= 1.0), "{used:?}");
    assert!(race.runs[0].record.drawn.contains_key("down.schedule.markov.rates[1]"));

    let wrong = error(&["down.rate=", chain, "down.schedule.markov.hld=1s"]);
    let expected = "--set down.schedule.markov.hld=1s: down.schedule.markov.hld: unknown key 'hld'; did you mean hold?";
    assert_eq!(wrong, expected);
    let wrong = error(&["down.rate=", chain, "down.schedule.markov.hold=0s"]);
    assert!(wrong.ends_with("=0s: down.schedule.markov.hold: it is below 1us; give a time such as 200ms"), "{wrong}");
}

#[test]
fn ranges_are_drawn_and_runs_are_those_of_a_file_that_says_the_same() {
    let drawn = plans(&["runs=20", "down.delay=10ms..30ms", "flows.0.count=2..4"]).unwrap();
    assert!(drawn.windows(2).any(|pair| pair[0].drawn != pair[1].drawn));
    assert!(drawn.iter().all(|plan| (2..=4).contains(&plan.scenario.flows[0].count)));
    assert!(drawn.iter().all(|plan| plan.drawn["down.delay"].parse() == Ok(plan.scenario.down.delay)));

    let records = |text: &str, set: &[&str]| {
        let set = set.iter().map(|given| (*given).to_owned()).collect();
        let source = Source::from_text("s.toml", text, Options { set, ..Options::default() });
        let race = race(&source, &Settings::default()).unwrap();
        (race.effective, race.runs.into_iter().map(|run| run.record).collect::<Vec<_>>())
    };
    let written = SMALL.replace("5ms", "1ms..9ms").replace("[down]", "seconds = 2\n[down]");
    assert_eq!(records(&written, &[]), records(SMALL, &["down.delay=1ms..9ms", "seconds=2"]));
}

#[test]
fn what_is_wrong_is_one_line_with_option_key_and_fix() {
    let cases = [
        ("seconds", "--set seconds: there is no '=' in it; write KEY=VALUE, such as down.delay=25ms"),
        (
            "down..delay=1ms",
            "--set down..delay=1ms: a name in the key is empty; write KEY=VALUE, such as down.delay=25ms",
        ),
        ("=1", "--set =1: a name in the key is empty; write KEY=VALUE, such as down.delay=25ms"),
        ("down.dealy=1ms", "--set down.dealy=1ms: down.dealy: unknown key 'dealy'; did you mean delay?"),
        ("secnds=1", "--set secnds=1: secnds: unknown key 'secnds'; did you mean seconds?"),
        ("don.delay=1ms", "--set don.delay=1ms: don: unknown key 'don'; did you mean down?"),
        (
            "down.delay=25",
            "--set down.delay=25: down.delay: integer `25` stands where a text is due; write a text in quotes",
        ),
        (
            "seconds=ten",
            "--set seconds=ten: seconds: string \"ten\" stands where a number is due; write one without quotes and unit, such as 30 or 0.5",
        ),
        ("down=3", "--set down=3: down: integer `3` stands where a table is due; write { key = value }"),
        (
            "seed=-1",
            "--set seed=-1: seed: integer `-1` is not a whole number from 0 to 9223372036854775807; write one such as 30",
        ),
        ("seconds=0", "--set seconds=0: seconds: 0 is not above 0 and at most 10000000; give seconds, such as 60"),
        (
            "down.queue=drptail:bytes=1MB",
            "--set down.queue=drptail:bytes=1MB: down.queue: unknown queue 'drptail'; did",
        ),
        ("down.delay=9ms..1ms", "--set down.delay=9ms..1ms: down.delay: the range 9ms..1ms runs backwards; write"),
        (
            "down.rate.x=1",
            "--set down.rate.x=1: down.rate.x: down.rate is a string, which holds no keys; set down.rate itself",
        ),
        ("flows.2.count=1", "--set flows.2.count=1: flows.2: '2' is not an index of flows; give one from 0 to 1"),
        ("flows.count=1", "--set flows.count=1: flows.count: 'count' is not an index of flows; give one from 0 to 1"),
        ("flows.0.cont=1", "--set flows.0.cont=1: flows[0].cont: unknown key 'cont'; did you mean"),
        ("flows.0.mss=5", "--set flows.0.mss=5: flows[0].mss: it is not between 100 and 9000 bytes; 1448 fills"),
        ("flows.0=", "--set flows.0=: flows.0 is one of an array, and cannot be taken out; set all of it"),
        (
            "cross.0.rate=1",
            "--set cross.0.rate=1: cross.0: cross is not given and has no elements; set all of it, such as",
        ),
        ("down.trace=", "--set down.trace=: down.trace is not given, so that it cannot be taken out; give it a value"),
        ("do\nwn=", "--set do wn=: do wn is not given, so that it cannot be taken out; give it a value"),
        ("flows.a\n.b=1", "--set flows.a .b=1: flows.a: 'a' is not an index of flows; give one from 0 to 1"),
        (
            "flows.1.workload.on_off.on=1s",
            "--set flows.1.workload.on_off.on=1s: flows[1].workload.on_off.off: this key is missing; add it",
        ),
        ("contestants=[reno@tcp]", "--set contestants=[reno@tcp]: the value is not TOML ("),
        (
            "contestants=['rno@tcp']",
            "--set contestants=['rno@tcp']: contestants[0]: unknown controller 'rno'; did you mean",
        ),
        ("down.trace=none.down", "s.toml:5: down.rate: more than one of rate, schedule and trace is given; keep one"),
        // One key of the file, told at its line.
        ("flows.1.stop=1s", "--set flows.1.stop=1s: flows[1].stop: it is not after start; give a later time"),
    ];
    let mut wrong = Vec::new();
    for (given, expected) in cases {
        let found = error(&[given]);
        if !found.starts_with(expected) || found.contains('\n') {
            wrong.push(format!("found    {found}\nexpected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(error(&["down.rate=", "down.trace=none"]).starts_with("--set down.trace=none: down.trace: none cannot be"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_setting_panics(
        key in "((down|up|flows|cross|name|[0-3]|delay|queue)[.\\[]?){1,3}",
        value in "[\\[\\]=.\"'{}0-9a-z\\n ,-]{0,12}",
    ) {
        if let Err(error) = plans(&[&format!("{key}={value}")]) {
            prop_assert!(!error.contains('\n'), "{error}");
        }
    }
}
