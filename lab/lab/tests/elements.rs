//! Elements of a path in scenario files: what is written back, refused, and counted.

use std::path::Path;

use paceline_lab::race::{Settings, race};
use paceline_lab::record::Record;
use paceline_lab::scenario::{Options, Plan, Source};

const SMALL: &str = r#"name = "small"
seconds = 4
contestants = ["cubic@tcp"]
[down]
rate = "50 Mbit/s"
delay = "10ms"
queue = "droptail:bdp=1"
"#;

fn plans(text: &str) -> Result<Vec<Plan>, String> {
    Source::from_text("s.toml", text, Options::default()).plans().map_err(|error| error.to_string())
}

fn keys(text: &str) -> toml::Table {
    text.parse().unwrap()
}

/// What is written back of a text.
fn again(text: &str) -> toml::Table {
    keys(&plans(text).unwrap().remove(0).to_toml())
}

fn record(text: &str) -> Record {
    let options = Options { runs: Some(1), ..Options::default() };
    race(&Source::from_text("s.toml", text, options), &Settings::default()).unwrap().runs.remove(0).record
}

#[test]
fn elements_are_written_back() {
    for (line, written) in [
        (
            "policer = { rate = '1 Mbit/s..2 Mbit/s', burst = '9kB' }",
            "[down.policer]\nrate = \"1 Mbit/s..2 Mbit/s\"\nburst = \"9kB\"\nper = \"all\"\naction = \"drop\"\n",
        ),
        ("jitter = { wifi = '7ms' }", "[down.jitter]\nwifi = \"7ms\"\nreorder = false\nper = \"20ms\"\nscale = 84.0\n"),
        (
            "jitter_schedule = [['0s', { wifi = '999us' }], ['1s', { normal = '5ms' }]]",
            "{ wifi = \"999us\", reorder = false, per = \"20ms\", scale = 84.0 }",
        ),
        ("loss_schedule = [['0s', 0], ['1s', { burst = 2, every = 18 }]]", "{ burst = 2, every = 18 }"),
        ("marks = 'bleach'", "marks = \"bleach\""),
        ("[[flows]]\nreceiver = 'hides_marks'", "receiver = \"hides_marks\""),
        ("[[cross]]\nrate = '1 Mbit/s'\nburst = 8", "burst = 8"),
    ] {
        let text = plans(&format!("{SMALL}{line}")).unwrap().remove(0).to_toml();
        assert!(text.contains(written), "{text}");
        assert_eq!(again(&text), keys(&text));
    }
    let text = SMALL.replace("rate = \"50 Mbit/s\"", "bucket = { rate = '50 Mbit/s', peak = '100 Mbit/s' }");
    let written = plans(&text).unwrap().remove(0).to_toml();
    assert!(written.contains("burst = \"62500\"") || written.contains("burst = \"62500B\""), "{written}");
    assert_eq!(again(&written), keys(&written));
    let timed = "[['0s', 'droptail:time=100ms'], ['1s', 'droptail:time=200ms']]";
    let text = SMALL.replace("queue = \"droptail:bdp=1\"", &format!("queue_schedule = {timed}"));
    let written = plans(&text).unwrap().remove(0).to_toml();
    assert!(written.contains("droptail:time=200ms") && !written.contains("queue ="), "{written}");
    assert_eq!(again(&written), keys(&written));
}

