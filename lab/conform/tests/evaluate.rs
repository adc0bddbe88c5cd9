//! What RFC 9743's clauses say of controllers that are made to fail, of one that must not, and of CUBIC beside itself.

use std::collections::BTreeSet;

use paceline_cc::controller::{Loss, Nature, Pacing, Permit, Sent, Stamp, Timeout};
use paceline_cc::registry::{Definition, register};
use paceline_cc::reno::Reno;
use paceline_cc::units::{Nanos, Time};
use paceline_cc::window::{Policy, Signal, SlowStart, Window, WindowController};
use paceline_cc::{Ack, Controller, Ecn, Env};
use paceline_conform::evaluate::{self, ClauseVerdict, Effort, Evaluation};
use paceline_lab::contestant::Contestant;
use paceline_lab::runner::Unwatched;

fn evaluated(contestant: &str, only: &[&str]) -> Evaluation {
    let contestant: Contestant = contestant.parse().unwrap_or_else(|error| panic!("{error}"));
    let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
    let found = evaluate::evaluate(&contestant, Effort::QUICK, &only, 0, &Unwatched);
    found.unwrap_or_else(|error| panic!("{error}"))
}

/// The checks of a section whose figure is called something like this.
fn verdict(found: &Evaluation, section: &str, measures: &str) -> ClauseVerdict {
    let rows = found.clauses.iter().filter(|row| row.clause == section);
    let mut checks = rows.flat_map(|row| &row.checks).filter(|check| check.measures.starts_with(measures));
    let check = checks.next().unwrap_or_else(|| panic!("{section} has no '{measures}':\n{}", evaluate::text(found)));
    check.verdict.clone()
}

fn assert_verdicts(found: &Evaluation, wanted: &[(&str, &str, ClauseVerdict)]) {
    for (section, measures, verdict_wanted) in wanted {
        let verdict = verdict(found, section, measures);
        assert_eq!(verdict, *verdict_wanted, "{section} {measures}:\n{}", evaluate::text(found));
    }
}

/// How Reno is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    /// It asks for marks and does not answer them.
    Deaf,
    /// It doubles at each loss.
    Doubles,
}

#[derive(Debug)]
struct BrokenReno {
    reno: Reno,
    how: Broken,
}

impl Policy for BrokenReno {
    fn grow(&mut self, ack: &Ack<'_>, window: &mut Window) {
        self.reno.grow(ack, window);
    }

    fn reduce(&mut self, signal: Signal, now: Time, window: &Window, in_flight: f64) -> f64 {
        match self.how {
            Broken::Deaf => self.reno.reduce(signal, now, window, in_flight),
            Broken::Doubles => (2.0 * window.cwnd).min(4000.0),
        }
    }

    fn on_mss(&mut self, mss: u32, scale: f64) {
        self.reno.on_mss(mss, scale);
    }

    fn ecn(&self) -> Ecn {
        self.reno.ecn()
    }

    fn answers(&self, ack: &Ack<'_>) -> bool {
        self.how != Broken::Deaf && ack.echo
    }
}

fn broken(name: &str, how: Broken) -> String {
    let make = move |_: &_, env: &Env| -> Box<dyn Controller> {
        let ecn = if how == Broken::Deaf { Ecn::Classic } else { Ecn::Off };
        Box::new(WindowController::new(
            env,
            Box::new(SlowStart::new(env)),
            BrokenReno { reno: Reno::new(env, ecn), how },
        ))
    };
    register(Definition::new(name, make)).unwrap_or_else(|error| panic!("{error}"));
    format!("{name}@tcp")
}

/// A window that never sends again after its third timeout in a row.
#[derive(Debug)]
struct Mute {
    window: u64,
    mute: bool,
}

impl Controller for Mute {
    fn on_sent(&mut self, _: &Sent) -> Stamp {
        Stamp::default()
    }

