//! A `bbr3` with a wrong constant departs in the test case of the BBR draft that is about it.

use std::collections::BTreeSet;

use paceline_cc::Nanos;
use paceline_cc::bbr3::{Bbr3, Constants};
use paceline_cc::registry::{Definition, register};
use paceline_conform::said;
use paceline_conform::suite::{Score, judge};
use paceline_lab::contestant::Contestant;
use paceline_lab::programs::ProgramSettings;
use paceline_lab::run::World;
use paceline_lab::runner::Unwatched;

fn scores(contestants: &[&str]) -> Vec<Score> {
    let parsed = |text: &&str| text.parse::<Contestant>().unwrap_or_else(|error| panic!("{error}"));
    let judged: Vec<_> = contestants.iter().map(|text| (parsed(text), "bbr3".to_owned())).collect();
    judge(&judged, World::Sim, 0, &ProgramSettings::default(), &Unwatched).unwrap_or_else(|error| panic!("{error}"))
}

/// `bbr3` with this change, as a controller of its own.
fn wrong(name: &str, change: impl Fn(&mut Constants)) -> String {
    let mut constants = Constants::default();
    change(&mut constants);
    let made = Definition::new(name, move |_, env| Box::new(Bbr3::new(env, 3.0, constants)));
    register(made).unwrap_or_else(|error| panic!("{error}"));
    format!("{name}@tcp")
}

#[test]
fn a_wrong_constant_departs_in_the_case_that_is_about_it() {
    // The first is about it, and the others follow from it.
    let wrongs: [(String, &[&str]); 8] = [
        (wrong("bbr3-drain", |one| one.drain_gain = 0.75), &["bbr3-a03-gain", "bbr3-a01-pace"]),
        (wrong("bbr3-beta", |one| one.beta = 0.5), &["bbr3-a16-beta"]),
        // With two rounds UP builds half of the queue.
        (
            wrong("bbr3-two-rounds", |one| one.full_rounds = 2),
            &[
                "bbr3-a05-rounds",
                "bbr3-a01-plateau",
                "bbr3-a08-length",
                "bbr3-a09-time",
                "bbr3-a09-way",
                "bbr3-a21-threshold",
            ],
        ),
        (wrong("bbr3-loss", |one| one.loss_threshold = 0.05), &["bbr3-a21-threshold", "bbr3-a15-bound-growth"]),
        // Without room CRUISE has as much in flight as the bound, and the careful probe ends as it begins.
        (wrong("bbr3-headroom", |one| one.headroom = 0.0), &["bbr3-a21-room", "bbr3-a21-again"]),
        (wrong("bbr3-careless", |one| one.precaution = false), &["bbr3-a21-again", "bbr3-a21-precaution"]),
        (
            wrong("bbr3-probe-rtt", |one| one.probe_rtt_interval = Nanos::from_secs(10)),
            &["bbr3-a10-entry", "bbr3-a11-probe-rtt"],
        ),
        (
            wrong("bbr3-no-undo", |one| one.undo = false),
            &["bbr3-a18-bounds", "bbr3-a18-way", "bbr3-a18-window", "bbr3-a19-up"],
        ),
    ];
    let names: Vec<&str> = wrongs.iter().map(|(name, _)| name.as_str()).collect();
    for (score, (name, rules)) in scores(&names).iter().zip(&wrongs) {
        let departs: BTreeSet<&str> = score.departures().into_iter().collect();
        let table = said::table(std::slice::from_ref(score));
        assert!(departs.contains(rules[0]), "{name}: {departs:?}\n{table}");
        let rules: BTreeSet<&str> = rules.iter().copied().collect();
        assert!(departs.is_subset(&rules), "{name}: {departs:?}\n{table}");
    }
}