#[test]
fn elements_that_cannot_be_are_refused_in_one_line() {
    for (line, expected) in [
        (
            "policer = { rate = '1 Mbit/s', burst = '1kB' }",
            "s.toml:8: down.policer.burst: it holds 1000 bytes, and a packet has 1500: nothing could pass; give room for a \
             packet, such as 125kB",
        ),
        (
            "policer = { rate = '0 Mbit/s', burst = '9kB' }",
            "s.toml:8: down.policer.rate: at a rate of 0 nothing passes; give one above 0, such as 10 Mbit/s",
        ),
        (
            "[up]\npolicer = { rate = '1 Mbit/s', burst = '9kB' }",
            "s.toml:9: up.policer: there is no link behind it; give rate, schedule or trace, above the policer's, or leave out \
             the policer",
        ),
        (
            "policer = { rate = '1 Mbit/s', brst = '9kB' }",
            "s.toml:8: down.policer.brst: unknown key 'brst'; did you mean burst?",
        ),
        (
            "policer = { rate = '1 Mbit/s', burst = '9kB', per = 'host' }",
            "s.toml:8: down.policer.per: unknown value 'host'; known are all, flow",
        ),
        (
            "policer = { rate = '1 Mbit/s', burst = '9kB', action = 'pass' }",
            "s.toml:8: down.policer.action: unknown value 'pass'; did you mean mark?",
        ),
        (
            "jitter = { max = '1ms', wifi = '1ms' }",
            "s.toml:8: down.jitter: it needs one of max, mean, normal and wifi; write { max = \"5ms\" } (uniform), { mean = \
             \"2ms\" } (exponential), { normal = \"5ms\" } or { wifi = \"7ms\" }",
        ),
        (
            "[up]\nmarks = 'forget'",
            "s.toml:9: up.marks: there is no queue whose marks could be forgotten; give rate, schedule or trace, or leave it out",
        ),
        (
            "[[flows]]\n[[flows]]\ncontestant = 'cubic@icn'\nreceiver = 'divides'",
            "s.toml:11: flows[1].receiver: the receiver of cubic@icn asks for data and acknowledges none; leave it out, or race \
             over @tcp or @udp",
        ),
        (
            "[[flows]]\n[[flows]]\ncontestant = 'cubic@udp'\nreceiver = 'divides'",
            "s.toml:11: flows[1].receiver: the receiver of cubic@udp acknowledges whole packets, which cannot be divided; leave it \
             out, or race over @tcp",
        ),
        (
            "[[flows]]\nreceiver = 'optimistic'",
            "s.toml:9: flows[0].receiver: without losses nothing would hold back what has no end; add workload = { rate = \"50 Mbit/s\" } \
             or { bytes = \"10MB\" }",
        ),
        (
            "[[flows]]\nreceiver = 'honest'",
            "s.toml:9: flows[0].receiver: unknown value 'honest'; known are optimistic, divides, hides_marks, repeats",
        ),
        (
            "[[cross]]\nrate = '1 Mbit/s'\nburst = 0",
            "s.toml:10: cross[0].burst: it is not between 1 and 1000 packets; a frame of 10 kB has 7",
        ),
        (
            "loss_schedule = [['1s', 0.1]]",
            "s.toml:8: down.loss_schedule: the first step does not start at 0s; write [[\"0s\", 0], [\"1s\", 0.01]]",
        ),
        (
            "queue_schedule = [['0s', 'droptail:time=100ms']]",
            "s.toml:8: down.queue_schedule: queue is given too; keep one of them",
        ),
    ] {
        assert_eq!(plans(&format!("{SMALL}{line}")).unwrap_err(), expected);
    }
}

#[test]
fn a_policer_counts_apart_and_holds_its_rate() {
    let without = record(SMALL);
    assert_eq!(without.policed, None);
    let policed = |per: &str, more: &str| {
        record(&format!("{SMALL}policer = {{ rate = '10 Mbit/s', burst = '30kB', per = '{per}' }}\n{more}"))
    };
    let one = policed("all", "");
    // 4 s of 10 Mbit/s and a burst of 30 kB.
    assert!(one.throughput_mbps > 5.0 && one.throughput_mbps <= 10.06, "{}", one.throughput_mbps);
    let lost = one.loss * one.flows[0].packets as f64;
    assert!(lost > 20.0 && (lost - one.policed.unwrap() as f64).abs() < 0.5, "{lost} of {:?}", one.policed);
    let two = "[[flows]]\ncount = 2\n";
    let (shared, apart) = (policed("all", two), policed("flow", two));
    assert!(shared.throughput_mbps <= 10.06 && apart.throughput_mbps > 12.0, "{}", apart.throughput_mbps);
    assert!(apart.flows.iter().all(|flow| flow.throughput_mbps <= 10.06));
}

