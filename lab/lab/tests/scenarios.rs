//! Scenario files: what is read, what is refused, and in which words.

use std::path::Path;

use paceline_cc::entry::{Kind, Param, Params};
use paceline_cc::fixed::Fixed;
use paceline_cc::names::intern;
use paceline_cc::registry::{Definition, register};
use paceline_cc::{Ability, Controller, Env, Nanos, Rate};
use paceline_experiment::{DumbbellWay, Timing, Workload};
use paceline_lab::race::{Settings, race};
use paceline_lab::record::Record;
use paceline_lab::scenario::{Flow, Options, Plan, Scenario, Source, Who};
use paceline_lab::table::reading;
use paceline_sim::Config;
use proptest::prelude::*;

const SMALL: &str = r#"
name = "small"
contestants = ["reno@tcp"]
[down]
rate = "10 Mbit/s"
delay = "5ms"
"#;

fn plans(text: &str, options: Options) -> Result<Vec<Plan>, String> {
    Source::from_text("s.toml", text, options).plans().map_err(|error| error.to_string())
}

fn scenario(text: &str) -> Scenario {
    plans(text, Options::default()).unwrap().remove(0).scenario
}

fn error(text: &str) -> String {
    plans(text, Options::default()).unwrap_err()
}

#[test]
fn defaults() {
    let small = scenario(SMALL);
    assert_eq!((small.seconds, small.runs, small.seed), (60.0, 10, 1));
    let real = Options { real: true, ..Options::default() };
    assert_eq!(plans(SMALL, real.clone()).unwrap().len(), 1);
    assert_eq!(plans(&format!("runs = 3{SMALL}"), real).unwrap().len(), 3);
    assert_eq!(small.down.rate, Some(Rate::from_mbps(10.0)));
    assert_eq!(small.flows(), [Flow::default()]);
    assert_eq!(small.up.delay, Nanos::ZERO);
}

