//! Whether a direction can be built.

use paceline_cc::{Bytes, Nanos, Rate};

use super::{Direction, PathError, field};
use crate::bucket::Bucket;
use crate::loss::LossModel;
use crate::queue::{QueueBound, QueueSpec};
use crate::schedule::Rates;
use crate::tunnel::TunnelMarks;

impl Direction {
    /// Checks every field; what [`Direction::build`] would refuse, but for the trace.
    pub fn check(&self) -> Result<(), PathError> {
        let links = self.links_given();
        if links > 1 {
            let (key, of) = match (self.bucket, &self.wifi) {
                (Some(_), _) => ("bucket", "rate, schedule, trace, bucket and wifi"),
                (None, Some(_)) => ("wifi", "rate, schedule, trace and wifi"),
                (None, None) => ("rate", "rate, schedule and trace"),
            };
            return Err(field(key, format!("more than one of {of} is given"), "keep one of them"));
        }
        if let Some(bucket) = &self.bucket {
            self.check_bucket(bucket)?;
        }
        if let Some(wifi) = &self.wifi {
            wifi.check().map_err(|(key, problem, fix)| field(key, problem, fix))?;
        }
        if self.rate == Some(Rate::ZERO) {
            return Err(field("rate", "a link of rate 0 carries nothing", "give a rate above 0, such as 12 Mbit/s"));
        }
        if let Some(Rates::Markov { markov }) = &self.schedule {
            markov.check().map_err(|(key, problem, fix)| field(key, problem, fix))?;
            if self.schedule_lap.is_some() {
                return Err(field("schedule_lap", "a Markov chain has no last step", "leave it out, or give steps"));
            }
        }
        if let Some(Rates::Steps(steps)) = &self.schedule {
            let fix = "write [[\"0s\", \"200 Mbit/s\"], [\"10s\", \"500 Mbit/s\"]]";
            check_steps("schedule", steps, fix)?;
            if steps.iter().all(|(_, rate)| *rate == Rate::ZERO) {
                return Err(field("schedule", "every rate is 0", fix));
            }
        }
        if let Some(lap) = self.schedule_lap {
            let last = match &self.schedule {
                Some(Rates::Steps(steps)) => steps.last(),
                _ => None,
            };
            if last.is_none_or(|(start, _)| lap <= *start) {
                return Err(field("schedule_lap", "it is not after the last step", "give a time after the last step"));
            }
        }
        if self.trace_start.is_some() && self.trace.is_none() {
            return Err(field("trace_start", "there is no trace to start in", "give a trace, or leave it out"));
        }
        if self.light_trace.is_some() && self.trace.is_none() {
            let problem = "there is no trace of what the link offers under saturation";
            return Err(field("light_trace", problem, "give trace too, or leave it out"));
        }
        for (key, given) in [("light_below", self.light_below.is_some()), ("light_after", self.light_after.is_some())] {
            if given && self.light_trace.is_none() {
                return Err(field(key, "there is no light_trace", "give light_trace, or leave it out"));
            }
        }
        if self.light_below == Some(Bytes(0)) {
            return Err(field("light_below", "below 0 bytes no load is light", "give a size, such as 15kB"));
        }
        let queues = [("queue", self.queue.is_some()), ("queue_schedule", self.queue_schedule.is_some())];
        if let Some((key, _)) = queues.into_iter().find(|(_, given)| *given && links == 0) {
            let fix = "give rate, schedule or trace, or leave out the queue";
            return Err(field(key, "there is no link for it to wait at", fix));
        }
        self.check_queues()?;
        if !self.outages.is_empty() && links == 0 {
            let fix = "give rate, schedule or trace, or leave out the outages";
            return Err(field("outages", "there is no link to stand still", fix));
        }
        let sorted = self.outages.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        if !sorted || self.outages.iter().any(|(from, to)| from >= to) {
            let fix = "write [[\"10s\", \"12s\"], [\"30s\", \"31s\"]], one after the other";
            return Err(field("outages", "a span ends before it begins, or two overlap", fix));
        }
        if let Some(policer) = &self.policer {
            if links == 0 {
                let fix = "give rate, schedule or trace, above the policer's, or leave out the policer";
                return Err(field("policer", "there is no link behind it", fix));
            }
            if policer.rate == Rate::ZERO {
                return Err(field(
                    "policer.rate",
                    "at a rate of 0 nothing passes",
                    "give one above 0, such as 10 Mbit/s",
                ));
            }
            if policer.burst == Bytes(0) {
                return Err(field("policer.burst", "it holds no packet", "give room for one, such as 125kB"));
            }
        }
        if self.marks == TunnelMarks::Forget && links == 0 {
            let fix = "give rate, schedule or trace, or leave it out";
            return Err(field("marks", "there is no queue whose marks could be forgotten", fix));
        }
        self.check_random()?;
        self.check_delay()
    }

