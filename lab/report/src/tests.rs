mod flows;
mod paths;

use std::collections::BTreeMap;

use paceline_cc::Nanos;
use paceline_experiment::{DumbbellWay, FlowSeries, Series};

use super::svg::short;
use super::*;
use paceline_lab::numbers::plain;
use paceline_lab::record::{FlowRecord, Parts, Span, Split};
use paceline_lab::run::World;
use paceline_lab::stats::Summary;

/// A number between 0 and 1 that wobbles, the same every time.
fn wobble(i: usize, salt: usize) -> f64 {
    (((i * 7919 + salt * 104_729) % 1009) as f64) / 1009.0
}

struct Race {
    title: String,
    effective: String,
    summaries: Vec<Summary>,
    runs: Vec<Run>,
}

impl Race {
    fn shown(&self) -> Raced<'_> {
        let (title, effective, runs) = (&self.title, &self.effective, &self.runs);
        let command = "paceline race scenarios/cellular.toml --seed 1";
        Raced { title, written: "duration = \"60s\"\n", effective, command, runs }
    }
}

/// A race of made-up contestants: name, share of the capacity used, typical queueing delay in ms.
fn race(contestants: &[(&str, f64, f64)], runs: u32) -> Race {
    let mut all = Vec::new();
    for (index, (name, share, queue)) in contestants.iter().enumerate() {
        let (controller, via) = name.split_once('@').unwrap();
        for run in 1..=runs {
            let factor = 1.0 + 0.2 * (wobble(run as usize, index) - 0.5);
            let quantiles: Vec<f64> = (0..=100).map(|i| queue * factor * (0.02 * f64::from(i)).powi(3) / 1.5).collect();
            all.push(Run {
                contestant: index,
                record: record(controller, via, run, 9.0 * share * factor.min(1.0), &quantiles),
                own: vec![true],
                series: (run == 1).then(|| series(*share, *queue, index)),
                delay_quantiles_ms: quantiles.iter().map(|q| q + 21.0).collect(),
                queue_quantiles_ms: quantiles,
                completion_quantiles_ms: Vec::new(),
                cross_mbps: Vec::new(),
            });
        }
    }
    Race {
        title: "One flow on a cellular link".to_owned(),
        effective: "duration = \"60s\"\nseed = 1\n".to_owned(),
        summaries: Summary::all(all.iter().map(|run| &run.record)),
        runs: all,
    }
}

fn record(controller: &str, via: &str, run: u32, mbps: f64, queue: &[f64]) -> Record {
    let span = |add: f64| {
        let at = |i: usize| paceline_lab::record::rounded(queue[i] + add);
        Some(Span { min: at(0), mean: at(62), p50: at(50), p95: at(95), p99: at(99), max: at(100) })
    };
    let parts = |queue_ms: f64| Some(Parts { propagation_ms: 20.0, queue_ms, transmission_ms: 1.2 });
    let split = Split { down: parts(queue[62]), up: parts(0.4) };
    let flow = FlowRecord {
        controller: controller.to_owned(),
        via: via.to_owned(),
        driven_by: None,
        direction: Some(DumbbellWay::Down),
        from: None,
        to: None,
        start_s: 0.0,
        end_s: 60.0,
        throughput_mbps: mbps,
        goodput_mbps: Some(mbps * 0.96),
        delay_ms: span(21.0),
        queue_ms: span(0.0),
        rtt_ms: span(42.0),
        loss: 0.001,
        packets: 45_000,
        retransmits: Some(45),
        timeouts: Some(0),
        ecn_marks: 0,
        fct_ms: None,
        completions: None,
        share: None,
        limited_below: None,
        telemetry: None,
        split,
        frames: Vec::new(),
        program: None,
    };
    Record {
        scenario: "cellular".to_owned(),
        trace: Some("synthetic-a.down".to_owned()),
        own_throughput_mbps: None,
        world: World::Sim,
        clock: None,
        controller: controller.to_owned(),
        via: via.to_owned(),
        driven_by: None,
        seed: 1,
        run,
        seconds: 60.0,
        throughput_mbps: mbps,
        goodput_mbps: Some(mbps * 0.96),
        utilization: Some(mbps / 9.2),
        delay_ms: span(21.0),
        queue_ms: span(0.0),
        rtt_ms: span(42.0),
        loss: 0.001,
        retransmits: Some(45),
        timeouts: Some(0),
        ecn_marks: 0,
        fct_ms: None,
        completions: None,
        frame_ms: None,
        frames_late: None,
        frames_lost: None,
        jain: None,
        telemetry: None,
        split,
        drawn: BTreeMap::new(),
        fired: Vec::new(),
        policed: None,
        links: Vec::new(),
        routers: Vec::new(),
        flows: vec![flow],
        commit: None,
        version: "0.1.0".to_owned(),
        cpu_s: None,
        wall_s: None,
        peak_mb: None,
        release_error_us: None,
        late: None,
        trusted: None,
    }
}

