//! A controller that writes down what it is told.

use std::sync::{Arc, Mutex};

use paceline_cc::{
    Ack, Controller, Ecn, Loss, Nanos, Nature, Pacing, Permit, Phase, Restart, Sent, Stamp, Time, Timeout,
};

/// Writes down what it is told; its answers are set from outside.
#[derive(Clone)]
pub(crate) struct Spy(Arc<Mutex<Answers>>);

pub(crate) struct Answers {
    calls: Vec<String>,
    pub(crate) window: u64,
    pub(crate) pacing: Pacing,
    ecn: Ecn,
    pub(crate) tick: Time,
    sent: u64,
}

impl Spy {
    /// With this window, no pacing and no ticks.
    pub(crate) fn new(window: u64, ecn: Ecn) -> Self {
        let (pacing, tick) = (Pacing::Free, Time::NEVER);
        Self(Arc::new(Mutex::new(Answers { calls: Vec::new(), window, pacing, ecn, tick, sent: 0 })))
    }

    fn told(&self, call: String) {
        self.0.lock().unwrap().calls.push(call);
    }

    /// The calls since the last time.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().calls)
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Answers)) {
        change(&mut self.0.lock().unwrap());
    }
}

fn ms(at: Time) -> f64 {
    at.as_millis_f64()
}

impl Controller for Spy {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        let tag = {
            let mut answers = self.0.lock().unwrap();
            answers.sent += 1;
            answers.sent
        };
        self.told(format!("sent {} {}+{} flight {}", ms(sent.now), sent.seq, sent.bytes, sent.in_flight));
        Stamp::new(tag, 0)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let tags: Vec<u64> = ack.packets.iter().map(|packet| packet.tag).collect();
        let rtt = ack.rtt.map_or(-1.0, Nanos::as_millis_f64);
        let (flight, una, next) = (ack.in_flight, ack.una, ack.next);
        let mut told =
            format!("ack {} {tags:?} rtt {rtt} {}>{flight} una {una} next {next}", ms(ack.now), ack.prior_in_flight);
        if let Some(rate) = ack.rate {
            told += &format!(" rate {}/{}", rate.delivered, rate.interval.as_millis_f64());
        }
        if ack.phase != Phase::Open {
            told += &format!(" {:?}", ack.phase);
        }
        if ack.lost_bytes > 0 {
            told += &format!(" lost {}", ack.lost_bytes);
        }
        if ack.echo {
            told += &format!(" echo {}", ack.ce_bytes);
        }
        if ack.window_limited {
            told += " limited";
        }
        self.told(told);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        let tags: Vec<u64> = loss.packets.iter().map(|packet| packet.tag).collect();
        let new = if loss.new_episode { " new" } else { "" };
        self.told(format!(
            "loss {} {tags:?} {} {}>{}{new}",
            ms(loss.now),
            loss.bytes,
            loss.prior_in_flight,
            loss.in_flight
        ));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let Timeout { prior_in_flight, in_flight, count, .. } = timeout;
        self.told(format!("timeout {} #{count} {prior_in_flight}>{in_flight}", ms(timeout.now)));
    }

    fn on_spurious(&mut self, now: Time) {
        self.told(format!("spurious {}", ms(now)));
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.told(format!("restart {} after {}", ms(restart.now), restart.idle.as_millis_f64()));
    }

    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        self.told(format!("dry {} {in_flight}", ms(now)));
    }

    fn on_tick(&mut self, now: Time) {
        self.set(|answers| answers.tick = now + Nanos::from_millis(5));
        self.told(format!("tick {}", ms(now)));
    }

    fn nature(&self) -> Nature {
        let mut nature = Nature::PLAIN;
        nature.ecn = self.0.lock().unwrap().ecn;
        nature
    }

    fn permit(&self) -> Permit {
        let answers = self.0.lock().unwrap();
        let mut permit = Permit::up_to(answers.window);
        permit.pacing = answers.pacing;
        permit.next_tick = answers.tick;
        permit
    }

    fn describe(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}
