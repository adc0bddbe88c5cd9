//! The numbers of a world's flows, whichever of their threads is first.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use paceline_experiment::Flow;

/// Configured flows are counted from 0 in the order of their starts, as in the simulator; the further flows of families come after
/// all of these, in the order in which they begin.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// Of each configured flow, and whether it has it.
    first: Vec<(u32, AtomicBool)>,
    further: AtomicU32,
}

impl Numbers {
    pub(crate) fn new(flows: &[Flow]) -> Self {
        let mut order: Vec<usize> = (0..flows.len()).collect();
        order.sort_by_key(|index| flows[*index].start);
        let mut numbered: Vec<(u32, usize)> = (0..).zip(order).collect();
        numbered.sort_by_key(|(_, index)| *index);
        let first = numbered.into_iter().map(|(number, _)| (number, AtomicBool::new(false))).collect();
        Self { first, further: AtomicU32::new(flows.len() as u32) }
    }

    /// Configured flows.
    pub(crate) fn configured(&self) -> usize {
        self.first.len()
    }

    /// That of the first flow of the configured one with this index.
    pub(crate) fn first(&self, index: usize) -> u32 {
        self.first[index].0
    }

    /// The number of the next flow of the configured one with this index.
    pub(crate) fn next(&self, index: usize) -> u32 {
        match self.first.get(index) {
            Some((number, taken)) if !taken.swap(true, Ordering::Relaxed) => *number,
            _ => self.further.fetch_add(1, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use paceline_cc::{Nanos, Time};
    use paceline_experiment::Via;

    use super::*;

    #[test]
    fn flows_are_counted_by_their_starts_whichever_asks_first() {
        let spec: paceline_cc::Spec = "copa".parse().unwrap();
        let starting = |ms| Flow { start: Time::ZERO + Nanos::from_millis(ms), ..Flow::bulk(spec.clone(), Via::udp()) };
        let flows = [starting(1000), starting(0), starting(1000)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let numbers = Numbers::new(&flows);
            let mut given = [u32::MAX; 3];
            order.iter().for_each(|index| given[*index] = numbers.next(*index));
            assert_eq!(given, [1, 0, 2], "asked in the order {order:?}");
            assert_eq!([numbers.next(1), numbers.next(0)], [3, 4], "further flows of families");
        }
    }
}
