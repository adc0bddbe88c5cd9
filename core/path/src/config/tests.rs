use paceline_cc::Codepoint;

use super::*;

fn parse(text: &str) -> Result<Direction, String> {
    toml::from_str(text).map_err(|error| error.message().to_owned())
}

fn build(text: &str) -> Result<Path<()>, String> {
    let load = |name: &str| Err(format!("{name}: no such file"));
    let direction = parse(text)?;
    direction.build(1, Nanos::from_millis(40), &load).map_err(|error| error.to_string())
}

#[test]
fn every_field_is_understood() {
    let text = r#"
        schedule = [["0s", "200 Mbit/s"], ["10s", "500 Mbit/s"]]
        schedule_lap = "20s"
        policer = { rate = "100 Mbit/s", burst = "125kB", per = "flow" }
        queue = "droptail:bdp=1"
        outages = [["10s", "12s"], ["12s", "13s"]]
        loss = { gilbert = { enter = 0.001, leave = 0.25 } }
        duplicate = 0.001
        reorder = { share = 0.05, delay = "5ms" }
        delay_schedule = [["0s", "20ms"], ["10s", "60ms"]]
        jitter = { max = "5ms", reorder = true }
    "#;
    let direction = parse(text).expect("valid");
    assert_eq!(direction.check(), Ok(()));
    assert_eq!(direction.base_delay(), Nanos::from_millis(20));
    let gilbert = crate::loss::Gilbert { enter: 0.001, leave: 0.25, good: 0.0, bad: 1.0 };
    assert_eq!(direction.loss, Some(LossModel::Gilbert { gilbert }));
    assert!(build(text).is_ok());
    assert_eq!(parse("loss = 1"), Ok(Direction { loss: Some(LossModel::Rate(1.0)), ..Direction::default() }));
    assert!(build("").is_ok());
}

#[test]
fn a_queue_of_one_bdp_is_sized_by_mean_rate_and_round_trip() {
    // 12 Mbit/s x 40 ms = 60 kB: 40 packets wait, one is served.
    let mut path = build("rate = '12 Mbit/s'\nqueue = 'droptail:bdp=1'").expect("valid");
    for _ in 0..100 {
        path.push(Time::ZERO, crate::Packet::new(0, 1500, Codepoint::NotEct, ()));
    }
    assert_eq!(path.queued(Time::ZERO).packets, 40);
}