#[test]
fn a_policer_that_marks_drops_nothing_that_can_be_marked() {
    let text = format!("{SMALL}policer = {{ rate = '10 Mbit/s', burst = '30kB', action = 'mark' }}\n");
    let marked = record(&text.replace("cubic@tcp", "dctcp@tcp"));
    assert_eq!((marked.policed, marked.loss), (Some(0), 0.0));
    assert!(marked.ecn_marks > 100 && marked.throughput_mbps > 9.0, "{} {}", marked.ecn_marks, marked.throughput_mbps);
    // Without ECN it is as if it did not.
    let dropped = record(&text);
    assert_eq!((dropped.policed, dropped.throughput_mbps), {
        let plain = record(&text.replace(", action = 'mark'", ""));
        (plain.policed, plain.throughput_mbps)
    });
}

#[test]
fn a_policer_on_a_link_is_of_its_direction() {
    let text = "name = 'l'\nseconds = 2\ncontestants = ['cubic@tcp']\n[links.a]\nbetween = ['x', 'y']\nrate = '50 Mbit/s'\n\
                delay = '5ms'\npolicer = { rate = '10 Mbit/s', burst = '30kB' }\nback = { rate = '50 Mbit/s', delay = '5ms' }\n\
                [[flows]]\nfrom = 'x'\nto = 'y'\n";
    let record = record(text);
    let [there, back] = record.links.as_slice() else { panic!("{:?}", record.links) };
    assert!(there.policed.unwrap() > 0 && back.policed.is_none());
    assert_eq!((there.dropped, there.lost, record.policed), (0, 0, there.policed));
}

#[test]
fn what_a_tunnel_does_to_ecn_reaches_the_sender() {
    let text = SMALL.replace("cubic@tcp", "cubic:ecn=on@tcp").replace("droptail:bdp=1", "pie");
    let with = |marks: &str| record(&format!("{text}{marks}"));
    let (kept, bleached, forgotten) = (with(""), with("marks = 'bleach'"), with("marks = 'forget'"));
    assert!(kept.ecn_marks > 0 && kept == with("marks = 'keep'"), "{}", kept.ecn_marks);
    // Where nothing can be marked it is dropped, and where nothing is told the queue grows until it drops.
    assert!((bleached.ecn_marks, forgotten.ecn_marks) == (0, 0) && bleached.loss > kept.loss, "{}", bleached.loss);
    let queue = |record: &Record| record.queue_ms.unwrap().p95;
    assert!(queue(&forgotten) > 1.5 * queue(&kept), "{} and {}", queue(&forgotten), queue(&kept));
}

#[test]
fn receivers_misbehave_over_streams_and_datagrams() {
    for via in ["tcp", "udp", "alcc"] {
        let text = SMALL.replace("@tcp", &format!("@{via}"));
        let flow = "loss = 0.001\n[[flows]]\nworkload = { rate = '45 Mbit/s' }\n";
        let with = |receiver: &str| record(&format!("{text}{flow}{receiver}"));
        let honest = with("");
        let optimistic = with("receiver = 'optimistic'");
        let goodput = |record: &Record| record.goodput_mbps.unwrap();
        assert!(goodput(&optimistic) > 1.02 * goodput(&honest), "{via}: {}", goodput(&optimistic));
        assert_eq!(optimistic.retransmits, Some(0), "{via}: it hides what is missing");
        assert!(via == "udp" || honest.retransmits > Some(0), "{via}");
        // Bytes are counted here, not acknowledgements.
        let divides = (via != "udp").then_some("receiver = 'divides'");
        for receiver in divides.into_iter().chain(["receiver = 'repeats'"]) {
            let cheat = with(receiver);
            let gain = goodput(&cheat) / goodput(&honest);
            assert!((0.8..1.05).contains(&gain), "{via}: {receiver}: {gain}");
        }
    }
    let text = SMALL.replace("cubic@tcp", "cubic:ecn=on@tcp").replace("droptail:bdp=1", "pie");
    let queue = |more: &str| record(&format!("{text}[[flows]]\n{more}")).queue_ms.unwrap().p95;
    assert!(queue("receiver = 'hides_marks'") > 1.5 * queue(""));
}

