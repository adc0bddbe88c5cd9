//! Signs of life.

use std::time::{Duration, Instant};

use crate::bus::Bus;
use crate::key::PublisherRole;
use crate::message::{Health, MessageBody};
use crate::subject::MessageKind;
use crate::subscription::Subscription;

/// Between two signs of life. Our choice: what is silent for three of them is missing.
const EVERY: Duration = Duration::from_secs(1);

/// Publishes a sign of life each second in which it is asked to.
#[derive(Debug)]
pub struct Heart {
    role: PublisherRole,
    began: Instant,
    beat: Option<Instant>,
}

impl Heart {
    /// Of an end that begins now.
    pub fn new(role: PublisherRole) -> Self {
        Self { role, began: Instant::now(), beat: None }
    }

    /// Says what became of messages so far, if that is due. To be called several times a second.
    pub fn beat(&mut self, bus: &Bus, subscription: Option<&Subscription>, flows: usize) {
        if self.beat.is_some_and(|beat| beat.elapsed() < EVERY) {
            return;
        }
        self.beat = Some(Instant::now());
        let figures = bus.figures();
        let counts = subscription.map(Subscription::counts).unwrap_or_default();
        let health = Health {
            up_s: self.began.elapsed().as_secs(),
            flows: u32::try_from(flows).unwrap_or(u32::MAX),
            published: figures.published,
            dropped: figures.dropped + figures.expired + figures.slow + figures.oversize,
            taken: counts.taken,
            refused: counts.all_refused(),
            ..Health::default()
        };
        let host = bus.options().name.clone();
        bus.publish(MessageKind::Health { role: self.role, host }, &MessageBody::Health(health));
    }
}