#[test]
fn the_error_names_field_and_fix() {
    let markov = |rates: &str, hold: &str, next: &str| {
        format!("schedule = {{ markov = {{ rates = {rates}, hold = '{hold}'{next} }} }}")
    };
    let two = "['1 Mbit/s', '2 Mbit/s']";
    let cases = [
        ("rate = '0 Mbit/s'", "rate: a link of rate 0 carries nothing; give a rate above 0, such as 12 Mbit/s"),
        ("rate = '-1 Mbit/s'", "'-1 Mbit/s' is not a rate such as 12Mbit/s, 12mbit or 1Gbit/s"),
        (
            "rate = '1 Mbit/s'\ntrace = 't'",
            "rate: more than one of rate, schedule and trace is given; keep one of them",
        ),
        ("schedule = []", "schedule: the first step does not start at 0s"),
        ("schedule = [['1s', '1 Mbit/s']]", "schedule: the first step does not start at 0s"),
        ("schedule = [['0s', '0 Mbit/s']]", "schedule: every rate is 0"),
        ("schedule = [['0s', '1 Mbit/s'], ['0s', '2 Mbit/s']]", "schedule: the times of the steps do not increase"),
        ("schedule = [['0s', '1 Mbit/s']]\nschedule_lap = '0s'", "schedule_lap: it is not after the last step"),
        ("rate = '1 Mbit/s'\nschedule_lap = '1s'", "schedule_lap: it is not after the last step"),
        (
            "schedule = '1 Mbit/s'",
            "invalid type: string \"1 Mbit/s\", expected [[\"0s\", \"2 Mbit/s\"], ...], or { markov",
        ),
        ("schedule = { markv = 1 }", "unknown field `markv`, expected `markov`"),
        ("schedule = { markov = { rates = ['1 Mbit/s', '2 Mbit/s'] } }", "missing field `hold`"),
        (
            &markov("['1 Mbit/s']", "1ms", ""),
            "schedule.markov.rates: 1 is not a number of rates from 2 to 100; give rates",
        ),
        (&markov("['0 Mbit/s', '0 Mbit/s']", "1ms", ""), "schedule.markov.rates: every rate is 0; give a rate above 0"),
        (&markov(two, "0s", ""), "schedule.markov.hold: it is below 1us; give a time such as 200ms"),
        (&markov(two, "1s", ", next = [[0, 1]]"), "schedule.markov.next: it is not 2 rows of 2; give each rate a"),
        (&markov(two, "1s", ", next = [[0, 1], [1]]"), "schedule.markov.next: it is not 2 rows of 2; give each rate a"),
        (&markov(two, "1s", ", next = [[0, 1], [2, -1]]"), "schedule.markov.next: 2 in row 2 is not a probability"),
        (&markov(two, "1s", ", next = [[0, 1], [0.5, 0.4]]"), "schedule.markov.next: row 2 sums up to 0.9; give"),
        (&markov(two, "1s", ", next = [[0, 1], [0, 1]]"), "schedule.markov.next: no way leads from rate 2 to rate 1;"),
        (&format!("{}\nschedule_lap = '1s'", markov(two, "1s", "")), "schedule_lap: a Markov chain has no last step;"),
        (&format!("{}\nrate = '1 Mbit/s'", markov(two, "1s", "")), "rate: more than one of rate, schedule and trace"),
        ("trace = 'x.down'", "trace: x.down: no such file"),
        ("trace_start = '3s'", "trace_start: there is no trace to start in; give a trace, or leave it out"),
        ("policer = { rate = '1 Mbit/s', burst = '9kB' }", "policer: there is no link behind it; give rate, schedule"),
        ("rate = '1 Mbit/s'\npolicer = { rate = '0 Mbit/s', burst = '9kB' }", "policer.rate: at a rate of 0 nothing"),
        ("rate = '1 Mbit/s'\npolicer = { rate = '1 Mbit/s', burst = '0B' }", "policer.burst: it holds no packet; give"),
        ("rate = '1 Mbit/s'\npolicer = { rate = '1 Mbit/s' }", "missing field `burst`"),
        (
            "policer = { rate = '1 Mbit/s', burst = '9kB', per = 'host' }",
            "unknown variant `host`, expected `all` or `flow`",
        ),
        (
            "wifi = { phy = 'ht20-1ss-mcs7' }\nqueue = 'droptail:time=80ms'",
            "queue: on the air nothing has a rate by which",
        ),
        (
            "rate = '1 Mbit/s'\nbucket = { rate = '1 Mbit/s' }",
            "bucket: more than one of rate, schedule, trace, bucket and wifi is given; keep one of them",
        ),
        ("bucket = { rate = '0 Mbit/s' }", "bucket.rate: at a rate of 0 nothing passes; give one above 0"),
        ("bucket = { rate = '1 Mbit/s', burst = '0B' }", "bucket.burst: it holds no packet; give room for one"),
        ("bucket = { rate = '2 Mbit/s', peak = '1 Mbit/s' }", "bucket.peak: it is below rate, which is never reached;"),
        (
            "bucket = { rate = '2 Mbit/s' }\noutages = [['1s', '2s']]",
            "outages: a bucket does not stand still; give rate",
        ),
        ("queue = 'codel'", "queue: there is no link for it to wait at"),
        ("outages = [['1s', '2s']]", "outages: there is no link to stand still"),
        ("rate = '1 Mbit/s'\noutages = [['2s', '1s']]", "outages: a span ends before it begins, or two overlap"),
        ("rate = '1 Mbit/s'\noutages = [['1s', '3s'], ['2s', '4s']]", "outages: a span ends before it begins"),
        ("loss = 1.5", "loss: 1.5 is not a probability; give a number from 0 to 1"),
        ("loss = nan", "loss: NaN is not a probability; give a number from 0 to 1"),
        ("loss = { gilbert = { enter = -1, leave = 0.1 } }", "loss.gilbert.enter: -1 is not a probability"),
        ("loss = { gilbert = { entr = 0, leave = 0.1 } }", "unknown field `entr`, expected one of"),
        ("loss = 'much'", "invalid type: string \"much\", expected a probability such as 0.01 or \"1%\", {"),
        ("duplicate = -0.1", "duplicate: -0.1 is not a probability"),
        ("reorder = { share = 1.5, delay = '1ms' }", "reorder.share: 1.5 is not a probability; give a number from 0"),
        ("reorder = { share = 0.1, delay = '0ms' }", "reorder.delay: 0 holds nothing back; give a time above 0, such"),
        ("reorder = { share = 0.1 }", "missing field `delay`"),
        ("reorder = { shre = 0.1, delay = '1ms' }", "unknown field `shre`, expected `share` or `delay`"),
        ("jitter = { reorder = true }", "jitter: it needs one of max, mean, normal and wifi; write"),
        ("jitter = { max = '1ms', mean = '1ms' }", "jitter: it needs one of max, mean, normal and wifi; write"),
        (
            "jitter = { max = '1ms', per = 'packet' }",
            "jitter: per and scale belong to wifi; give wifi, or leave them out",
        ),
        ("jitter = { wifi = '7ms', reorder = true }", "jitter: a Wi-Fi link keeps the order; leave reorder out"),
        ("jitter = { wifi = '7ms', scale = 0 }", "jitter: scale is not a number above 0; give milliseconds"),
        ("jitter = { wifi = '7ms', per = 'slot' }", "a draw is for a packet or for a time above 0; write"),
        ("jitter = { wifi = '7ms', per = '0ms' }", "a draw is for a packet or for a time above 0; write"),
        ("jitter_schedule = [['1s', { max = '1ms' }]]", "jitter_schedule: the first step does not start at 0s; write"),
        ("jitter_schedule = [['0s', {}]]", "jitter_schedule: it needs one of max, mean, normal and wifi; write"),
        (
            "jitter_schedule = [['0s', { max = '1ms' }], ['1s', { max = '1ms', reorder = true }]]",
            "jitter_schedule: packets may overtake in some steps and not in others; write reorder alike in all",
        ),
        (
            "jitter = { max = '1ms' }\njitter_schedule = [['0s', { max = '1ms' }]]",
            "jitter_schedule: jitter is given too; keep one of them",
        ),
        ("loss_schedule = [['0s', 0.5], ['0s', 0]]", "loss_schedule: the times of the steps do not increase; write"),
        ("loss_schedule = [['0s', 1.5]]", "loss: 1.5 is not a probability; give a number from 0 to 1"),
        ("loss_schedule = [['0s', { burst = 0, every = 1 }]]", "loss: a burst of 0 loses nothing; give 1 or more"),
        ("loss = { burst = 2 }", "it needs gilbert, or both burst and every"),
        ("loss = 0.1\nloss_schedule = [['0s', 0]]", "loss_schedule: loss is given too; keep one of them"),
        ("queue_schedule = [['0s', 'droptail:packets=9']]", "queue_schedule: there is no link for it to wait at"),
        ("rate = '1 Mbit/s'\nqueue_schedule = []", "queue_schedule: the first step does not start at 0s; write"),
        (
            "rate = '1 Mbit/s'\nqueue_schedule = [['0s', 'codel']]",
            "queue_schedule: only the limit of a drop-tail queue",
        ),
        ("rate = '1 Mbit/s'\nqueue_schedule = [['0s', 'infinite']]", "queue_schedule: only the limit of a drop-tail"),
        (
            "rate = '1 Mbit/s'\nqueue = 'codel'\nqueue_schedule = [['0s', 'droptail:packets=9']]",
            "queue_schedule: queue is given too; keep one of them",
        ),
        (
            "rate = '1 Mbit/s'\nqueue_schedule = [['0s', 'droptail:packets=9'], ['1s', 'droptail:time=9ms']]",
            "queue_schedule: some limits are times and others not; give time= in all steps, or in none",
        ),
        ("delay = '1ms'\ndelay_schedule = [['0s', '1ms']]", "delay_schedule: delay is given too; keep one of them"),
        ("delay_schedule = [['1s', '1ms']]", "delay_schedule: the first step does not start at 0s"),
        ("dellay = '1ms'", "unknown field `dellay`, expected one of"),
    ];
    for (text, error) in cases {
        let found = build(text).err().unwrap_or_default();
        assert!(found.starts_with(error), "{text}\n  found:    {found}\n  expected: {error}");
    }
}

