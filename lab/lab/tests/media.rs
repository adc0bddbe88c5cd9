//! Workloads of frames in scenario files: what is written back, refused, and counted; the calls of C4's tests and of RFC 8867.

use std::path::{Path, PathBuf};

use paceline_lab::race::{Settings, race};
use paceline_lab::record::{FramesRecord, Record, write_csv};
use paceline_lab::scenario::{Options, Plan, Source};

const SMALL: &str = r#"name = "small"
seconds = 3
contestants = ["cubic@udp"]
[down]
rate = "10 Mbit/s"
delay = "10ms"
[up]
delay = "10ms"
[[flows]]
"#;

fn plans(text: &str) -> Result<Vec<Plan>, String> {
    Source::from_text("s.toml", text, Options::default()).plans().map_err(|error| error.to_string())
}

fn with(workload: &str) -> String {
    format!("{SMALL}workload = {workload}\n")
}

fn records(source: &Source) -> Vec<Record> {
    let race = race(source, &Settings::default()).unwrap();
    assert!(race.failures.is_empty());
    race.runs.into_iter().map(|run| run.record).collect()
}

fn record(text: &str) -> Record {
    let options = Options { runs: Some(1), ..Options::default() };
    records(&Source::from_text("s.toml", text, options)).remove(0)
}

#[test]
fn frames_are_written_back_with_every_default() {
    for (workload, written) in [
        (
            "{ media = [{ name = 'voice', fps = 50, size = '80B' }] }",
            "[[flows.workload.media]]\nname = \"voice\"\nfps = 50.0\nsize = \"80B\"\ngroup = 0\npriority = 0\ndatagram = false\n\
             stats_from = \"0s\"\n",
        ),
        (
            "{ media_rate = { fps = 30, least = '150 kbit/s', most = '1500 kbit/s', silent = ['1s', '2s'] } }",
            "[flows.workload.media_rate]\nfps = 30.0\nleast = \"150kbit/s\"\nmost = \"1500kbit/s\"\nevery = \"1s\"\n\
             silent = [\"1s\", \"2s\"]\nstats_from = \"0s\"\n",
        ),
    ] {
        let first = plans(&with(workload)).unwrap().remove(0);
        let text = first.to_toml();
        assert!(text.contains(written), "{text}");
        assert_eq!(plans(&text).unwrap().remove(0).scenario.flows, first.scenario.flows);
    }
}

#[test]
fn workloads_that_cannot_be_are_refused_in_one_line() {
    let stream = |keys: &str| format!("{{ media = [{{ name = 'a', fps = 50, size = '80B', {keys} }}] }}");
    let rate = |keys: &str| format!("{{ media_rate = {{ fps = 30, least = '1 Mbit/s', most = '2 Mbit/s', {keys} }} }}");
    let two = "{ media = [{ name = 'a', fps = 50, size = '80B' }, { name = 'a', fps = 5, size = '8B' }] }".to_owned();
    for (workload, expected) in [
        (
            "{ media = [] }".to_owned(),
            "workload.media: it has no stream; write [{ name = \"voice\", fps = 50, size = \"80B\" }]",
        ),
        ("{ media = [{ name = 'a', size = '80B' }] }".to_owned(), "workload.media[0].fps: this key is missing; add it"),
        (stream("frist = '1kB'"), "workload.media[0].frist: unknown key 'frist'; did you mean first?"),
        (
            "{ media = [{ name = 'a', fps = 0, size = '80B' }] }".to_owned(),
            "workload.media[0].fps: it is not above 0 and at most 10000; give frames in a second, such as 30",
        ),
        (
            "{ media = [{ name = 'a', fps = 5, size = '0B' }] }".to_owned(),
            "workload.media[0].size: it is not between 1 byte and 100 MB; give the bytes of a frame, such as \"3750B\"",
        ),
        (
            stream("first = '1kB'"),
            "workload.media[0].first: without groups there are no key frames; add group, such as group = 30",
        ),
        (
            stream("count = 0"),
            "workload.media[0].count: 0 frames are not a stream; give 1 or more, or leave it out for frames as long as the flow",
        ),
        (
            stream("drop_after = '0s'"),
            "workload.media[0].drop_after: no frame is sent in 0; give a time such as \"250ms\", or leave it out",
        ),
        (two, "workload.media[1].name: another stream of the flow is called so; give each a name of its own"),
        (
            "{ media_rate = { fps = 30, least = '2 Mbit/s', most = '1 Mbit/s' } }".to_owned(),
            "workload.media_rate.most: it is below least; give a higher rate",
        ),
        (
            rate("silent = ['2s', '2s']"),
            "workload.media_rate.silent: it does not end after it begins; write [\"40s\", \"60s\"]",
        ),
        (
            rate("every = '0s'"),
            "workload.media_rate.every: an encoder does not follow in 0; give a time such as \"1s\"",
        ),
        (
            rate("late_after = '0s'"),
            "workload.media_rate.late_after: every frame is later than 0; give a time such as \"150ms\", or leave it out",
        ),
    ] {
        let found = plans(&with(&workload)).unwrap_err();
        assert_eq!(found, format!("s.toml:10: flows[0].{expected}"));
    }
    let voice = with("{ media = [{ name = 'a', fps = 50, size = '80B' }] }");
    assert_eq!(
        plans(&voice.replace("cubic@udp", "cubic@udp\", \"copa@alcc")).unwrap_err(),
        "s.toml:10: flows[0].workload: copa@alcc does not carry frames: they go over @udp and @tcp; take copa@udp, or another \
         workload"
    );
    let when = format!("{voice}[[when]]\nis = {{ cwnd_packets = 1 }}\nset = {{ 'flows.0.workload' = 'bulk' }}\n");
    let found = plans(&when).unwrap_err();
    assert!(
        found.ends_with("frames are made from the start of a flow to its end; write \"pause\" or \"resume\""),
        "{found}"
    );
}

