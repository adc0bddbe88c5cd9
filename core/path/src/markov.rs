//! A rate that wanders: a Markov chain of rates, each held for an exponentially distributed time.
//!
//! The chain is walked as time goes on and forgets what lies behind, so that a run of any length takes no memory; who
//! asks for the past walks again from the beginning. It begins in the long run: the first rate is drawn by how often
//! each holds, and since holding times have no memory, there is no warm-up.

use paceline_cc::{Nanos, Rate};
use serde::{Deserialize, Serialize};

use crate::random::{Purpose, Stream};

/// A chain of rates: `{ rates = ["2 Mbit/s", "10 Mbit/s", "40 Mbit/s"], hold = "200ms" }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Markov {
    /// The rates; a rate of 0 stands still.
    pub rates: Vec<Rate>,
    /// Mean time for which a rate holds.
    pub hold: Nanos,
    /// Probabilities of the next rate, a row for each rate; a rate may follow itself. Without it, a neighbour in the
    /// list: above or below with the same probability, at an end the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Vec<Vec<f64>>>,
}

/// Most rates (our choice: their long run takes as many steps as the cube of this).
const MOST: usize = 100;
/// Shortest mean holding time (our choice: well below what a full packet takes at 1 Gbit/s).
const SHORTEST: Nanos = Nanos::from_micros(1);
/// By how much a row may miss a sum of 1 (our choice: thirds may be written with nine digits).
const ROUNDING: f64 = 1e-6;

impl Markov {
    /// What is wrong with it: the key below its own, the problem, and how to fix it.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String, &'static str)> {
        const RATES: &str = "schedule.markov.rates";
        const NEXT: &str = "schedule.markov.next";
        let count = self.rates.len();
        if !(2..=MOST).contains(&count) {
            return Err((
                RATES,
                format!("{count} is not a number of rates from 2 to {MOST}"),
                "give rates to go between",
            ));
        }
        if self.rates.iter().all(|rate| *rate == Rate::ZERO) {
            return Err((RATES, "every rate is 0".to_owned(), "give a rate above 0, such as 12 Mbit/s"));
        }
        if self.hold < SHORTEST {
            return Err(("schedule.markov.hold", "it is below 1us".to_owned(), "give a time such as 200ms"));
        }
        let Some(next) = &self.next else { return Ok(()) };
        if next.len() != count || next.iter().any(|row| row.len() != count) {
            return Err((
                NEXT,
                format!("it is not {count} rows of {count}"),
                "give each rate a probability in each row",
            ));
        }
        for (number, row) in (1..).zip(next) {
            if let Some(probability) = row.iter().find(|probability| !(0.0..=1.0).contains(*probability)) {
                let problem = format!("{probability} in row {number} is not a probability");
                return Err((NEXT, problem, "give numbers from 0 to 1"));
            }
            let sum: f64 = row.iter().sum();
            if (sum - 1.0).abs() > ROUNDING {
                return Err((NEXT, format!("row {number} sums up to {sum}"), "give probabilities with a sum of 1"));
            }
        }
        if let Some((from, to)) = self.cut_off() {
            let problem = format!("no way leads from rate {from} to rate {to}");
            return Err((NEXT, problem, "let every rate be followed, sooner or later, by any other"));
        }
        Ok(())
    }

    /// The first two rates, counted from 1, of which the one never leads to the other.
    fn cut_off(&self) -> Option<(usize, usize)> {
        let steps = self.steps();
        for from in 0..steps.len() {
            let mut reached = vec![false; steps.len()];
            let mut open = vec![from];
            while let Some(at) = open.pop() {
                for (to, probability) in steps[at].iter().enumerate() {
                    if *probability > 0.0 && !reached[to] {
                        reached[to] = true;
                        open.push(to);
                    }
                }
            }
            if let Some(to) = (0..steps.len()).find(|to| *to != from && !reached[*to]) {
                return Some((from + 1, to + 1));
            }
        }
        None
    }

    /// Probabilities of the next rate, by the rate before it.
    fn steps(&self) -> Vec<Vec<f64>> {
        if let Some(next) = &self.next {
            return next.clone();
        }
        let last = self.rates.len() - 1;
        let neighbour = |from: usize, to: usize| match from.abs_diff(to) {
            1 if from == 0 || from == last => 1.0,
            1 => 0.5,
            _ => 0.0,
        };
        (0..=last).map(|from| (0..=last).map(|to| neighbour(from, to)).collect()).collect()
    }

    /// Share of time of each rate in the long run.
    ///
    /// Source: Grassmann, Taksar, Heyman, "Regenerative Analysis and Steady State Distributions for Markov Chains",
    /// Operations Research 33(5), 1985: rates are taken out one after the other, without a subtraction.
    fn shares(&self) -> Vec<f64> {
        let mut steps = self.steps();
        let mut into = Vec::new();
        while let Some(row) = steps.pop()
            && !steps.is_empty()
        {
            let last = steps.len();
            let leaving: f64 = row[..last].iter().sum();
            let through: Vec<f64> = steps.iter().map(|from| from[last] / leaving).collect();
            for (from, through) in steps.iter_mut().zip(&through) {
                from.iter_mut().zip(&row).for_each(|(step, after)| *step += through * after);
            }
            into.push(through);
        }
        let mut shares = vec![1.0];
        for through in into.iter().rev() {
            shares.push(through.iter().zip(&shares).map(|(step, share)| step * share).sum());
        }
        let sum: f64 = shares.iter().sum();
        shares.iter().map(|share| share / sum).collect()
    }

    /// The mean rate in the long run.
    pub(crate) fn mean_rate(&self) -> Rate {
        let rates = self.rates.iter().map(|rate| rate.as_bytes_per_sec() as f64);
        let mean: f64 = rates.zip(self.shares()).map(|(rate, share)| rate * share).sum();
        Rate::from_bytes_per_sec(mean as u64)
    }
}