#[test]
fn the_error_of_a_queue_names_key_and_fix() {
    let cases = [
        ("coddel", "unknown queue 'coddel'; did you mean codel?"),
        ("cake", "unknown queue 'cake'; fq_codel shares a link among flows, and fq without an AQM"),
        ("fq:flow_limit=100", "queue 'fq': flow_limit=100 is not a number of packets above 0, such as 100packets"),
        ("fq:maxrate=0bit/s", "queue 'fq': maxrate=0bit/s is not a rate above 0 such as 10Mbit/s"),
        ("", "unknown queue ''; known are infinite, droptail, drophead, codel, fq_codel, fq, pie, red, step, dualpi2"),
        ("droptail", "queue 'droptail' needs bytes=: such as bytes=2MB, packets=100 or bdp=1"),
        ("droptail:bytes=0", "queue 'droptail': bytes=0 is not a size above 0"),
        ("droptail:bytes=2 parsec", "queue 'droptail': bytes=2 parsec is not a size such as 64kB or 2MB"),
        ("droptail:packets=0", "queue 'droptail': packets=0 is not a whole number of packets above 0"),
        ("droptail:packets=1.5", "queue 'droptail': packets=1.5 is not a whole number of packets above 0"),
        ("droptail:bdp=0", "queue 'droptail': bdp=0 is not a number from 0.001 to 1000000"),
        ("droptail:bdp=nan", "queue 'droptail': bdp=nan is not a number from 0.001 to 1000000"),
        ("droptail:time=0ms", "queue 'droptail': time=0ms is not a time above 0"),
        ("droptail:time=80", "queue 'droptail': time=80 is not a time such as 5ms"),
        ("drophead:time=80ms", "queue 'drophead' has no key 'time'"),
        ("droptail:bytse=1", "queue 'droptail' has no key 'bytse'; did you mean bytes?"),
        ("droptail:bytes", "queue 'droptail': 'bytes' is not of the form key=value"),
        ("droptail:bytes=1,bytes=2", "queue 'droptail': key 'bytes' is given twice; keep one"),
        ("infinite:bytes=1", "queue 'infinite' has no key 'bytes'; it takes none"),
        ("codel:target=0ms", "queue 'codel': target=0ms is not a time above 0"),
        ("codel:target=5", "queue 'codel': target=5 is not a time such as 5ms"),
        ("codel:limit=0", "queue 'codel': limit=0 is not above 0, such as 2MB, 100packets or 1bdp"),
        ("pie:limit=-1packets", "queue 'pie': limit=-1packets is not above 0, such as 2MB, 100packets or 1bdp"),
        ("red:min=5,max=5", "queue 'red': max=5 is not above min=5"),
        ("red:probability=2", "queue 'red': probability=2 is not a number from 0 to 1"),
        (
            "step",
            "queue 'step' needs threshold=: a time, a size or a number of packets, such as 1ms, 30kB or 20packets",
        ),
        ("dualpi2:k=0", "queue 'dualpi2': k=0 is not a number from 0.01 to 100"),
        ("dualpi2:alpha=-1", "queue 'dualpi2': alpha=-1 is not a number from 0.001 to 1000"),
        ("dualpi2:tupdate=1us", "queue 'dualpi2': tupdate=1us is not a time from 100us to 10s"),
        ("dualpi2:range=400", "queue 'dualpi2': range=400 is not a time from 0s to 10s"),
        ("dualpi2:th_len=0.5", "queue 'dualpi2': th_len=0.5 is not a whole number of packets from 0 to 1000"),
        ("dualpi2:protection=1.5", "queue 'dualpi2': protection=1.5 is not a number from 0 to 1"),
        ("dualpi2:spacing=odd", "queue 'dualpi2': spacing=odd is not even or random"),
        ("dualpi2:setp=1ms", "queue 'dualpi2' has no key 'setp'; did you mean step or beta?"),
        ("step:threshold=1parsec", "queue 'step': threshold=1parsec is not a time, a size or a number of packets"),
    ];
    for (text, error) in cases {
        let found = text.parse::<QueueSpec>().expect_err(text).to_string();
        assert!(found.starts_with(error), "{text}\n  found:    {found}\n  expected: {error}");
    }
}