fn series(share: f64, queue: f64, salt: usize) -> Series {
    let steps = 600;
    let capacity: Vec<f64> =
        (0..steps).map(|i| (9.0 + 7.0 * (i as f64 / 60.0).sin() + 6.0 * (wobble(i, 3) - 0.5)).max(0.0)).collect();
    let saw = |i: usize| 0.4 + 0.6 * ((i + 31 * salt) % 150) as f64 / 150.0;
    let outage = |i: usize| (300..312).contains(&i);
    let of = |value: &dyn Fn(usize) -> f64| (0..steps).map(value).collect::<Vec<_>>();
    let gaps = |value: &dyn Fn(usize) -> f64| (0..steps).map(|i| (!outage(i)).then(|| value(i))).collect::<Vec<_>>();
    let mbps = of(&|i| if outage(i) { 0.0 } else { capacity[i] * (share * (0.85 + 0.2 * wobble(i, salt))).min(1.0) });
    let waiting = gaps(&|i| queue * saw(i) * (0.8 + 0.4 * wobble(i, salt + 9)));
    let flow = FlowSeries {
        index: 0,
        throughput_mbps: mbps,
        queue_max_ms: waiting.clone(),
        queue_ms: waiting,
        window_packets: of(&|i| 20.0 + queue * saw(i)),
        in_flight_packets: of(&|i| 18.0 + queue * saw(i) * 0.95),
        srtt_ms: gaps(&|i| 42.0 + queue * saw(i)),
        variables: BTreeMap::from([
            ("min_rtt_ms", gaps(&|_| 42.0)),
            ("ssthresh_packets", gaps(&|i| 15.0 + queue * saw(i / 150 * 150))),
            ("mode", gaps(&|i| (i / 200) as f64)),
        ]),
    };
    Series { step: Nanos::from_secs_f64(0.1), queue_bytes: vec![0; steps], capacity_mbps: capacity, flows: vec![flow] }
}

const ELEVEN: [(&str, f64, f64); 11] = [
    ("reno@tcp", 0.97, 1500.0),
    ("cubic@tcp", 0.98, 2300.0),
    ("bbr@tcp", 0.93, 140.0),
    ("dctcp@tcp", 0.975, 1500.0),
    ("copa@udp", 0.66, 30.0),
    ("verus@udp", 0.90, 240.0),
    ("sprout@udp", 0.50, 22.0),
    ("sprout-ewma@udp", 0.85, 130.0),
    ("copa@alcc", 0.64, 34.0),
    ("verus@alcc", 0.89, 250.0),
    ("sprout@alcc", 0.48, 25.0),
];

/// The page without its pictures, style and script: a line an element that a reader sees.
fn outline(page: &str) -> String {
    let mut text = page.to_owned();
    for (open, close) in [("<style>", "</style>"), ("<script>", "</script>"), ("<svg", "</svg>")] {
        while let Some(start) = text.find(open) {
            let end = start + text[start..].find(close).unwrap() + close.len();
            text.replace_range(start..end, "");
        }
    }
    let shown =
        |line: &&str| ["<h1", "<h2", "<p", "<details", "<pre", "<button"].iter().any(|tag| line.starts_with(tag));
    text.lines().filter(shown).collect::<Vec<_>>().join("\n")
}

fn page_of(race: &Race) -> String {
    render(&[&Data::of_race(race.shown())]).unwrap()
}

#[test]
fn page_says_what_the_pictures_show() {
    let race = race(&[("cubic@tcp", 0.98, 1200.0), ("sprout@udp", 0.5, 25.0)], 6);
    insta::assert_snapshot!(outline(&page_of(&race)));
}

