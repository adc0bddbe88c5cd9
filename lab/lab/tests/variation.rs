//! In what runs differ, and what is said of it.

use std::path::Path;

use paceline_cc::Nanos;
use paceline_lab::race::{Race, Settings, race};
use paceline_lab::scenario::{Options, Plan, Source};
use paceline_lab::table::reading;

const TRACE: &str = "seconds = 3\nname = 'trace'\ncontestants = ['copa@udp']\n[down]\ntrace = 'lte-like.mahi'\n[up]\ntrace = '3g-like.mahi'\n";
const LINK: &str =
    "seconds = 3\nname = 'link'\ncontestants = ['cubic@tcp', 'copa@udp']\n[down]\nrate = '20 Mbit/s'\ndelay = '10ms'\n";

fn traces(text: &str) -> Source {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/traces"));
    let source = Source::from_text("s.toml", text, Options::default());
    ["lte-like.mahi", "3g-like.mahi"].into_iter().fold(source, |source, name| {
        let file = std::fs::File::open(folder.join(name)).unwrap();
        let trace = paceline_path::Trace::read(name, std::io::BufReader::new(file)).unwrap();
        source.with_trace(name, trace.into())
    })
}

fn starts(plans: &[Plan]) -> Vec<[Option<Nanos>; 2]> {
    plans.iter().map(|plan| [plan.scenario.down.trace_start, plan.scenario.up.trace_start]).collect()
}

fn run(source: &Source) -> Race {
    race(source, &Settings::default()).unwrap()
}

fn said(race: &Race) -> String {
    reading(race.runs.iter().map(|run| &run.record))
}

#[test]
fn runs_begin_at_other_places_of_a_trace_unless_it_is_said_where() {
    let plans = traces(TRACE).plans().unwrap();
    let places = starts(&plans);
    assert_eq!(places.len(), 10);
    let seconds = |start: Option<Nanos>| start.unwrap().as_millis_f64() / 1e3;
    // The two last one and two minutes.
    for [down, up] in &places {
        assert!(seconds(*down) < 60.0 && (seconds(*up) % 60.0 - seconds(*down)).abs() < 0.1, "{places:?}");
    }
    let mut down: Vec<f64> = places.iter().map(|[down, _]| seconds(*down)).collect();
    down.sort_by(f64::total_cmp);
    assert!(down[0] < 20.0 && down[9] > 40.0, "{down:?}");
    assert!(down.windows(2).all(|pair| pair[0] < pair[1]), "{down:?}");

    let said = TRACE.replace("lte-like.mahi'", "lte-like.mahi'\ntrace_start = '7s'");
    for [down, up] in starts(&traces(&said).plans().unwrap()) {
        assert_eq!(down, Some(Nanos::from_secs(7)));
        assert_ne!(up, None);
    }
}

#[test]
fn the_scenario_as_raced_is_the_same_race_with_the_ranges_as_written() {
    let text =
        format!("{TRACE}delay = '5ms..9ms'\nqueue = 'droptail:bytes=1MB..3MB'\n[[flows]]\nstart = '0ms..100ms'\n");
    let first = run(&traces(&text));
    assert!(first.effective.contains("start = \"0ms..100ms\"") && !first.effective.contains("trace_start"));
    assert!(first.effective.contains("bytes=1MB..3MB") && first.effective.contains("delay = \"5ms..9ms\""));
    let again = run(&traces(&first.effective));
    let records = |race: &Race| race.runs.iter().map(|run| run.record.clone()).collect::<Vec<_>>();
    assert_eq!(records(&first), records(&again));
}

#[test]
fn the_table_says_what_runs_differ_in_and_when_they_do_not() {
    let text = said(&run(&traces(TRACE)));
    assert!(text.contains("Runs differ in down.trace_start (") && text.contains("up.trace_start ("), "{text}");

    let exact = format!("{LINK}[[flows]]\ntimers = 'exact'\n");
    let same = run(&Source::from_text("s.toml", &exact, Options::default()));
    let text = said(&same);
    assert!(text.contains("Nothing in this scenario is drawn: 10 runs are one run"), "{text}");
    assert!(!text.contains("95 %") && !text.contains("No difference"), "{text}");

    let lossy = LINK.replace("delay", "loss = 0.01\ndelay");
    let text = said(&run(&Source::from_text("s.toml", &lossy, Options::default())));
    assert!(text.contains("runs differ only in what else their seeds draw"), "{text}");
}