#[test]
fn a_bdp_needs_a_round_trip() {
    let direction = parse("rate = '1 Mbit/s'\nqueue = 'step:threshold=1ms,limit=1bdp'").expect("valid");
    let path: Result<Path<()>, PathError> = direction.build(1, Nanos::ZERO, &|name| Err(name.to_owned()));
    let error = path.err().expect("refused").to_string();
    assert_eq!(error, "queue: bdp= needs a round-trip time above 0; give a delay, or a limit in bytes or packets");
}

/// A tenth of a bandwidth-delay product of 250 bytes: room for one packet, however large.
#[test]
fn a_queue_holds_a_packet_of_the_largest_kind() {
    let direction = |queue: &str, largest| {
        let text = format!("rate = '1 Mbit/s'\nqueue = '{queue}'");
        Direction { largest_packet: largest, ..parse(&text).expect("valid") }
    };
    let build = |direction: Direction| -> Result<Path<()>, PathError> {
        direction.build(1, Nanos::from_millis(2), &|name| Err(name.to_owned()))
    };
    for (largest, size) in [(None, 1500), (Some(9052), 9052), (Some(576), 576)] {
        let mut path = build(direction("droptail:bdp=0.1", largest)).expect("it is built");
        for _ in 0..3 {
            path.push(Time::ZERO, crate::Packet::new(0, size, Codepoint::NotEct, ()));
        }
        assert_eq!(path.queued(Time::ZERO).packets, 1, "{largest:?}: one is in service, one waits, one is dropped");
    }
    let error = build(direction("codel:limit=1kB", Some(1500))).err().expect("refused").to_string();
    let wanted = "queue: it holds 1000 bytes, and a packet has 1500: nothing could pass; give room for a packet, such as \
                  2MB, 100packets or 1bdp";
    assert_eq!(error, wanted);
    assert!(build(direction("codel:limit=1kB", None)).is_ok(), "the size of packets is not known");
}