    fn on_ack(&mut self, _: &Ack<'_>) {}

    fn on_loss(&mut self, _: &Loss<'_>) {}

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.mute |= timeout.count >= 2;
    }

    fn nature(&self) -> Nature {
        Nature::PLAIN
    }

    fn permit(&self) -> Permit {
        let pacing = if self.mute { Pacing::Gap(Nanos::MAX) } else { Pacing::Free };
        let mut permit = Permit::up_to(self.window);
        permit.pacing = pacing;
        permit
    }

    fn describe(&self, _: &mut dyn FnMut(&'static str, f64)) {}
}

#[test]
fn what_never_backs_off_is_not_met() {
    use ClauseVerdict::NotMet;
    let found = evaluated("fixed:window=3000@udp", &["collapse", "alone"]);
    let wanted = [
        ("5.1.1", "sent where 90 % are lost", NotMet),
        ("5.1.2", "queue p95 alone", NotMet),
        ("5.2", "sent without feedback", NotMet),
        ("7.2", "flows that trip a breaker", NotMet),
    ];
    assert_verdicts(&found, &wanted);
}

/// Eight times what the path holds, of which a buffer of four is filled.
#[derive(Debug)]
struct Standing {
    window: u64,
}

impl Controller for Standing {
    fn on_sent(&mut self, _: &Sent) -> Stamp {
        Stamp::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        if let Some(sample) = ack.rate {
            self.window = self.window.max(8 * sample.rate().bytes_in(ack.min_rtt));
        }
    }

    fn on_loss(&mut self, _: &Loss<'_>) {}

    fn on_timeout(&mut self, _: &Timeout<'_>) {}

    fn nature(&self) -> Nature {
        Nature::PLAIN
    }

    fn permit(&self) -> Permit {
        Permit::up_to(self.window)
    }

    fn describe(&self, _: &mut dyn FnMut(&'static str, f64)) {}
}

#[test]
fn a_queue_that_stands_is_not_met() {
    let make = |_: &_, env: &Env| -> Box<dyn Controller> { Box::new(Standing { window: 10 * u64::from(env.mss) }) };
    register(Definition::new("evaluate-standing", make)).unwrap_or_else(|error| panic!("{error}"));
    let found = evaluated("evaluate-standing@tcp", &["alone"]);
    assert_verdicts(&found, &[("5.1.2", "queue p95 alone", ClauseVerdict::NotMet)]);
}

#[test]
fn windows_that_stay_starve_others_and_overflow_shallow_buffers() {
    use ClauseVerdict::NotMet;
    let found = evaluated("fixed:window=100@tcp", &["shallow", "starvation"]);
    assert_verdicts(&found, &[("5.1.3", "lost after 10 s", NotMet), ("5.2", "longest below a tenth of it", NotMet)]);
}

#[test]
fn who_hides_losses_gains_and_who_divides_acknowledgements_does_not() {
    let found = evaluated("reno:ecn=on@tcp", &["cheats", "tunnel"]);
    let rows = || found.clauses.iter().flat_map(|row| &row.checks);
    let gain = rows().find(|check| check.measures.starts_with("gain of a receiver that cheats"));
    let gain = gain.unwrap_or_else(|| panic!("{}", evaluate::text(&found)));
    assert_eq!(gain.at.as_deref(), Some("acknowledges what has not come"));
    let [.., two] = found.answers.as_slice() else { panic!("{}", evaluate::text(&found)) };
    let shares = &two.charts[0].lines[0].points;
    let of = |place: usize| shares[place].1.unwrap_or_default() / shares[0].1.unwrap_or(1.0);
    // Bytes are counted, not acknowledgements: what is left is the spread of single runs.
    assert!(of(1) > 1.5 && (0.7..1.3).contains(&of(2)) && (0.7..1.3).contains(&of(3)), "{shares:?}");
    assert!(gain.verdict == ClauseVerdict::NotMet && gain.figure.is_some_and(|times| times > 1.5), "{gain:?}");
    let hidden = verdict(&found, "7.6", "gain of a receiver that hides marks");
    assert_eq!(hidden, ClauseVerdict::Worse, "{}", evaluate::text(&found));
    // Marks that are lost on the way leave nothing that would hold the flow back.
    let left = rows().find(|check| check.measures.starts_with("left to CUBIC beside it"));
    assert_eq!(left.and_then(|check| check.at.as_deref()), Some("CE lost at the exit"), "{}", evaluate::text(&found));
}

#[test]
fn a_receiver_that_asks_cheats_no_sender() {
    let found = evaluated("copa@icn", &["cheats"]);
    let verdict = verdict(&found, "7.6", "cheating receivers");
    assert!(matches!(verdict, ClauseVerdict::DoesNotApply(_)), "{}", evaluate::text(&found));
    assert!(found.answers.iter().all(|one| one.failures.is_empty()), "{}", evaluate::text(&found));
}

#[test]
fn what_doubles_at_a_loss_is_not_met() {
    let found = evaluated(&broken("evaluate-doubles", Broken::Doubles), &["shallow"]);
    assert_verdicts(&found, &[("5.1.3", "lost after 10 s", ClauseVerdict::NotMet)]);
}

#[test]
fn marks_that_are_asked_for_must_be_answered() {
    let marks = |who: &str| verdict(&evaluated(who, &["aqm"]), "7.1", "window after a mark");
    assert_eq!(marks(&broken("evaluate-deaf", Broken::Deaf)), ClauseVerdict::NotMet);
    assert_eq!(marks("reno:ecn=on@tcp"), ClauseVerdict::Met);
    assert_eq!(marks("cubic:ecn=on@tcp"), ClauseVerdict::Met);
    assert_eq!(marks("reno@tcp"), ClauseVerdict::DoesNotApply("it asks for no marks".to_owned()));
}

#[test]
fn what_stays_mute_after_an_outage_is_not_met() {
    let make =
        |_: &_, env: &Env| -> Box<dyn Controller> { Box::new(Mute { window: 50 * u64::from(env.mss), mute: false }) };
    register(Definition::new("evaluate-mute", make)).unwrap_or_else(|error| panic!("{error}"));
    let found = evaluated("evaluate-mute@tcp", &["reroute"]);
    assert_verdicts(&found, &[("7.9", "silence after 3 s", ClauseVerdict::NotMet)]);
}

#[test]
fn reno_fails_none_of_these() {
    use ClauseVerdict::Met;
    let found = evaluated("reno@tcp", &["collapse", "shallow", "reroute"]);
    let wanted = [
        ("5.1.1", "sent where 90 % are lost", Met),
        ("5.1.3", "lost after 10 s", Met),
        ("5.2", "sent without feedback", Met),
        ("5.2", "longest silence without feedback", Met),
        ("7.2", "flows that trip a breaker", Met),
        ("7.9", "silence after 3 s", Met),
    ];
    assert_verdicts(&found, &wanted);
}

#[test]
fn bbr_version_1_loses_too_much_where_the_buffer_is_shallow_and_version_3_does_not() {
    let lost = |who: &str| verdict(&evaluated(who, &["shallow"]), "5.1.3", "lost after 10 s");
    assert_eq!(lost("bbr@tcp"), ClauseVerdict::NotMet);
    assert_eq!(lost("bbr3@tcp"), ClauseVerdict::Met);
    assert_eq!(lost("cubic@tcp"), ClauseVerdict::Met);
}

/// Clauses are left out for what a contestant is: the marks that it asks for, its receiver, and its one path.
#[test]
fn what_does_not_apply_follows_from_the_contestant() {
    let window = ("7.1", "window after a mark, of before");
    let (hidden, cheats) = (("7.6", "gain of a receiver that hides marks, times"), ("7.6", "cheating receivers"));
    for who in ["reno@tcp", "copa@udp", "dctcp@tcp", "cubic:ecn=on@tcp", "copa@icn"] {
        let contestant: Contestant = who.parse().unwrap_or_else(|error| panic!("{error}"));
        let mut expected = BTreeSet::from([("7.10", "several paths")]);
        let marks = contestant.controller.build(&Env::default()).nature().ecn;
        let acknowledges = !who.ends_with("@icn");
        expected.extend((marks != Ecn::Classic).then_some(window));
        expected.extend((marks == Ecn::Off && acknowledges).then_some(hidden));
        expected.extend((!acknowledges).then_some(cheats));
        let found = evaluated(who, &["aqm", "cheats", "tunnel"]);
        let checks = found.clauses.iter().flat_map(|row| row.checks.iter().map(move |check| (row.clause, check)));
        let left_out = checks.filter(|(_, check)| matches!(check.verdict, ClauseVerdict::DoesNotApply(_)));
        let left_out: BTreeSet<_> = left_out.map(|(section, check)| (section, check.measures)).collect();
        assert_eq!(left_out, expected, "{who}, which asks for {marks:?}");
    }
}

#[test]
fn cubic_is_like_itself() {
    let only = ["itself", "rtt", "harm", "rivals", "short", "far", "delay", "transient", "aqm"];
    let found = evaluated("cubic@tcp", &only);
    for check in found.clauses.iter().flat_map(|row| &row.checks) {
        let wrong = matches!(check.verdict, ClauseVerdict::Better | ClauseVerdict::Worse | ClauseVerdict::NotMet);
        assert!(!wrong, "{}: {}\n{}", check.question, check.measures, evaluate::text(&found));
    }
}

#[test]
fn calls_fare_well_beside_what_keeps_the_queue_short() {
    let found = evaluated("vegas@tcp", &["realtime"]);
    let wanted = [
        ("5.2.2", "frames' delay p95", ClauseVerdict::Met),
        ("5.2.2", "frames lost or later", ClauseVerdict::Met),
        ("5.2.2", "calls that a breaker ends", ClauseVerdict::Met),
    ];
    assert_verdicts(&found, &wanted);
    // Beside a window that never falls frames are lost, and one that follows Sprout or LEDBAT++ waits.
    let found = evaluated("fixed:window=3000@udp", &["realtime"]);
    let wanted = [
        ("5.2.2", "frames' delay p95", ClauseVerdict::NotMet),
        ("5.2.2", "calls that a breaker ends", ClauseVerdict::NotMet),
    ];
    assert_verdicts(&found, &wanted);
    let charts = || found.answers.iter().flat_map(|one| &one.charts);
    let frames = charts().find(|chart| chart.y == "frames lost, %").unwrap_or_else(|| panic!("{found:?}"));
    let lost = |line: usize, place: usize| frames.lines[line].points[place].1.unwrap_or_default();
    assert!((0..4).all(|place| lost(0, place) > 10.0 + lost(1, place)), "{frames:?}");
}

#[test]
fn the_same_contestant_gives_the_same_page() {
    let page = || {
        let found = evaluated("copa@udp", &["rtt", "7.4", "5.1.1"]);
        (evaluate::page(&found, "paceline").unwrap_or_else(|error| panic!("{error}")), evaluate::json(&found))
    };
    assert_eq!(page(), page());
}
