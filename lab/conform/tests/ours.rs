//! Our controllers hold to their own rules, and each one broken on purpose is caught by the right rule alone.

use paceline_cc::cubic::{Cubic, Settings};
use paceline_cc::hystart::HyStart;
use paceline_cc::registry::{Definition, register};
use paceline_cc::reno::Reno;
use paceline_cc::window::{Policy, Signal, SlowStart, Window, WindowController};
use paceline_cc::{Ack, Controller, Ecn, Env, Spec, Time};
use paceline_conform::suite::{Score, judge};
use paceline_lab::programs::ProgramSettings;
use paceline_lab::run::World;
use paceline_lab::runner::Unwatched;

fn score(contestant: &str, rules_of: &str) -> Score {
    let contestant = contestant.parse().unwrap_or_else(|error| panic!("{error}"));
    let scores = judge(&[(contestant, rules_of.to_owned())], World::Sim, 0, &ProgramSettings::default(), &Unwatched);
    scores.unwrap_or_else(|error| panic!("{error}")).remove(0)
}

/// Only these rules do not hold, and every rule is seen.
fn assert_departs(contestant: &str, rules_of: &str, departs: &[&str]) {
    assert_verdicts(contestant, rules_of, departs, &[]);
}

/// Only the rules in `departs` do not hold, and all are seen but those in `unseen`.
fn assert_verdicts(contestant: &str, rules_of: &str, departs: &[&str], unseen: &[&str]) {
    let score = score(contestant, rules_of);
    let found: Vec<String> = score.judged.iter().map(|one| format!("{}: {:?}", one.rule.id, one.verdict)).collect();
    let (holds, seen, all) = score.counts();
    assert_eq!(score.departures(), departs, "{contestant}: {found:#?}");
    let hidden: Vec<&str> =
        score.judged.iter().filter(|one| one.verdict.seen().is_none()).map(|one| one.rule.id).collect();
    assert_eq!(hidden, unseen, "{contestant}: {found:#?}");
    assert_eq!((holds, seen), (all - departs.len() - unseen.len(), all - unseen.len()), "{contestant}: {found:#?}");
}

fn broken(name: &str, make: impl Fn(&Env) -> Box<dyn Controller> + Send + Sync + 'static) -> String {
    register(Definition::new(name, move |_, env| make(env))).unwrap_or_else(|error| panic!("{error}"));
    format!("{name}@tcp")
}

fn cubic(env: &Env, settings: Settings) -> Box<dyn Controller> {
    Box::new(WindowController::new(env, Box::new(HyStart::new(env)), Cubic::new(env, settings)))
}

#[test]
fn ours_hold_to_their_rules() {
    for (contestant, rules_of) in [
        ("reno@tcp", "reno"),
        ("cubic@tcp", "cubic"),
        ("bbr@tcp", "bbr"),
        ("bbr3@tcp", "bbr3"),
        ("copa@udp", "copa"),
        ("dctcp@tcp", "dctcp"),
        ("prague@tcp", "prague"),
    ] {
        assert_departs(contestant, rules_of, &[]);
    }
}

#[test]
fn cubic_that_keeps_more_is_caught() {
    let name = broken("cubic-eight", |env| cubic(env, Settings { beta: 0.8, slope_beta: 0.8, ..Settings::default() }));
    assert_departs(&name, "cubic", &["cubic-beta"]);
}

#[test]
fn cubic_without_fast_convergence_is_caught() {
    let settings = Settings { fast_convergence: false, ..Settings::default() };
    let name = broken("cubic-slow-convergence", move |env| cubic(env, settings));
    assert_departs(&name, "cubic", &["cubic-fast-convergence"]);
}

#[test]
fn cubic_without_hystart_is_caught() {
    let name = broken("cubic-no-hystart", |env| {
        let start = Box::new(SlowStart::new(env));
        Box::new(WindowController::new(env, start, Cubic::new(env, Settings::default())))
    });
    // Its start overflows, so that a recovery follows at once on another, and no two reductions come one after the other.
    assert_verdicts(&name, "cubic", &["cubic-slow-start-exit"], &["cubic-fast-convergence"]);
}

#[test]
fn cubic_with_another_curve_is_caught() {
    let name = broken("cubic-steep", |env| cubic(env, Settings { c: 0.8, ..Settings::default() }));
    // Its windows peak at other times: no two consecutive reductions come below W_max.
    assert_verdicts(&name, "cubic", &["cubic-curve"], &["cubic-fast-convergence"]);
}

#[test]
fn cubic_slower_than_reno_is_caught() {
    let settings = Settings { reno_friendly: false, ..Settings::default() };
    let name = broken("cubic-unfriendly", move |env| cubic(env, settings));
    assert_departs(&name, "cubic", &["cubic-reno-friendly"]);
}

/// Reno that keeps 0.7 of its window.
struct Bold(Reno);

impl Policy for Bold {
    fn grow(&mut self, ack: &Ack<'_>, window: &mut Window) {
        self.0.grow(ack, window);
    }

    fn reduce(&mut self, _: Signal, _: Time, window: &Window, _: f64) -> f64 {
        0.7 * window.cwnd
    }

    fn on_mss(&mut self, mss: u32, scale: f64) {
        self.0.on_mss(mss, scale);
    }
}

#[test]
fn reno_that_keeps_more_is_caught() {
    let name = broken("reno-bold", |env| {
        let policy = Bold(Reno::new(env, Ecn::Off));
        Box::new(WindowController::new(env, Box::new(SlowStart::new(env)), policy))
    });
    assert_departs(&name, "reno", &["reno-halving"]);
}

/// DCTCP with another policy below it.
fn marked(name: &str, policy: impl Policy + Clone + Sync + 'static) -> String {
    broken(name, move |env| Box::new(WindowController::new(env, Box::new(SlowStart::new(env)), policy.clone())))
}

#[test]
fn dctcp_that_forgets_marks_at_once_is_caught() {
    assert_departs("dctcp:g=1@tcp", "dctcp", &["dctcp-proportional"]);
}

#[test]
fn dctcp_that_halves_for_marks_is_caught() {
    let name = marked("dctcp-classic", Reno::new(&Env::default(), Ecn::Exact));
    assert_departs(&name, "dctcp", &["dctcp-proportional"]);
}

#[test]
fn dctcp_that_answers_losses_by_alpha_is_caught() {
    // It loses in the recovery as well: two in a row are one to what is seen from outside.
    assert_departs("dctcp:loss=alpha@tcp", "dctcp", &["dctcp-halving", "dctcp-once"]);
}

#[test]
fn prague_that_depends_on_the_rtt_is_caught() {
    assert_departs("prague:target=0@tcp", "prague", &["prague-rtt-independence"]);
}

#[test]
fn bbr_without_probe_rtt_is_caught() {
    let spec: Spec = "bbr:probe_rtt=1000000".parse().unwrap();
    let name = broken("bbr-no-probe-rtt", move |env| spec.build(env));
    assert_departs(&name, "bbr", &["bbr-probe-rtt"]);
}

#[test]
fn bbr_that_probes_higher_is_caught() {
    assert_departs("bbr:probe_gain=1.5@tcp", "bbr", &["bbr-probe-up"]);
    assert_departs("bbr:cwnd_gain=3@tcp", "bbr", &["bbr-cwnd-gain"]);
}

#[test]
fn copa_that_does_not_compete_is_caught() {
    assert_departs("copa:mode=default@udp", "copa", &["copa-competes"]);
    assert_departs("copa:delta=0.1@udp", "copa", &["copa-target"]);
}
