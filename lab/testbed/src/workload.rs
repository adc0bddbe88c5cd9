//! When flows begin, and how much they have to bring over.

use std::iter;
use std::mem;

use paceline_cc::{Bytes, Time};
use paceline_experiment::{Arrivals, Flow, NewFlow, Seed, Workload};

/// When each flow of a configured one begins, with the bytes after which it ends where it does.
pub(crate) type Beginnings = Box<dyn Iterator<Item = (Time, Option<u64>)>>;

/// Those of the configured flow with this index, of a family the ones before it stops, and before `until`.
pub(crate) fn beginnings(flow: &Flow, seed: Seed, index: usize, until: Time) -> Beginnings {
    let Some(arrivals) = Arrivals::new(&flow.workload, seed, index) else {
        return Box::new(iter::once((flow.start, goal(&flow.workload))));
    };
    let stop = flow.stop.unwrap_or(Time::NEVER).min(until);
    let begin = |at: &mut Time, new: NewFlow| Some((mem::replace(at, *at + new.gap), Some(new.bytes)));
    Box::new(arrivals.scan(flow.start, begin).take_while(move |(at, _)| *at < stop))
}

/// Whether it is a family of flows that come and go.
pub(crate) fn is_family(flow: &Flow) -> bool {
    matches!(flow.workload, Workload::Poisson(_))
}

/// When a configured flow is over at the latest: a family that stops begins no more flows, and those that have begun go on.
pub(crate) fn end(flow: &Flow, until: Time) -> Time {
    flow.stop.filter(|_| !is_family(flow)).unwrap_or(Time::NEVER).min(until)
}

/// The bytes after which a flow ends, where it is one of a kind.
pub(crate) fn goal(workload: &Workload) -> Option<u64> {
    if let Workload::Bytes(Bytes(bytes)) = workload { Some(*bytes) } else { None }
}

#[cfg(test)]
mod tests {
    use paceline_cc::Nanos;
    use paceline_experiment::{Cut, Poisson, Via};

    use super::*;

    #[test]
    fn a_family_that_stops_begins_no_more_flows_and_those_that_have_begun_go_on() {
        let (at, until) = (Time::from_millis, Time::from_millis(9_000));
        let family = Poisson {
            mean_gap: Nanos::from_millis(100),
            alpha: 1.2,
            min: Bytes(1_000),
            max: Bytes(2_000),
            scale: None,
            cut: Cut::Truncate,
            count: None,
        };
        let bulk = Flow { stop: Some(at(5_000)), ..Flow::bulk("reno".parse().unwrap(), Via::udp()) };
        let family = Flow { start: at(2_000), workload: Workload::Poisson(family), ..bulk.clone() };
        let begun: Vec<_> = beginnings(&family, Seed(1), 0, until).collect();
        assert_eq!(begun[0].0, at(2_000));
        assert!(begun.len() > 10 && begun.iter().all(|(begun, bytes)| *begun < at(5_000) && bytes.is_some()));
        assert_eq!(
            beginnings(&family, Seed(1), 0, at(3_000)).last().unwrap(),
            *begun.iter().rfind(|(begun, _)| *begun < at(3_000)).unwrap()
        );
        assert_eq!((end(&family, until), end(&bulk, until)), (until, at(5_000)));
        assert_eq!(beginnings(&bulk, Seed(1), 0, until).collect::<Vec<_>>(), [(Time::ZERO, None)]);
    }
}