/// One walk along the chain.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    chain: Chain,
    first: Stay,
    /// The last one that [`Walk::advance`] came to.
    here: Stay,
}

/// What is needed to go on.
#[derive(Clone, Debug)]
struct Chain {
    rates: Vec<u64>,
    hold: Nanos,
    /// For each rate, the sums of the probabilities up to each next one.
    sums: Vec<Vec<f64>>,
}

/// For how long a rate holds.
#[derive(Clone, Debug)]
struct Stay {
    state: usize,
    start: u64,
    end: u64,
    /// Work done by its start.
    done: u128,
    stream: Stream,
}

impl Walk {
    /// A walk along a chain that was checked.
    pub(crate) fn new(markov: &Markov, seed: u64) -> Self {
        let steps = markov.steps();
        let rates = markov.rates.iter().map(|rate| rate.as_bytes_per_sec()).collect();
        let chain = Chain { rates, hold: markov.hold, sums: steps.iter().map(|row| sums(row)).collect() };
        let mut stream = Stream::new(seed, Purpose::Markov);
        let state = draw(&sums(&markov.shares()), &mut stream);
        let end = chain.holding(&mut stream);
        let first = Stay { state, start: 0, end, done: 0, stream };
        Self { chain, here: first.clone(), first }
    }

    /// The rate at `now` and until when it holds. A time that lies behind the walk makes it begin again.
    pub(crate) fn rate_at(&mut self, now: u64) -> (u64, u64) {
        if now < self.here.start {
            self.here = self.first.clone();
        }
        self.here.go(&self.chain, now);
        (self.chain.rates[self.here.state], self.here.end)
    }

    /// Work that can be done by `end`.
    pub(crate) fn work(&self, end: u64) -> u128 {
        let mut stay = if end < self.here.start { self.first.clone() } else { self.here.clone() };
        stay.go(&self.chain, end);
        stay.done + u128::from(self.chain.rates[stay.state]) * u128::from(end - stay.start)
    }
}

impl Stay {
    /// Goes on to the stay that holds at `now`.
    fn go(&mut self, chain: &Chain, now: u64) {
        while self.end <= now && self.end < u64::MAX {
            self.done += u128::from(chain.rates[self.state]) * u128::from(self.end - self.start);
            self.start = self.end;
            self.state = draw(&chain.sums[self.state], &mut self.stream);
            self.end = self.start.saturating_add(chain.holding(&mut self.stream));
        }
    }
}

impl Chain {
    fn holding(&self, stream: &mut Stream) -> u64 {
        self.hold.mul_f64(stream.exponential()).as_nanos().max(1)
    }
}

fn sums(probabilities: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |probability: &f64| {
        sum += probability;
        sum
    };
    probabilities.iter().map(add).collect()
}

/// A draw by sums of probabilities, whose last is 1 but for rounding.
fn draw(sums: &[f64], stream: &mut Stream) -> usize {
    let total = sums.last().copied().unwrap_or(1.0);
    let point = stream.unit() * total;
    sums.partition_point(|sum| *sum <= point).min(sums.len() - 1)
}

#[cfg(test)]
mod tests;