#[test]
fn beside_others_the_pictures_show_what_is_its_own() {
    let mut race = race(&[("cubic@tcp", 0.98, 1200.0), ("sprout@udp", 0.5, 25.0)], 6);
    for run in &mut race.runs {
        run.own = vec![true, false];
        run.record.own_throughput_mbps = Some(run.record.throughput_mbps / 4.0);
        if let Some(series) = &mut run.series {
            let rival = FlowSeries { index: 1, ..series.flows[0].clone() };
            series.flows.push(rival);
        }
    }
    let page = page_of(&race);
    assert!(page.contains("own throughput, Mbit/s") && page.contains("flows beside it, together"));
    // In the legend, beside each contestant, and of each in a legend and four panels of variables.
    assert_eq!(page.matches("class=\"rival\" d=").count(), 1 + 2 + 2 * (1 + 4));
    let own = race.runs[0].record.own_throughput_mbps.unwrap();
    assert!(page.contains(&format!("{} Mbit/s, beside it {}", short(own), short(3.0 * own))));
}

#[test]
fn who_is_beaten_follows_from_the_paired_runs() {
    let sentence = |race: &Race| reading::trade_off(&Data::of_race(race.shown()));
    let mut race = race(&[("cubic@tcp", 0.98, 1200.0), ("reno@tcp", 0.98, 1200.0), ("copa@udp", 0.5, 25.0)], 6);
    let second = |run: u32| (run + 6) as usize - 1;
    for run in 1..=6 {
        // Reno's median is a hair above CUBIC's, by pairs that differ both ways.
        let mut record = race.runs[run as usize - 1].record.clone();
        record.controller = "reno".to_owned();
        record.throughput_mbps *= [1.02, 0.99][run as usize % 2];
        race.runs[second(run)].record = record;
    }
    let text = sentence(&race);
    assert!(
        text.starts_with("No contestant beats copa@udp and cubic@tcp in both; from copa@udp to cubic@tcp"),
        "{text}"
    );
    assert!(text.ends_with(" No difference was found between cubic@tcp and reno@tcp."), "{text}");
    for run in 1..=6 {
        // Slower in each pair: beaten, as nothing is known to be better.
        race.runs[second(run)].record.delay_ms.as_mut().unwrap().p95 *= 1.01;
    }
    let text = sentence(&race);
    assert!(text.starts_with("No contestant beats copa@udp and cubic@tcp in both") && !text.contains("reno"), "{text}");
    race.runs.retain(|run| run.contestant < 2);
    assert_eq!(sentence(&race), "No contestant has more throughput than cubic@tcp, and none has less delay.");
    for run in 1..=6 {
        race.runs[second(run)].record.delay_ms = race.runs[run as usize - 1].record.delay_ms;
    }
    assert_eq!(sentence(&race), "No difference was found between cubic@tcp and reno@tcp.");
}

#[test]
fn records_alone_give_the_figures_they_allow() {
    let race = race(&[("cubic@tcp", 0.98, 1200.0), ("sprout@udp", 0.5, 25.0)], 1);
    let mut records: Vec<Record> = race.runs.iter().map(|run| run.record.clone()).collect();
    let mut other = records[0].clone();
    other.scenario = "dumbbell".to_owned();
    records.push(other);
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(write_records(&records, folder.path()).unwrap()).unwrap();
    insta::assert_snapshot!(outline(&page));
}

#[test]
fn records_of_several_seeds_say_so() {
    let race = race(&[("cubic@tcp", 0.98, 1200.0)], 2);
    let mut records: Vec<Record> = race.runs.iter().map(|run| run.record.clone()).collect();
    (records[0].seed, records[1].seed) = (1, 9);
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(write_records(&records, folder.path()).unwrap()).unwrap();
    assert_eq!(page.matches("seeds 1 and 9").count(), 2);
}

#[test]
fn a_small_picture() {
    let race = race(&[("cubic@tcp", 0.98, 1200.0)], 6);
    let data = Data::of_race(race.shown());
    let mut svg = Svg::default();
    overview::trade_off(&mut svg, &data, Rect { x: 50.0, y: 10.0, w: 200.0, h: 100.0 });
    insta::assert_snapshot!(svg.inline(260.0, 150.0, "small").replace("><", ">\n<"));
}