#[test]
fn records_say_how_long_frames_took() {
    let text = with(
        "{ media = [{ name = 'voice', fps = 50, size = '80B', priority = 1, late_after = '15ms', stats_from = '1s', count = 125 }, \
         { name = 'video', fps = 30, size = '5kB', priority = 2, count = 75 }] }",
    );
    let record = record(&text);
    let [voice, video] = record.flows[0].frames.as_slice() else { panic!("{:?}", record.flows[0].frames) };
    // From 1 s to 2.5 s.
    assert_eq!((voice.made, voice.complete, voice.late, voice.lost, voice.given_up), (75, 75, Some(0), 0, 0));
    assert_eq!((video.made, video.complete, video.late), (75, 75, None));
    let span = voice.frame_ms.unwrap();
    assert!(span.min > 10.0 && span.max < 15.0, "{span:?}");
    // 5000 bytes and four headers at 10 Mbit/s.
    assert!(video.frame_ms.unwrap().min > 14.1, "{:?}", video.frame_ms);
    assert_eq!((record.frames_late, record.frames_lost), (Some(0), Some(0)));
    assert!(record.frame_ms.unwrap().max >= video.frame_ms.unwrap().max);
    let mut csv = Vec::new();
    write_csv([&record], &mut csv).unwrap();
    assert!(String::from_utf8(csv).unwrap().contains("frame_ms_p95"));

    let without = self::record(&with("\"bulk\""));
    assert_eq!((without.frame_ms, without.frames_lost, without.flows[0].frames.len()), (None, None, 0));
    assert!(!serde_json::to_string(&without).unwrap().contains("frame"));
}

fn shipped(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

fn run(file: &Path, contestant: &str) -> Record {
    let contestants = Some(contestant.to_owned());
    let options = Options { runs: Some(1), contestants, ..Options::default() };
    records(&Source::read(file, options).unwrap()).remove(0)
}

/// What the draft asks of frames of the lower layer: their mean and their largest, ms. Behind the silences of `media-ws` the path alone
/// takes 206.
#[test]
fn the_calls_of_c4_take_what_the_draft_asks() {
    let asked = [
        ("media", 31.0, 79.0),
        ("media-600fr", 33.0, 80.0),
        ("media-ecn", 35.0, 79.0),
        ("media-short-long", 110.0, 120.0),
        ("media-wb", 105.0, 410.0),
        ("media-wf", 110.0, 350.0),
        ("media-ws", 23.6, 207.0),
        ("media10", 47.0, 160.0),
    ];
    let files = shipped("c4");
    let file = |name: &str| files.iter().find(|file| file.file_stem().unwrap() == name).unwrap();
    for (name, mean, most) in asked {
        for who in ["cubic@udp", "bbr3@udp"] {
            let low = low(&run(file(name), who));
            assert_eq!((low.complete, low.given_up + low.lost), (low.made, 0), "{name} {who}");
            let took = low.frame_ms.unwrap();
            assert!(took.mean <= mean && took.max <= most, "{name} {who}: {took:?}");
        }
    }
    // It is not asked in vain: jitter keeps Copa's window small.
    let copa = low(&run(file("media-wb"), "copa@udp")).frame_ms.unwrap();
    assert!(copa.mean > 105.0, "{copa:?}");
    // Of a transfer that begins during the call the voice is late, and hardly anything is lost.
    let beside = run(file("media-backload"), "cubic@udp");
    let audio = &beside.flows[0].frames[0];
    assert!(audio.complete + 5 >= audio.made && audio.frame_ms.unwrap().max > 50.0, "{audio:?}");
}

fn low(record: &Record) -> FramesRecord {
    record.flows[0].frames.iter().find(|frames| frames.stream == "low").unwrap().clone()
}

/// The cases of RFC 8867 section 5: there a call and what is beside it share a wire.
const WIRED: [&str; 8] = ["capacity", "capacity-two", "competing", "feedback", "long-tcp", "pause", "rtt", "short-tcp"];

/// Every case of RMCAT runs, and its calls get through; over wires what the link has is used by half at least, and shared.
#[test]
fn the_cases_of_rmcat_are_judged() {
    let files = shipped("rmcat");
    assert_eq!(files.len(), 22);
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let record = run(&file, if name == "ecn" { "cubic:ecn=on@udp" } else { "cubic@udp" });
        assert_eq!(record.scenario, format!("rmcat-{name}"));
        let calls: Vec<_> = record.flows.iter().filter(|flow| !flow.frames.is_empty()).collect();
        for call in &calls {
            let [video] = call.frames.as_slice() else { panic!("{name}: {:?}", call.frames) };
            let (made, complete) = (video.made as f64, video.complete as f64);
            assert!(complete > 0.9 * made, "{name}: {video:?}");
        }
        if !WIRED.contains(&name.as_str()) {
            continue;
        }
        let rates: Vec<f64> = calls.iter().map(|call| call.throughput_mbps).collect();
        let (least, most) =
            rates.iter().fold((f64::MAX, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
        assert!(least > 0.25 * most, "{name}: {rates:?}");
        assert!(record.utilization.unwrap() > 0.5, "{name}: {:?}", record.utilization);
        // In silence it makes nothing: 20 of 120 seconds.
        if name == "pause" {
            assert_eq!(calls[1].frames[0].made, 3001);
        }
    }
}
