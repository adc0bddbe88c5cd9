//! Models of controllers: what training gives, and what a model does over paths.

use std::sync::Arc;

use paceline_cc::mdi::grid::{Axis, Grid};
use paceline_cc::mdi::{Delays, Model, models::SHIPPED};
use paceline_cc::{Nanos, Spec};
use paceline_lab::contestant::Contestant;
use paceline_lab::mdi::against::{UNSEEN, compare, courses};
use paceline_lab::mdi::analysis::{Analysis, answers};
use paceline_lab::mdi::course::{Course, Watched, synthetic};
use paceline_lab::mdi::train::{Training, count, fitted, grid};
use paceline_lab::mdi::{Counts, Move};
use paceline_lab::runner::{Task, Unwatched};

const EPOCH: Nanos = Nanos::from_millis(5);
const EACH_WAY: Nanos = Nanos::from_millis(20);

fn training(controller: &str, threads: usize) -> Training {
    Training { controller: controller.parse().unwrap(), epoch: EPOCH, delays: Delays::Level, threads }
}

/// A model of Verus, made of six runs of 40 s: a fiftieth of what the shipped one has seen.
fn small(threads: usize) -> Counts {
    let seen = training("verus", threads).watch(&courses(1, 6, EACH_WAY, Nanos::from_secs(40)), &Unwatched).unwrap();
    count(&seen, grid(&seen, 0.01, 25, 9).unwrap(), EPOCH, Delays::Level)
}

#[test]
fn a_model_of_verus_comes_near_to_it_on_traces_that_it_did_not_see() {
    let counts = small(1);
    assert!(counts.lost() < 0.06, "{}", counts.lost());
    assert_eq!(counts.rtt, EACH_WAY + EACH_WAY);
    let courses = courses(UNSEEN, 7, EACH_WAY, Nanos::from_secs(40));
    let found = compare(&counts.model(0.02, Vec::new()), &"verus".parse().unwrap(), &courses, 1, &Unwatched).unwrap();
    assert_eq!(found.near(), Ok(()), "{found:?}");
    assert!(found.divergence.is_finite() && found.divergence >= 0.0);
}

#[test]
fn threads_change_nothing_and_counts_add_up() {
    let (one, two) = (small(1), small(2));
    assert_eq!(one, two);
    assert_eq!(Counts::read(&one.text()).unwrap(), one);
    let mut both = one.clone();
    both.add(&two).unwrap();
    assert_eq!((both.transitions(), both.moves), (2 * one.transitions(), 2 * one.moves));
    assert_eq!(both.model(0.02, Vec::new()), one.model(0.02, Vec::new()));
    let axis = Axis::new(-1, 1, 1).unwrap();
    let other = Counts::new(Grid::new(axis, axis).unwrap(), EPOCH, Delays::Level);
    assert!(both.add(&other).unwrap_err().to_string().contains("count with the same --windows"));
    for (text, error) in [
        ("", "line 1: this is not a file of counts"),
        ("# paceline mdi counts 1\n# delay: none\n", "line 2: it is neither"),
        ("# paceline mdi counts 1\n# delay: level\n# epoch_ms: x\n", "line 3: its numbers cannot be read"),
        (
            "# paceline mdi counts 1\n# delay: level\n# epoch_ms: 5\n# moves: 1 0\n",
            "line 4: it does not begin with '# rtt_ms",
        ),
    ] {
        assert!(Counts::read(text).unwrap_err().to_string().starts_with(error), "{text}");
    }
    let header = "# delay: level\n# epoch_ms: 20\n# rtt_ms: 40\n# moves: 40 2\n# above: 3 1.5\n# below: 0 0\n2,1,2,1,2,0,10,10\n";
    let largest = format!("# paceline mdi counts 1\n{header}{}", format!("{0},{0},{0},0\n", u64::MAX).repeat(4));
    let model = Counts::read(&largest).unwrap().model(0.02, Vec::new()).text(false);
    assert!(model.lines().last().unwrap().starts_with("0.5,0.5,1,0"), "{model}");
    let short = one.text().lines().take(20).collect::<Vec<_>>().join("\n");
    assert!(Counts::read(&short).unwrap_err().to_string().contains("the text ends before its last row"));
}