#[test]
fn every_key_of_a_flow() {
    let text = format!(
        "{SMALL}
        [up]
        rate = \"5 Mbit/s\"
        [[flows]]
        [[flows]]
        contestant = \"cubic@alcc/bbr\"
        count = 3
        stagger = \"1s\"
        direction = \"up\"
        start = \"2s\"
        stop = \"9s\"
        workload = {{ on_off = {{ on = \"1s\", off = \"500ms\", random = true }} }}
        extra_delay = \"7ms\"
        mss = 1200
        ack_every = 4
        ack_delay = \"25ms\"
        paced = true
        handshake = true
        arrivals = true
        timers = \"host\"
        [[cross]]
        rate = \"1 Mbit/s\"
        poisson = true"
    );
    let parsed = scenario(&text);
    let flow = &parsed.flows[1];
    assert_eq!(flow.direction, DumbbellWay::Up);
    assert_eq!(flow.stagger, Nanos::from_secs(1));
    assert!(matches!(&flow.contestant, Who::Fixed(who) if who.to_string() == "cubic@alcc/bbr"));
    assert!(matches!(&flow.workload, Workload::OnOff(times) if times.random));
    assert_eq!(parsed.cross[0].packet.0, 1500);

    let plan = plans(&text, Options::default()).unwrap().remove(0);
    let world: Config = plan.world(&"copa@udp".parse().unwrap(), None).unwrap_or_else(|error| panic!("{error:?}"));
    let starts: Vec<f64> = world.flows.iter().map(|flow| flow.start.as_secs_f64()).collect();
    assert_eq!(starts, [0.0, 2.0, 3.0, 4.0]);
    assert_eq!(world.flows[0].controller.to_string(), "copa");
    assert_eq!(world.flows[3].controller.to_string(), "cubic");
    let hosts: Vec<_> = world.flows.iter().map(|flow| (flow.handshake, flow.arrivals, flow.timers)).collect();
    let (plain, all) = ((false, false, Timing::Overhead), (true, true, Timing::Host));
    assert_eq!(hosts, [plain, all, all, all]);
}

#[test]
fn the_effective_scenario_is_a_scenario_that_means_the_same() {
    let text = format!("{SMALL}[[flows]]\nworkload = {{ bytes = \"2MB\" }}\n[[cross]]\nrate = \"1 Mbit/s\"");
    let first = scenario(&text);
    for default in ["handshake = false", "arrivals = false", "timers = \"overhead\""] {
        assert!(first.to_toml().contains(default), "{default}");
    }
    assert_eq!(scenario(&first.to_toml()), first);
}

#[test]
fn bad_scenarios_get_one_line_with_file_line_key_and_fix() {
    let flow = |line: &str| format!("{SMALL}[[flows]]\n{line}\n");
    let resuming = |line: &str| flow(line).replace("reno@tcp", "reno:start=resume@tcp");
    let cases = [
        (
            "name = 5".to_owned(),
            "s.toml:1: name: integer `5` stands where a text is due; write a text in quotes, with its unit: \"24 Mbit/s\", \"20ms\" (--set without the quotes)",
        ),
        ("[down".to_owned(), "s.toml:1: unclosed table, expected `]`"),
        ("contestants = []".to_owned(), "s.toml:1: name: this key is missing; add it"),
        (
            "name = ''\ncontestants = ['reno@tcp']".to_owned(),
            "s.toml:1: name: it is empty; give the scenario a name, such as \"cellular\"",
        ),
        (
            "name = 'a'".to_owned(),
            "s.toml:1: contestants: there is no contestant; give at least one, such as [\"cubic@tcp\"]",
        ),
        (format!("secnds = 3{SMALL}"), "s.toml:1: secnds: unknown key 'secnds'; did you mean seconds?"),
        (
            format!("\"a` b `seconds\\nx\" = 3{SMALL}"),
            "s.toml:1: a` b `seconds x: unknown key 'a` b `seconds x'; known are name, title, seconds, runs, seed, tunnel, contestants, programs, programs_from, down, up, links, nodes, telemetry, flows, cross, when",
        ),
        (
            format!("seconds = 0{SMALL}"),
            "s.toml:1: seconds: 0 is not above 0 and at most 10000000; give seconds, such as 60",
        ),
        (
            format!("seconds = nan{SMALL}"),
            "s.toml:1: seconds: NaN is not above 0 and at most 10000000; give seconds, such as 60",
        ),
        (format!("runs = 0{SMALL}"), "s.toml:1: runs: 0 runs show nothing; give 1 or more"),
        (
            format!("runs = -1{SMALL}"),
            "s.toml:1: runs: integer `-1` is not a whole number from 0 to 4294967295; write one such as 30",
        ),
        (
            SMALL.replace("reno@tcp", "rno@tcp"),
            "s.toml:3: contestants[0]: unknown controller 'rno'; did you mean reno?",
        ),
        (
            SMALL.replace("\"reno@tcp\"", "\"reno@tcp\", \"reno@tcp\""),
            "s.toml:3: contestants[1]: reno@tcp races twice; take one out",
        ),
        (
            SMALL.replace("reno@tcp", "copa:delta=0.1..0.5@udp"),
            "s.toml:3: contestants[0]: 'copa:delta=0.1..0.5@udp' holds a range, but contestants are the same in every run; name each value as a contestant",
        ),
        (
            SMALL.replace("10 Mbit/s", "-10 Mbit/s"),
            "s.toml:5: down.rate: '-10 Mbit/s' is not a rate such as 12Mbit/s, 12mbit or 1Gbit/s",
        ),
        (
            SMALL.replace("10 Mbit/s", "0 Mbit/s"),
            "s.toml:5: down.rate: a link of rate 0 carries nothing; give a rate above 0, such as 12 Mbit/s",
        ),
        (
            SMALL.replace("delay = \"5ms\"", "delay = 5"),
            "s.toml:6: down.delay: integer `5` stands where a text is due; write a text in quotes, with its unit: \"24 Mbit/s\", \"20ms\" (--set without the quotes)",
        ),
        (SMALL.replace("delay", "dlay"), "s.toml:6: down.dlay: unknown key 'dlay'; did you mean delay?"),
        (
            SMALL.replace("10 Mbit/s", "1 Mbit/s").replace("delay", "queue = \"droptail:1000\"\ndelay"),
            "s.toml:6: down.queue: queue 'droptail': limit=1000 is not clear without a unit; write 1000packets or 1000B",
        ),
        (
            SMALL.replace("delay", "queue = \"droptail:1000B\"\ndelay"),
            "s.toml:6: down.queue: it holds 1000 bytes, and a packet has 1500: nothing could pass; give room for a packet, such as 2MB, 100packets or 1bdp",
        ),
        (
            SMALL.replace("rate = \"10 Mbit/s\"\n", ""),
            "s.toml:4: down: there is no link, and a flow that sends without end runs over it: nothing would ever hold it back; give rate, schedule or trace, or a flow with an end, such as workload = { bytes = \"10MB\" }",
        ),
        (flow("count = 0"), "s.toml:8: flows[0].count: 0 flows send nothing; give 1 or more, or leave the flow out"),
        (flow("start = \"5s\"\nstop = \"5s\""), "s.toml:9: flows[0].stop: it is not after start; give a later time"),
        (
            flow("remembered = { window = \"1MB\", rtt = \"50ms\" }"),
            "s.toml:8: flows[0].remembered: no contestant of this flow makes use of it; leave it out, or let one start so, such as \"cubic:start=resume@tcp\"",
        ),
        (
            resuming("remember = true"),
            "s.toml:8: flows[0].remember: it is for flows that come one after the other; add workload = { poisson = ... }, or say what is \"remembered\"",
        ),
        (
            resuming("remembered = { window = \"0B\", rtt = \"50ms\" }"),
            "s.toml:8: flows[0].remembered: a window or an RTT of 0 was never measured; give both, such as { window = \"1MB\", rtt = \"50ms\" }",
        ),
        (
            flow("contestant = \"reno@tcp\""),
            "s.toml:7: flows: no flow belongs to the contestant under test; write contestant = \"each\" in one",
        ),
        (flow("workload = \"bluk\""), "s.toml:8: flows[0].workload: unknown value 'bluk'; did you mean bulk?"),
        (
            flow("workload = { bytes = \"0B\" }"),
            "s.toml:8: flows[0].workload: 0 bytes are not a flow; give a size such as \"1MB\"",
        ),
        (
            flow("workload = { poisson = { mean_gap = \"1s\", alpha = 1.2, min = \"2kB\", max = \"1kB\" } }"),
            "s.toml:8: flows[0].workload.poisson.max: it is below min; give a larger size",
        ),
        (
            flow("workload = { poisson = { mean_gap = \"1s\", alpha = 1.2, min = \"2kB\" } }"),
            "s.toml:8: flows[0].workload.poisson.max: this key is missing; add it",
        ),
        (flow("direction = \"left\""), "s.toml:8: flows[0].direction: unknown value 'left'; known are down, up"),
        (flow("timers = \"late\""), "s.toml:8: flows[0].timers: unknown value 'late'; known are exact, overhead, host"),
        (
            flow("handshake = \"yes\""),
            "s.toml:8: flows[0].handshake: string \"yes\" stands where a boolean is due; write true or false",
        ),
        (
            flow("start = \"9ms..1ms\""),
            "s.toml:8: flows[0].start: the range 9ms..1ms runs backwards; write the smaller end first",
        ),
        (
            flow("start = \"9ms..1MB\""),
            "s.toml:8: flows[0].start: 9ms and 1MB are not of one kind; give both ends of the range the same unit",
        ),
        (format!("{SMALL}[[cross]]\npacket = \"1500B\""), "s.toml:7: cross[0].rate: this key is missing; add it"),
        (
            format!("{SMALL}[[cross]]\nrate = \"0bit/s\""),
            "s.toml:8: cross[0].rate: a rate of 0 sends nothing; give one such as \"2 Mbit/s\", or leave it out",
        ),
        (
            format!("{SMALL}[telemetry]\nprofile = \"L16\""),
            "s.toml:8: telemetry.profile: L has room for 1 to 15 records, not 16; give fewer, or a profile with fewer fields",
        ),
        (
            format!("{SMALL}[telemetry]\nprofile = \"lean\""),
            "s.toml:8: telemetry.profile: 'lean' is not a profile; write L, T, C, X or W and the number of records, such as \"L2\"",
        ),
        (
            format!("{SMALL}[telemetry]\ninterval = \"2s\""),
            "s.toml:8: telemetry.interval: it is not between 1ms and 1s; \"10ms\" is the default",
        ),
        (
            format!("{SMALL}[telemetry]\ndrop = 1.5"),
            "s.toml:8: telemetry.drop: it is not between 0 and 1; give a share, such as 0.1",
        ),
        (
            format!("{SMALL}[telemetry]\nresumes = \"2s\""),
            "s.toml:8: telemetry.resumes: reports never stop; give stops as well",
        ),
        (
            format!("{SMALL}[telemetry]\nstops = \"2s\"\nresumes = \"2s\""),
            "s.toml:9: telemetry.resumes: it is not after stops; give a later time",
        ),
        (
            format!("{SMALL}[telemetry]\nimpostor = \"replay\""),
            "s.toml:8: telemetry.impostor: it begins where the sink stops; give stops as well",
        ),
        (
            format!("{SMALL}[telemetry]\nstops = \"2s\"\nimpostor = \"replay\""),
            "s.toml:9: telemetry.impostor: reports within one process have no keys; give bus, such as \"nats://127.0.0.1:4222\"",
        ),
        (
            format!("{SMALL}[telemetry]\nlie = \"crowded\""),
            "s.toml:8: telemetry.lie: unknown value 'crowded'; did you mean crowd?",
        ),
        (
            format!("{SMALL}[telemetry]\nlie_from = \"2s\""),
            "s.toml:8: telemetry.lie_from: no hop lies; give lie as well, such as \"busy\"",
        ),
        (
            format!("{SMALL}[telemetry]\nforge = \"plenty\""),
            "s.toml:8: telemetry.forge: unknown value 'plenty'; known are medium, congestion",
        ),
        (
            flow("telemetry = false"),
            "s.toml:8: flows[0].telemetry: there is no [telemetry] to switch; add the section, or leave this out",
        ),
        (
            flow("mss = 163\n[telemetry]"),
            "s.toml:8: flows[0].mss: the header of telemetry (L2) takes 64 bytes of it, and 100 must stay; give 164 or more",
        ),
        (
            SMALL.replace("rate = \"10 Mbit/s\"", "trace = \"no/such.down\""),
            "s.toml:5: down.trace: no/such.down cannot be read (No such file or directory (os error 2)); name a trace file that exists",
        ),
    ];
    let mut wrong = Vec::new();
    for (text, expected) in &cases {
        let found = error(text);
        assert!(!found.contains('\n'), "{found}");
        if found != *expected {
            wrong.push(format!("found    {found}\nexpected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn telemetry_takes_its_header_from_the_payload_of_flows_that_can_carry_it() {
    let text = format!(
        "{SMALL}[telemetry]\nprofile = \"X1\"\nlate = \"1ms..2ms\"\n[[flows]]\n[[flows]]\ntelemetry = false\n\
         [[flows]]\ncontestant = \"cubic@alcc\"\n"
    );
    let plan = Source::from_text("s.toml", &text, Options::default()).plans().unwrap().remove(0);
    let flows = plan.flows(&plan.scenario.contestants[0]);
    let carries = |flow: &paceline_experiment::Flow| (flow.mss, flow.telemetry.is_some());
    assert_eq!(flows.iter().map(carries).collect::<Vec<_>>(), [(1448 - 72, true), (1448, false), (1448, false)]);
    assert!(flows.iter().take(1).all(|flow| flow.packet_bytes() == 1500));
    assert!(plan.drawn.contains_key("telemetry.late"));
    assert_eq!(scenario(&plan.scenario.to_toml()), plan.scenario);
    assert!(plan.scenario.to_toml().contains("interval = \"10ms\""), "every default is filled in");
}

#[test]
fn who_needs_telemetry_is_refused_where_there_is_none() {
    let make = |_: &Params, env: &Env| -> Box<dyn Controller> { Box::new(Fixed::new(env, 10.0, None)) };
    let mut definition = Definition::new("needs-hops", make);
    definition.needs = vec![Ability::Telemetry];
    register(definition).unwrap();
    let needy = SMALL.replace("reno@tcp", "needs-hops@tcp");
    assert_eq!(
        error(&needy),
        "s.toml:3: contestants[0]: needs-hops needs reports of the path's hops, and the scenario has none; add [telemetry]"
    );
    let with = format!("{needy}[telemetry]\n");
    assert!(Source::from_text("s.toml", &with, Options::default()).plans().is_ok());
}

#[test]
fn bad_options_name_the_option() {
    type Change = fn(&mut Options);
    let cases: [(Change, &str); 9] = [
        (|o| o.seconds = Some(0.0), "--seconds: 0 is not above 0 and at most 10000000; give e.g. 60"),
        (|o| o.seconds = Some(-1.0), "--seconds: -1 is not above 0 and at most 10000000; give e.g. 60"),
        (|o| o.runs = Some(0), "--runs: 0 is not between 1 and 10000; give e.g. 10"),
        (|o| o.seed = Some(u64::MAX), "--seed: 18446744073709551615 is above 9223372036854775807; give a smaller one"),
        (
            |o| o.contestants = Some(",".into()),
            "--contestants: there is no contestant; give at least one, such as cubic@tcp",
        ),
        (
            |o| o.contestants = Some("reno".into()),
            "--contestants: 'reno' names no datapath; write 'reno@udp', 'reno@tcp', 'reno@alcc', 'reno@icn', 'reno@quic', 'reno@quic/noq' or 'reno@quic/s2n'",
        ),
        (
            |o| o.contestants = Some("copa:delta=0.1..0.5@udp".into()),
            "--contestants: 'copa:delta=0.1..0.5@udp' holds a range, but contestants are the same in every run; name each value as a contestant",
        ),
        (|o| o.contestants = Some("reno@tcp,reno@tcp".into()), "--contestants: reno@tcp races twice; take one out"),
        (
            |o| o.trace = Some("no/such".into()),
            "--trace: no/such cannot be read (No such file or directory (os error 2)); name a trace file that exists",
        ),
    ];
    for (change, expected) in cases {
        let mut options = Options::default();
        change(&mut options);
        assert_eq!(plans(SMALL, options).unwrap_err(), expected);
    }
}

/// A file that spells a value out that has become the default goes on to run, and says so.
#[test]
fn two_texts_of_one_contestant_run_once() {
    let spelt = SMALL.replace("\"reno@tcp\"", "\"copa@udp\", \"reno@tcp\", \"copa:delta=0.5@udp\"");
    let list = Options { contestants: Some("reno@tcp,copa:delta=0.5@udp,copa@udp".into()), ..Options::default() };
    for (text, options, of) in [(&*spelt, Options::default(), "copa:delta=0.5@udp"), (SMALL, list, "copa@udp")] {
        let source = Source::from_text("s.toml", &format!("seconds = 1\nruns = 1{text}"), options);
        let race = race(&source, &Settings::default()).unwrap();
        assert_eq!(race.notes, [format!("{of} means copa@udp, which races already: it runs once")]);
        assert_eq!(race.runs.len(), 2);
    }
}

#[test]
fn ranges_are_drawn_for_each_run_and_from_its_seed_alone() {
    let text = format!("runs = 20{SMALL}[[flows]]\nstart = \"10ms..30ms\"\ncount = \"2..4\"\n");
    let drawn = plans(&text, Options::default()).unwrap();
    let starts: Vec<Nanos> = drawn.iter().map(|plan| plan.scenario.flows[0].start).collect();
    assert!(starts.iter().all(|start| (10_000_000..=30_000_000).contains(&start.as_nanos())));
    assert!(starts.windows(2).any(|pair| pair[0] != pair[1]));
    let counts: Vec<u32> = drawn.iter().map(|plan| plan.scenario.flows[0].count).collect();
    assert!((2..=4).all(|count| counts.contains(&count)), "{counts:?}");
    assert_eq!(drawn[0].drawn["flows[0].start"].parse(), Ok(starts[0]));

    // Another range elsewhere shifts nothing; another seed does.
    let more = plans(&text.replace("delay = \"5ms\"", "delay = \"1ms..9ms\""), Options::default()).unwrap();
    assert_eq!(more.iter().map(|plan| plan.scenario.flows[0].start).collect::<Vec<_>>(), starts);
    let other = plans(&text, Options { seed: Some(2), ..Options::default() }).unwrap();
    assert_ne!(other[0].scenario.flows[0].start, starts[0]);
}

#[test]
fn parameters_of_queues_and_rivals_may_hold_ranges() {
    let text = format!(
        "runs = 20{SMALL}queue = \"droptail:bytes=1MB..3MB,packets=10..20\"\n[[flows]]\n[[flows]]\n\
         contestant = \"copa:mode=default,delta=0.1..0.5@alcc/copa:delta=0.2..0.3\"\n"
    );
    let drawn = plans(&text, Options::default()).unwrap();
    let number = |plan: &Plan, key: &str| plan.drawn[key].parse::<f64>().unwrap();
    for plan in &drawn {
        let bytes: u64 = plan.drawn["down.queue.bytes"].parse::<paceline_cc::Bytes>().unwrap().0;
        assert!((1_000_000..=3_000_000).contains(&bytes));
        assert!((10.0..=20.0).contains(&number(plan, "down.queue.packets")));
        let delta = number(plan, "flows[1].contestant.delta");
        assert!((0.1..=0.5).contains(&delta));
        assert!((0.2..=0.3).contains(&number(plan, "flows[1].contestant.lower.delta")));
        let queue: paceline_path::QueueSpec =
            format!("droptail:bytes={bytes}B,packets={}", plan.drawn["down.queue.packets"]).parse().unwrap();
        assert_eq!(plan.scenario.down.queue, Some(queue));
        let Who::Fixed(rival) = &plan.scenario.flows[1].contestant else { panic!("{:?}", plan.scenario.flows[1]) };
        assert!(rival.to_string().contains(&format!("delta={delta}")), "{rival}");
    }
    assert!(drawn.windows(2).any(|pair| pair[0].drawn != pair[1].drawn));
    // The text that was drawn says so too.
    let effective = scenario(&drawn[0].scenario.to_toml());
    assert_eq!(effective.down.queue, drawn[0].scenario.down.queue);

    let queue = |text: &str| error(&format!("{SMALL}queue = \"{text}\"\n"));
    assert_eq!(
        queue("droptail:bytes=3MB..1MB"),
        "s.toml:7: down.queue: the range 3MB..1MB runs backwards; write the smaller end first"
    );
    assert_eq!(
        queue("droptail:bytes=3MB..9ms"),
        "s.toml:7: down.queue: 3MB and 9ms are not of one kind; give both ends of the range the same unit"
    );
    assert!(queue("droptail:bytes=few..many").contains("=few..many is not a size"));
    for limit in ["codel:target=5ms..9ms,limit=20packets..30packets", "codel:limit=0.5bdp..1.5bdp"] {
        let drawn = plans(&format!("{SMALL}queue = \"{limit}\"\n"), Options::default()).unwrap();
        assert!(drawn[0].drawn["down.queue.limit"].ends_with(['s', 'p']), "{:?}", drawn[0].drawn);
    }
}

#[test]
fn errors_after_a_range_keep_their_lines() {
    let text = SMALL.replace("\"5ms\"", "\"\"\"1ms..\n9ms\"\"\"");
    assert_eq!(scenario(&text).name, "small");
    let found = error(&format!("{text}[[flows]]\ncount = 0"));
    assert!(found.starts_with("s.toml:9: flows[0].count"), "{found}");
}

#[test]
fn zeros_are_not_fair_and_are_reported() {
    let text = SMALL.replace("delay", "loss = 1.0\ndelay");
    let source = Source::from_text("s.toml", &format!("seconds = 2{text}[[flows]]\ncount = 2"), Options::default());
    let record = race(&source, &Settings::default()).unwrap().runs.remove(0).record;
    assert_eq!((record.throughput_mbps, record.jain), (0.0, None));
    assert!(reading([&record]).ends_with("\nNothing got through: reno@tcp.\n"), "{}", reading([&record]));
}

#[test]
fn a_queue_of_one_bdp_knows_a_delay_that_changes() {
    let records = |delay: &str| {
        let text = SMALL.replace("delay = \"5ms\"", &format!("{delay}\nqueue = \"droptail:bdp=1\"\n[up]\n{delay}"));
        let source = Source::from_text("s.toml", &format!("seconds = 2{text}"), Options::default());
        race(&source, &Settings::default()).unwrap().runs.remove(0).record
    };
    let fixed = records("delay = \"20ms\"");
    assert!(fixed.queue_ms.unwrap().max > 30.0, "{:?}", fixed.queue_ms);
    assert_eq!(records("delay_schedule = [[\"0s\", \"20ms\"]]"), fixed);
}

#[test]
fn a_controller_registered_at_run_time_races_by_its_name() {
    const SOURCE: &str = "this test";
    let number = 7;
    let packets =
        Param::new(intern(&format!("packets_{number}")).unwrap(), Kind::Number { min: 1.0, max: 100.0 }, "10")
            .with_unit("packets")
            .with_source(SOURCE);
    // 10 packets each 21 ms or so: 5.5 Mbit/s of the 10.
    let make = move |params: &Params, env: &Env| -> Box<dyn Controller> {
        Box::new(Fixed::new(env, params.number(packets.name), None))
    };
    let name = format!("mine-{number}");
    let mut mine = Definition::new(name, make);
    mine.params = vec![packets];
    mine.source = SOURCE.to_owned();
    register(mine).unwrap();

    let contestants = "contestants = [\"mine-7@tcp\", \"mine-7:packets_7=5@udp\", \"cubic@tcp\", \"mine-7@alcc/open\"]";
    let text = SMALL.replace("contestants = [\"reno@tcp\"]", &format!("seconds = 5\nruns = 1\n{contestants}"));
    let text = format!("{text}[up]\ndelay = \"15ms\"\n[[flows]]\n[[flows]]\ncontestant = \"mine-7:packets_7=1@tcp\"\n");
    let source = Source::from_text("s.toml", &text, Options::default());
    let records: Vec<Record> =
        race(&source, &Settings::default()).unwrap().runs.into_iter().map(|run| run.record).collect();
    let found: Vec<String> = records.iter().map(Record::contestant).collect();
    assert_eq!(found, ["mine-7@tcp", "mine-7:packets_7=5@udp", "cubic@tcp", "mine-7@alcc/open"]);
    let rate = |record: usize, flow: usize| records[record].flows[flow].throughput_mbps;
    assert!((5.0..6.0).contains(&rate(0, 0)), "{}", rate(0, 0));
    assert!((2.4..3.0).contains(&rate(1, 0)), "{}", rate(1, 0));
    assert!(rate(2, 0) > 8.0 && rate(3, 0) > 5.0, "{} {}", rate(2, 0), rate(3, 0));
    // The same rival beside each: one packet a round trip, which lasts longer behind what CUBIC queues.
    assert!((0..4).all(|record| rate(record, 1) > 0.0 && rate(record, 1) < 0.6));

    let found = error(&SMALL.replace("reno@tcp", "mine-7:packet_7=3@tcp"));
    assert!(found.ends_with("controller 'mine-7' has no parameter 'packet_7'; did you mean packets_7?"), "{found}");
}

#[test]
fn options_replace_the_values_of_the_file() {
    let contestants = Some("copa:mode=default,delta=0.1@udp,cubic@tcp".to_owned());
    let options = Options { contestants, seed: Some(7), seconds: Some(1.5), runs: Some(3), ..Options::default() };
    let drawn = plans(SMALL, options).unwrap();
    assert_eq!(drawn.len(), 3);
    let first = &drawn[0].scenario;
    assert_eq!((first.seed, first.seconds, first.contestants.len()), (7, 1.5, 2));
}

#[test]
fn shipped_scenarios_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut seen = 0;
    let entries = [folder.clone(), folder.join("wifi")].map(|folder| std::fs::read_dir(folder).unwrap());
    for entry in entries.into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") && !path.ends_with("programs.toml") {
            let source = Source::read(&path, Options::default()).unwrap();
            let plan = source.plans().unwrap_or_else(|error| panic!("{error}")).remove(0);
            assert_eq!(Some(plan.scenario.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
            assert!(!plan.scenario.title.is_empty(), "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 13);
}

#[test]
fn shipped_programs_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let text = std::fs::read_to_string(folder.join("programs.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let names: Vec<&String> = table["programs"].as_table().unwrap().keys().collect();
    assert!(names.len() >= 8, "{names:?}");
    let error = Source::from_text("programs.toml", &text, Options::default()).plans().unwrap_err().to_string();
    let way_out = "programs: these are programs without a path; race a scenario with programs_from = \"FILE\", or --set programs_from=FILE";
    assert!(error.starts_with("programs.toml:") && error.ends_with(way_out), "{error}");
    for name in names {
        let text = format!("programs_from = \"programs.toml\"{SMALL}").replace("reno@tcp", &format!("{name}@program"));
        let source = Source::from_text("s.toml", &text, Options::default()).in_folder(&folder);
        let plan = source.plan(1).unwrap_or_else(|error| panic!("{error}"));
        let [program] = &plan.scenario.programs()[..] else { panic!("one program") };
        assert_eq!((&program.name, plan.scenario.contestants[0].to_string()), (name, format!("{name}@program")));
        // Every command finds what it asks for.
        for (key, command) in program.commands() {
            for word in command.split('$').skip(1) {
                let word = word.trim_start_matches('{');
                let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(word.len());
                let variable = &word[..end];
                let known = variable.starts_with("PACELINE_")
                    || variable == "QLOGDIR"
                    || program.env.contains_key(variable)
                    || program.options.keys().any(|option| option.to_ascii_uppercase() == variable);
                assert!(known, "{name}: {key}: ${variable}");
            }
        }
    }
}

/// Three stations of one access point on one channel.
const WIFI: &str = r#"name = "w"
contestants = ["reno@tcp"]
seconds = 2
[links.a]
between = ["ap", "one"]
wifi = { phy = "vht80-2ss-mcs9", channel = "air" }
[links.b]
between = ["ap", "two"]
wifi = { phy = "ht20-2ss-mcs7", channel = "air", per = 0.1 }
back = { wifi = { phy = "ht20-1ss-mcs7", channel = "air" }, delay = "1ms" }
[[flows]]
from = "ap"
to = "one"
[[flows]]
from = "two"
to = "one"
"#;

#[test]
fn wifi_links_are_read_and_written() {
    let plan = plans(WIFI, Options::default()).unwrap().remove(0);
    let again = plans(&plan.to_toml(), Options::default()).unwrap().remove(0);
    // What is written has every default.
    assert_eq!(again.scenario, plans(&again.to_toml(), Options::default()).unwrap().remove(0).scenario);
    assert_eq!(plan.scenario.links["b"].back().wifi, again.scenario.links["b"].back().wifi);
    let set = vec!["links.a.wifi.ccmp=true".to_owned(), "links.b.wifi.per=0.1..0.2".to_owned()];
    let plan = plans(WIFI, Options { set, ..Options::default() }).unwrap().remove(0);
    assert!(plan.scenario.links["a"].back().wifi.as_ref().unwrap().ccmp);
    assert!(plan.drawn.contains_key("links.b.wifi.per"), "{:?}", plan.drawn);
}

#[test]
fn wifi_links_that_cannot_be_are_refused_in_one_line() {
    let refused = |from: &str, to: &str| {
        assert!(WIFI.contains(from));
        let error = plans(&WIFI.replacen(from, to, 1), Options::default()).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    for (from, to, expected) in [
        (
            "vht80-2ss-mcs9",
            "vht80-2ss-mcs11",
            "6: links.a.wifi.phy: 'vht80-2ss-mcs11' is not a Wi-Fi rate: there is no such MCS",
        ),
        (
            "channel = \"air\" }",
            "channel = \"air\", stations = 4 }",
            "6: links.a.wifi.stations: unknown key 'stations'",
        ),
        ("per = 0.1", "per = 2", "9: links.b.wifi.per: 2 is not a probability; give a number from 0 to 1"),
        ("per = 0.1", "competitors = 1", "9: links.b.wifi: directions on one channel differ in competitors"),
        (
            "back = { wifi = { phy = \"ht20-1ss-mcs7\", channel = \"air\" }, ",
            "back = { ",
            "10: links.b.back.wifi: one direction of the link has it",
        ),
        (
            "\"ht20-1ss-mcs7\", channel = \"air\"",
            "\"ht20-1ss-mcs7\", channel = \"sea\"",
            "10: links.b.back.wifi.channel: it is not the channel",
        ),
        (
            "[links.b]",
            "rate = \"1 Mbit/s\"\n[links.b]",
            "6: links.a.wifi: more than one of rate, schedule, trace and wifi is given",
        ),
    ] {
        let error = refused(from, to);
        assert!(error.contains(expected), "{error}, not {expected}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = plans(&text, Options::default());
    }

    #[test]
    fn no_change_of_a_scenario_panics(
        at in 0..2000_usize,
        cut in 0..40_usize,
        put in "[\\[\\]=.\"'{}0-9a-z\\n -]{0,12}",
    ) {
        let mut text = format!(
            "{SMALL}schedule_lap = \"1s..2s\"\n[[flows]]\nstart = \"0ms..100ms\"\nworkload = {{ poisson = {{ \
             mean_gap = \"1s\", alpha = 1.2, min = \"2kB\", max = \"9kB\" }} }}\n[[cross]]\n\
             rate = \"1 Mbit/s..2 Mbit/s\"\n"
        );
        let at = at % text.len();
        text.replace_range(at..(at + cut).min(text.len()), &put);
        if let Err(error) = plans(&text, Options::default()) {
            prop_assert!(!error.contains('\n'), "{error}");
        }
    }
}
