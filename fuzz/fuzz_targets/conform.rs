//! Logs and captures of others: a refusal is one line of bounded length; what is taken has finite points in the order of time, and
//! every rule gives a verdict on it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_conform::qlog::Choice;
use paceline_conform::suite::Score;
use paceline_conform::trajectory::Trajectory;
use paceline_conform::{capture, qlog, rules};

fn judged(trajectory: &Trajectory) {
    assert!(trajectory.points.windows(2).all(|pair| pair[0].t <= pair[1].t));
    assert!(trajectory.points.iter().all(|point| point.t.is_finite() && point.window.is_finite()));
    for controller in rules::controllers() {
        let score = Score::of_one(controller, trajectory.clone());
        assert_eq!(score.judged.len(), rules::of(controller).len());
        for one in score.judged {
            assert!(one.verdict.seen().is_none_or(|seen| seen.value.is_finite()), "{}", one.rule.id);
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let most = Choice { or_most: true, ..Choice::default() };
    let of_one = Choice { trace: Some(1), flow: Some("a"), or_most: false };
    let qlogs = [qlog::read("log", bytes), qlog::read_one("log", bytes, most), qlog::read_one("log", bytes, of_one)];
    let results = qlogs.into_iter().chain([capture::read("log", bytes, None)]);
    for result in results {
        match result {
            Ok(trajectory) => judged(&trajectory),
            Err(error) => {
                let line = error.to_string();
                assert!(line.starts_with("log") && line.len() < 1500 && !line.contains(char::is_control), "{line:?}");
            }
        }
    }
});