#[test]
fn transitions_into_and_out_of_what_the_grid_has_not_are_gaps() {
    let axis = Axis::new(-5, 5, 5).unwrap();
    let mut counts = Counts::new(Grid::new(axis, axis).unwrap(), EPOCH, Delays::Change);
    let step = |delay: f32, window: f32| Move { delay, window, from: 100.0 };
    // Of five transitions two are counted; the delay leaves the grid upwards under a window that shrinks by 10 %.
    counts.count(&[step(0.0, 0.0), step(2.4, -5.0), step(-7.4, 5.0), step(9.0, -20.0), step(0.0, 0.0)]);
    assert_eq!((counts.transitions(), counts.moves, counts.outside), (2, 5, 1));
    assert_eq!(counts.row(4)[3], 1, "from (0, 0) to (0, -5)");
    assert_eq!(counts.row(3)[2], 1, "from (0, -5) to (-5, 5)");
    assert_eq!((counts.settings().down, counts.settings().up), (0.9, 21.0));
    let model = counts.model(0.02, Vec::new());
    assert_eq!((model.block(4, 1), model.filled()), (&[(0, 1.0)][..], 2));
}

#[test]
fn quantiles_give_the_axis() {
    let moves = || (-1000_i16..=1000).map(|value| f32::from(value) / 10.0);
    let axis = fitted(moves(), 0.01, 25).unwrap();
    assert_eq!((axis.min(), axis.max(), axis.step()), (-96, 96, 8));
    let flat = fitted([0.0; 9].into_iter(), 0.01, 25).unwrap();
    assert_eq!((flat.min(), flat.max(), flat.step()), (0, 0, 1));
    assert!(
        fitted(std::iter::empty(), 0.01, 25).is_ok() && fitted([f32::NAN, f32::INFINITY].into_iter(), 0.0, 9).is_ok()
    );
}

/// What is shipped listens to delay: the longer the queue, the more the window falls.
#[test]
fn shipped_models_grow_under_a_short_queue_and_shrink_under_a_long_one() {
    for (name, text) in SHIPPED {
        let model = Model::read(text).unwrap();
        let answers: Vec<f64> = answers(&model).into_iter().flatten().collect();
        let (first, last) = (answers[0], answers[answers.len() - 1]);
        assert!(first > 0.0 && last < 0.0, "{name}: {answers:?}");
        let sum: f64 = Analysis::of(&model).stationary.iter().sum();
        assert!((sum - 1.0).abs() < 1e-9, "{name}");
    }
}

#[test]
fn seeds_change_the_windows_and_hardly_the_throughput() {
    let length = Nanos::from_secs(40);
    let trace = Arc::new(synthetic(UNSEEN, 3, length));
    let controller: Spec = "mdi".parse().unwrap();
    let run = |seed| {
        let course = Course { trace: Arc::clone(&trace), delay: EACH_WAY, length, seed };
        let watched =
            Watched { controller: &controller, course: &course, number: 1, epoch: EPOCH, delays: Delays::Level };
        watched.run().unwrap().output
    };
    let (one, again, other) = (run(1), run(1), run(2));
    assert_eq!(one.moves, again.moves);
    assert_ne!(one.moves, other.moves);
    assert!((one.mbps / other.mbps - 1.0).abs() < 0.1, "{} {}", one.mbps, other.mbps);
}

#[test]
fn a_contestant_may_name_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.csv");
    let text = |path: &std::path::Path| format!("mdi:model={}@alcc/reno", path.display());
    let refused = text(&path).parse::<Contestant>().unwrap_err().to_string();
    assert!(refused.contains("cannot be read") && refused.contains("name a shipped model"), "{refused}");
    std::fs::write(&path, "1,0,0,1,1,0,0,1\n2\n").unwrap();
    let refused = text(&path).parse::<Contestant>().unwrap_err().to_string();
    assert!(refused.ends_with("line 2, column 1: '2' is not a number from 0 to 1"), "{refused}");
    std::fs::write(&path, "1,0,0,1,1,0,0,1\n1\n").unwrap();
    let contestant: Contestant = text(&path).parse().unwrap();
    assert!(contestant.to_string().starts_with("mdi:model="), "{contestant}");
    assert!(contestant.controller.is_local());
}