#[test]
fn a_policer_holds_a_packet_of_the_largest_kind() {
    let text = "rate = '12 Mbit/s'\npolicer = { rate = '1 Mbit/s', burst = '1400B' }";
    let build = |largest_packet| -> Result<Path<()>, PathError> {
        let direction = Direction { largest_packet, ..parse(text).expect("valid") };
        direction.build(1, Nanos::from_millis(2), &|name| Err(name.to_owned()))
    };
    let error = build(Some(1500)).err().expect("refused").to_string();
    let wanted = "policer.burst: it holds 1400 bytes, and a packet has 1500: nothing could pass; give room for a packet, such \
                  as 125kB";
    assert_eq!(error, wanted);
    assert!(build(Some(1400)).is_ok() && build(None).is_ok());
}

#[test]
fn policed_packets_never_touch_the_queue() {
    // 1.2 Mbit/s: 1500 bytes in 10 ms. Six at once: two pass, of which one is served and one waits.
    let text = "rate = '12 Mbit/s'\npolicer = { rate = '1.2 Mbit/s', burst = '3kB' }\nqueue = 'droptail:packets=1'";
    let mut path = build(text).expect("valid").keeping_dropped();
    let push = |path: &mut Path<()>, at: u64| {
        path.push(Time::from_millis(at), crate::Packet::new(7, 1500, Codepoint::NotEct, ()));
    };
    (0..6).for_each(|_| push(&mut path, 0));
    assert_eq!(path.policed(), Some(crate::Count { packets: 4, bytes: 6000 }));
    let snapshot = path.snapshot(Time::ZERO).expect("a link");
    assert_eq!((snapshot.queued.packets, snapshot.arrived.packets, snapshot.dropped.packets), (1, 2, 0));
    assert_eq!((snapshot.policed, snapshot.lost.packets), (path.policed(), 0));
    let stats = path.stats(Time::ZERO).expect("a link").clone();
    assert_eq!((stats.full.packets, stats.flows.len()), (0, 0));
    let fates: Vec<_> = std::iter::from_fn(|| path.pop_dropped()).map(|dropped| (dropped.at, dropped.reason)).collect();
    assert_eq!(fates, [(Time::ZERO, crate::DropReason::Policed); 4]);
    assert_eq!(build("rate = '12 Mbit/s'").expect("valid").policed(), None);
    let policing = path.policing().expect("there is one");
    policing.set_rate(Time::ZERO, Rate::from_mbps(2.4));
    for at in [5, 10] {
        push(&mut path, at);
    }
    assert_eq!(path.policed().expect("there is one").packets, 4, "1500 bytes in 5 ms from now on");
}