#[test]
fn a_burst_of_cross_traffic_leaves_at_once_and_keeps_the_rate() {
    let with = |burst: &str| {
        let flow = "[[flows]]\nworkload = { rate = '1 Mbit/s' }\ntimers = 'exact'\n";
        record(&format!("{SMALL}{flow}[[cross]]\nrate = '10 Mbit/s'\npoisson = true\n{burst}"))
    };
    let waits = ["", "burst = 1", "burst = 20"].map(|burst| with(burst).queue_ms.unwrap().max);
    assert_eq!(waits[0], waits[1]);
    // A packet of the flow that comes behind a burst waits for up to 20 of 0.24 ms.
    assert!(waits[2] > 3.0 && waits[0] < 2.0, "{waits:?}");
}

/// Their links are symmetric but for that of the call over a path that becomes longer, and each is named after its file.
#[test]
fn both_directions_of_the_c4_scenarios_are_alike() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/c4");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut seen = 0;
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "toml")) {
        let plan = Source::read(&file, Options::default()).unwrap().plans().unwrap().remove(0);
        let alike = plan.scenario.down == plan.scenario.up;
        assert_eq!(alike, plan.scenario.name != "c4-media-short-long", "{}", file.display());
        assert_eq!(plan.scenario.name, format!("c4-{}", file.file_stem().unwrap().to_str().unwrap()));
        assert!(plan.scenario.flows.iter().all(|flow| flow.handshake) && plan.scenario.runs == 100);
        seen += 1;
    }
    assert_eq!(seen, 33);
}

/// Nothing of CUBIC's course is left to chance beyond the seed, and a transfer ends within its time.
#[test]
fn the_c4_scenarios_give_the_same_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/c4");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut seen = 0;
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "toml")) {
        let run = || {
            // One of them has something to remember.
            let contestants = Some("cubic:start=resume@tcp".to_owned());
            race(
                &Source::read(&file, Options { runs: Some(1), contestants, ..Options::default() }).unwrap(),
                &Settings::default(),
            )
            .unwrap()
            .runs
            .remove(0)
            .record
        };
        let (one, again) = (run(), run());
        assert!(one == again, "{}", file.display());
        assert!(one.flows[0].packets > 300 && one.flows[0].end_s <= one.seconds, "{}: {one:?}", file.display());
        seen += 1;
    }
    assert_eq!(seen, 33);
}

#[test]
fn a_burst_of_losses_and_a_fair_queue_race() {
    let burst = record(&format!("{SMALL}loss = {{ burst = 1, every = 99 }}"));
    assert!((burst.loss - 0.01).abs() < 0.001 && burst.policed.is_none(), "{}", burst.loss);
    let fair = SMALL.replace("droptail:bdp=1", "fq:flow_limit=1000packets");
    let text = format!("{fair}[[flows]]\n[[flows]]\ncontestant = 'fixed:window=500@tcp'\n");
    let record = record(&text);
    let share = record.flows[0].throughput_mbps / record.throughput_mbps;
    assert!((0.35..0.65).contains(&share), "{share}: a flow that fills its queue takes no more than its share");
}

#[test]
fn a_share_is_of_what_the_link_could_carry_meanwhile() {
    let steps = "schedule = [['0s', '20 Mbit/s'], ['1s', '5 Mbit/s']]";
    let text = SMALL.replace("rate = \"50 Mbit/s\"", steps).replace("seconds = 4", "seconds = 8");
    let flow = "[[flows]]\nhandshake = true\nworkload = { bytes = '2MB' }\n";
    let alone = record(&format!("{text}{flow}"));
    assert_eq!(alone.flows[0].share, None);
    let record = record(&format!("{text}{flow}[[flows]]\ncontestant = 'reno@tcp'\n"));
    assert_eq!(record.flows[1].share, None, "it has no end of its own");
    let one = &record.flows[0];
    let (end, wire) = (one.end_s, one.throughput_mbps * (one.end_s - one.start_s));
    assert!(end > 1.5 && end < 8.0, "{end}");
    // 20 Mbit in the first second, then 5 in each.
    let expected = wire / (20.0 + 5.0 * (end - 1.0));
    assert!((one.share.unwrap() - expected).abs() < 1e-3, "{:?}, not {expected}", one.share);
}
