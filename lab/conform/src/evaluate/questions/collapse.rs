//! Section 5.1.1: what a controller sends while nearly nothing arrives.

use super::{PLAIN, Question, every, path};
use crate::evaluate::answers::{Axis, BREAKER, NEVER, measured, reading};
use crate::evaluate::cells::CellRun;
use crate::evaluate::verdict::Bound;
use crate::evaluate::watched::{Side, Span};

const WORLD: Axis = Axis::conditions(&[
    "half of the packets lost",
    "nine of ten packets lost",
    "no acknowledgements",
    "a packet in 5 s",
]);
/// When it begins and ends, and the part of it that is judged, in seconds.
const BAD: Span = 10.0..50.0;
const JUDGED: Span = 40.0..50.0;
/// Round trips of 40 ms in the part that is judged.
const ROUNDS: f64 = 250.0;
/// The condition without acknowledgements.
const NO_ACKS: f64 = 3.0;

pub(super) const QUESTION: Question = Question {
    id: "collapse",
    asks: |name| format!("What does {name} send while nearly nothing arrives?"),
    clauses: &["5.1.1", "5.2 starvation", "7.2"],
    setup: |_| {
        "50 Mbit/s, 40 ms, drop-tail of 1 BDP; from 10 to 50 s half, or nine tenths of the packets are lost, no acknowledgement comes, \
         or the service is one packet in 5 s"
            .to_owned()
    },
    cells: |contestant, _| {
        every(contestant, &["cubic", "bbr"], WORLD, |one, number| {
            let lossy = |loss: f64| {
                let steps = format!("loss_schedule = [[\"0s\", 0], [\"10s\", {loss}], [\"50s\", 0]]\n");
                path(50.0, 40.0, "droptail:bdp=1", &steps)
            };
            let path = match number {
                1 => lossy(0.5),
                2 => lossy(0.9),
                3 => path(50.0, 40.0, "droptail:bdp=1", "").replace(
                    "[up]\n",
                    "[up]\nrate = \"1 Gbit/s\"\nqueue = \"droptail:packets=100000\"\noutages = [[\"10s\", \"50s\"]]\n",
                ),
                _ => "[down]\nschedule = [[\"0s\", \"50 Mbit/s\"], [\"10s\", \"2400 bit/s\"], [\"50s\", \"50 Mbit/s\"]]\n\
                      delay = \"20ms\"\nqueue = \"droptail:bytes=250kB\"\n\n[up]\ndelay = \"20ms\"\n"
                    .to_owned(),
            };
            one.at(number, path).watched(60)
        })
    },
    answer: |name, cells, _| {
        let readings = [
            reading("5.1.1", "sent in a round trip, packets", None, Bound::like_or_less(0.5), |run, _| sent(run)),
            reading("5.1.1", "sent where 90 % are lost, packets", None, Bound::Most(4.0), |run, x| {
                sent(run).filter(|_| x == 2.0)
            }),
            reading("5.2 starvation", "sent without feedback, packets", None, Bound::Most(1.0), |run, x| {
                sent(run).filter(|_| x == NO_ACKS)
            }),
            reading("5.2 starvation", "growth of gaps without feedback, times", None, Bound::Least(1.8), |run, x| {
                growth(&run.watched.silences).filter(|_| x == NO_ACKS)
            }),
            reading("5.2 starvation", "longest silence without feedback, s", None, Bound::Most(60.0), |run, x| {
                (x == NO_ACKS).then(|| longest(&run.watched.silences))
            }),
            reading("5.1.1", "until 80 % after it, s", None, Bound::LessIsBetter(1.0), |run, _| {
                Some(run.watched.reaches(Side::Own, 40.0, &(BAD.end..60.0)).unwrap_or(NEVER))
            }),
            BREAKER,
        ];
        measured(name, cells, WORLD, &["itself", "cubic", "bbr"], &readings)
    },
    ..PLAIN
};

/// Packets in 40 ms, in the last 10 s of it.
fn sent(run: &CellRun) -> Option<f64> {
    Some(run.watched.sum(Side::Own, &JUDGED).sent as f64 / ROUNDS)
}

/// The silences that begin while there are no acknowledgements: those between packets that timers sent, in seconds.
fn gaps(silences: &[(f64, f64)]) -> Vec<f64> {
    silences.iter().filter(|(from, _)| BAD.contains(from)).map(|(from, to)| to - from).collect()
}

/// The least growth from one gap to the next until gaps are a second long; `None` where they are from the second on. The first gap ends in a
/// probe or in the first timeout, from which on they are doubled (RFC 6298, RFC 8985).
fn growth(silences: &[(f64, f64)]) -> Option<f64> {
    let gaps = gaps(silences);
    gaps.get(1..)?.windows(2).filter(|pair| pair[0] < 1.0).map(|pair| pair[1] / pair[0]).reduce(f64::min)
}

fn longest(silences: &[(f64, f64)]) -> f64 {
    gaps(silences).into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_that_double_and_gaps_that_do_not() {
        let silences = |at: &[f64]| -> Vec<(f64, f64)> { at.windows(2).map(|pair| (pair[0], pair[1])).collect() };
        // A probe, and timeouts of 0.3 s that double.
        let doubling = silences(&[10.01, 10.21, 10.51, 11.11, 12.31, 14.71, 19.51]);
        assert!((growth(&doubling).unwrap() - 2.0).abs() < 1e-6);
        assert!((longest(&doubling) - 4.8).abs() < 1e-6);
        let steady: Vec<f64> = (0..100).map(|index| 10.0 + 0.3 * f64::from(index)).collect();
        assert!((growth(&silences(&steady)).unwrap() - 1.0).abs() < 1e-6);
        assert_eq!(growth(&silences(&[10.0, 11.5, 13.0, 14.5])), None);
    }
}