#[test]
fn names_without_room_stand_below_the_picture() {
    let race = race(&ELEVEN.map(|(name, ..)| (name, 0.9, 900.0)), 1);
    let data = Data::of_race(race.shown());
    let heights = [(1000.0, 400.0), (80.0, 40.0)].map(|(w, h)| {
        let (mut svg, rect) = (Svg::default(), Rect { x: 50.0, y: 10.0, w, h });
        let more = overview::trade_off(&mut svg, &data, rect);
        let picture = svg.inline(w + 60.0, h + 60.0 + more, "small");
        for (name, ..) in ELEVEN {
            assert!(picture.contains(&format!(">{name}</text>")), "{name} is not in a picture of {w} by {h}");
        }
        more
    });
    assert!(heights[0] == 0.0 && heights[1] >= 100.0, "{heights:?}");
}

#[test]
fn the_table_holds_the_records_numbers() {
    let race = race(&ELEVEN, 6);
    let page = page_of(&race);
    for (row, summary) in page.split("<tr class").skip(1).zip(&race.summaries) {
        let cells: Vec<&str> = row.split("<td>").skip(2).map(|cell| cell.split('<').next().unwrap()).collect();
        let mut mbps: Vec<f64> = race
            .runs
            .iter()
            .filter(|run| run.record.contestant() == summary.contestant)
            .map(|run| run.record.throughput_mbps)
            .collect();
        mbps.sort_by(f64::total_cmp);
        assert!(row.contains(&format!("</svg>{}</td>", summary.contestant)), "{row}");
        assert_eq!(cells[0], plain((mbps[2] + mbps[3]) / 2.0), "{}", summary.contestant);
        assert_eq!(cells[3], plain(summary.delay_p95_ms.unwrap().median));
        assert_eq!(cells[6], "45");
    }
}

#[test]
fn the_page_fetches_nothing_and_is_small() {
    let page = page_of(&race(&ELEVEN, 6));
    // The name space of SVG is a name, and links stay on the page.
    let page = page.replace("http://www.w3.org/2000/svg", "").replace("href=\"#", "").replace("url(#hatch)", "");
    for word in ["http:", "https:", "//cdn", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.len() < 2_000_000, "{}", page.len());
    let figure = leading_figure(&Data::of_race(race(&ELEVEN, 6).shown()));
    assert_eq!(figure.matches("http").count(), 1, "the name space alone");
}

#[test]
fn what_a_record_says_stays_text() {
    let mut race = race(&[("cubic@tcp", 0.98, 1200.0)], 1);
    race.title = "<script>alert(1)</script>".to_owned();
    race.effective = "</pre><img onerror=x>".to_owned();
    race.runs[0].record.controller = "\"><b>c".to_owned();
    let (page, figure) = (page_of(&race), leading_figure(&Data::of_race(race.shown())));
    for text in ["<script>alert", "<img", "<b>"] {
        assert!(!page.contains(text) && !figure.contains(text), "{text}");
    }
    assert!(page.contains("&lt;img onerror=x&gt;"));
}

#[test]
fn files_are_whole_or_absent() {
    let race = race(&[("cubic@tcp", 0.98, 1200.0)], 1);
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/b");
    let path = write(race.shown(), &inner).unwrap();
    assert_eq!(path, inner.join(PAGE));
    let mut names: Vec<_> = std::fs::read_dir(&inner).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [FIGURE, PAGE]);

    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = write(race.shown(), &file.join("out")).unwrap_err().to_string();
    assert!(error.starts_with("report folder ") && error.contains("file/out"), "{error}");
    assert!(error.ends_with("name a folder you can write to"), "{error}");
    assert!(matches!(write_records(&[], &inner), Err(PageError::Empty)));
}

#[test]
fn nothing_delivered_is_drawn_too() {
    let mut race = race(&[("cubic@tcp", 0.98, 1200.0), ("reno@tcp", 0.9, 900.0)], 1);
    for run in &mut race.runs {
        (run.record.delay_ms, run.record.queue_ms, run.record.rtt_ms) = (None, None, None);
        (run.record.throughput_mbps, run.record.utilization) = (0.0, None);
        run.record.split = Split::default();
        run.delay_quantiles_ms.clear();
        run.series = Some(Series::default());
    }
    let page = page_of(&race);
    assert!(!page.contains("NaN") && !page.contains("inf,"));
    assert!(page.contains("No packet arrived."));
}