#[test]
fn what_changes_is_understood_and_written() {
    let text = r#"
        rate = "12 Mbit/s"
        queue_schedule = [["0s", "droptail:time=100ms"], ["1s", "droptail:time=200ms"]]
        loss_schedule = [["0s", 0], ["1s", { burst = 2, every = 18 }], ["3s", "1%"]]
        jitter_schedule = [["0s", { wifi = "999us" }], ["1s", { wifi = "12ms", per = "packet", scale = 90 }]]
    "#;
    let direction = parse(text).expect("valid");
    assert_eq!(direction.check(), Ok(()));
    let written = toml::to_string(&direction).expect("serialises");
    assert_eq!(parse(&written), Ok(direction), "{written}");
}

#[test]
fn the_limit_of_a_queue_changes_and_what_waits_stays() {
    let steps = "[['0s', 'droptail:packets=2'], ['1s', 'droptail:packets=4'], ['2s', 'droptail:packets=1']]";
    let mut path = build(&format!("rate = '12 bit/s'\nqueue_schedule = {steps}")).expect("valid");
    let mut waits = |millis: u64| {
        let now = Time::from_millis(millis);
        (0..9).for_each(|_| path.push(now, crate::Packet::new(0, 1500, Codepoint::NotEct, ())));
        path.queued(now).packets
    };
    assert_eq!([0, 999, 1000, 2000, 3000].map(&mut waits), [2, 2, 4, 4, 4]);
    assert_eq!(path.room(1500), Some(6000), "the most that it will ever hold");
}

#[test]
fn the_effective_config_is_written() {
    let direction = parse("rate = '12 Mbit/s'\nqueue = 'codel'\ndelay = '20ms'\nloss = 0.01").expect("valid");
    let text = toml::to_string(&direction).expect("serialises");
    let policed = parse("rate = '12 Mbit/s'\npolicer = { rate = '1 Mbit/s', burst = '9kB' }").expect("valid");
    let written = toml::to_string(&policed).expect("serialises");
    assert!(written.contains("[policer]\nrate = \"1Mbit/s\"\nburst = \"9kB\"\nper = \"all\"\n"), "{written}");
    assert_eq!(parse(&written), Ok(policed));
    let queue = "queue = \"codel:target=5ms,interval=100ms,limit=1000packets\"";
    assert_eq!(text, format!("rate = \"12Mbit/s\"\n{queue}\nloss = 0.01\ndelay = \"20ms\"\n"));
}