    fn check_bucket(&self, bucket: &Bucket) -> Result<(), PathError> {
        if bucket.rate == Rate::ZERO {
            return Err(field("bucket.rate", "at a rate of 0 nothing passes", "give one above 0, such as 20 Mbit/s"));
        }
        if bucket.burst == Some(Bytes(0)) {
            return Err(field("bucket.burst", "it holds no packet", "give room for one, such as 30kB"));
        }
        if bucket.peak.is_some_and(|peak| peak < bucket.rate) {
            return Err(field("bucket.peak", "it is below rate, which is never reached", "give more, or leave it out"));
        }
        if !self.outages.is_empty() {
            return Err(field("outages", "a bucket does not stand still", "give rate or schedule in place of bucket"));
        }
        Ok(())
    }

    fn check_queues(&self) -> Result<(), PathError> {
        let is_timed = |queue: &QueueSpec| queue.limit().time.is_some();
        let problem = "on the air nothing has a rate by which time= could count";
        if self.wifi.is_some() && self.queue.as_ref().is_some_and(is_timed) {
            return Err(field("queue", problem, "give bytes= or packets="));
        }
        let Some(steps) = &self.queue_schedule else { return Ok(()) };
        let (key, fix) =
            ("queue_schedule", "write [[\"0s\", \"droptail:time=100ms\"], [\"1s\", \"droptail:time=200ms\"]]");
        if self.queue.is_some() {
            return Err(field(key, "queue is given too", "keep one of them"));
        }
        check_steps(key, steps, fix)?;
        let limited = |queue: &QueueSpec| matches!(queue, QueueSpec::DropTail { limit } if *limit != QueueBound::NONE);
        if !steps.iter().all(|(_, queue)| limited(queue)) {
            return Err(field(key, "only the limit of a drop-tail queue can change", fix));
        }
        let timed = steps.iter().filter(|(_, queue)| is_timed(queue)).count();
        if timed > 0 && self.wifi.is_some() {
            return Err(field(key, problem, "give bytes= or packets="));
        }
        if timed > 0 && timed < steps.len() {
            return Err(field(key, "some limits are times and others not", "give time= in all steps, or in none"));
        }
        Ok(())
    }

    fn check_random(&self) -> Result<(), PathError> {
        if let Some(steps) = &self.loss_schedule {
            if self.loss.is_some() {
                return Err(field("loss_schedule", "loss is given too", "keep one of them"));
            }
            check_steps("loss_schedule", steps, "write [[\"0s\", 0], [\"1s\", 0.01]]")?;
        }
        let scheduled = self.loss_schedule.iter().flatten().map(|(_, loss)| loss);
        let losses = || self.loss.iter().chain(scheduled.clone());
        if losses().any(|loss| matches!(loss, LossModel::Burst { burst: 0, .. })) {
            return Err(field("loss", "a burst of 0 loses nothing", "give 1 or more, or leave it out"));
        }
        let loss = losses().flat_map(LossModel::probabilities);
        let duplicate = self.duplicate.map(|probability| ("duplicate", probability));
        let reorder = self.reorder.map(|reorder| ("reorder.share", reorder.share));
        for (name, probability) in loss.chain(duplicate).chain(reorder) {
            if !(0.0..=1.0).contains(&probability) {
                return Err(field(name, format!("{probability} is not a probability"), "give a number from 0 to 1"));
            }
        }
        if self.reorder.is_some_and(|reorder| reorder.delay == Nanos::ZERO) {
            return Err(field("reorder.delay", "0 holds nothing back", "give a time above 0, such as 5ms"));
        }
        if let Some(jitter) = &self.jitter {
            jitter.check().map_err(|(problem, fix)| field("jitter", problem, fix))?;
        }
        let Some(steps) = &self.jitter_schedule else { return Ok(()) };
        let key = "jitter_schedule";
        if self.jitter.is_some() {
            return Err(field(key, "jitter is given too", "keep one of them"));
        }
        check_steps(key, steps, "write [[\"0s\", { max = \"1ms\" }], [\"1s\", { max = \"12ms\" }]]")?;
        for (_, jitter) in steps {
            jitter.check().map_err(|(problem, fix)| field(key, problem, fix))?;
        }
        if steps.iter().any(|(_, jitter)| jitter.reorder != steps[0].1.reorder) {
            return Err(field(
                key,
                "packets may overtake in some steps and not in others",
                "write reorder alike in all",
            ));
        }
        Ok(())
    }

    fn check_delay(&self) -> Result<(), PathError> {
        let Some(steps) = &self.delay_schedule else { return Ok(()) };
        let fix = "write [[\"0s\", \"20ms\"], [\"10s\", \"60ms\"]]";
        if self.delay > Nanos::ZERO {
            return Err(field("delay_schedule", "delay is given too", "keep one of them"));
        }
        check_steps("delay_schedule", steps, fix)
    }
}

/// Whether steps begin at 0 and follow each other.
fn check_steps<T>(key: &'static str, steps: &[(Nanos, T)], fix: &'static str) -> Result<(), PathError> {
    if steps.first().is_none_or(|(start, _)| *start != Nanos::ZERO) {
        return Err(field(key, "the first step does not start at 0s", fix));
    }
    if steps.windows(2).any(|pair| pair[1].0 <= pair[0].0) {
        return Err(field(key, "the times of the steps do not increase", fix));
    }
    Ok(())
}
