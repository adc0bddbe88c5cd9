//! A controller that stands around another passes on every event and every answer: [`assert_passes_on`].

use std::sync::{Arc, Mutex, PoisonError};

use crate::controller::{
    Ack, Acked, BadFeedback, Carrier, Cause, Controller, Ecn, Loss, Lost, Nature, Pacing, Permit, Phase, Recovery,
    Remembered, Restart, Sent, Stamp, Telemetry, Timeout,
};
use crate::observe::{Event, Observed, Observer, Reply};
use crate::units::{Nanos, Rate, Time};

/// Unlike what most controllers are.
const NATURE: Nature = Nature { ecn: Ecn::L4s, heartbeat: Some(Nanos::from_millis(20)) };
/// Unlike what most controllers permit.
const PERMIT: Permit = Permit {
    window: 200_000,
    pacing: Pacing::Rate(Rate::from_bytes_per_sec(7_000_000)),
    next_tick: Time::from_millis(2),
    threshold: 100_000,
    recovery: Recovery::Controller,
    holds_against_marks: true,
    cruises: true,
    is_budget: true,
    outlasts_departures: true,
};
const REMEMBERED: Remembered =
    Remembered { window: 300_000, min_rtt: Nanos::from_millis(30), age: Nanos::from_millis(1) };
const SET_AT: &str = "there";
const STAMP: Stamp = Stamp { tag: 7, note: 9 };
const REFUSAL: BadFeedback = BadFeedback { len: 1, what: "it is refused" };
const BYTES: u32 = 1000;
const SIZE: u64 = 1000;

const SENT_AT: Time = Time::from_millis(10);
const NOW: Time = Time::from_millis(50);
const RTT: Nanos = Nanos::from_millis(40);

const SENT: Sent =
    Sent { now: SENT_AT, seq: 0, bytes: BYTES, in_flight: SIZE, retransmission: false, app_limited: false, unsent: 0 };
const LOST: &[Lost] = &[Lost { seq: 0, bytes: BYTES, sent_at: SENT_AT, tag: STAMP.tag, cause: Cause::Medium }];
const LOSS: Loss<'static> =
    Loss { now: NOW, packets: LOST, bytes: SIZE, prior_in_flight: SIZE, in_flight: SIZE, new_episode: true };
const TIMEOUT: Timeout<'static> = Timeout { now: NOW, packets: LOST, prior_in_flight: SIZE, in_flight: SIZE, count: 1 };
const TELEMETRY: Telemetry<'static> = Telemetry {
    now: NOW,
    packet: Some(Carrier { seq: 0, sent_at: SENT_AT, tag: STAMP.tag }),
    verdict: Cause::Medium,
    fresh_for: RTT,
    hops: &[],
};
const ACK: Ack<'static> = Ack {
    now: NOW,
    packets: &[Acked {
        seq: 0,
        bytes: BYTES,
        sent_at: SENT_AT,
        tag: STAMP.tag,
        retransmitted: false,
        app_limited: false,
        ce: false,
        received_at: None,
    }],
    bytes: SIZE,
    rtt: Some(RTT),
    srtt: RTT,
    min_rtt: RTT,
    rate: None,
    prior_in_flight: SIZE,
    in_flight: 0,
    lost_bytes: 0,
    ce_bytes: 0,
    ce_packets: 0,
    echo: false,
    delivered: SIZE,
    una: SIZE,
    next: SIZE,
    phase: Phase::Open,
    window_limited: true,
};
const RESTART: Restart = Restart { now: NOW, idle: RTT, rto: Nanos::from_millis(200) };

/// One event of each kind, in an order that a flow may have.
fn after(event: &Event<'_>) -> Option<Event<'static>> {
    let now = NOW;
    Some(match event {
        Event::Sent(..) => Event::Lost(&LOSS),
        Event::Lost(_) => Event::Cause { now, packets: LOST },
        Event::Cause { .. } => Event::Timeout(&TIMEOUT),
        Event::Timeout(_) => Event::Spurious(now),
        Event::Spurious(_) => Event::Telemetry(&TELEMETRY),
        Event::Telemetry(_) => Event::Feedback { now, blob: &[0], result: Err(REFUSAL) },
        Event::Feedback { .. } => Event::Acked(&ACK),
        Event::Acked(_) => Event::AppLimited { now, in_flight: 0 },
        Event::AppLimited { .. } => Event::Restart(&RESTART),
        Event::Restart(_) => Event::SharedRtt { now, min: RTT },
        Event::SharedRtt { .. } => Event::Mss { now, mss: BYTES - 1 },
        Event::Mss { .. } => Event::Tick(now),
        Event::Tick(_) => return None,
    })
}

/// Names of the events that came since they were last asked for.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<&'static str>>>);

impl Heard {
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Heard {
    fn on_event(&mut self, event: &Event<'_>, _controller: &dyn Controller) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.name());
    }
}

/// The controller inside, which answers the same whatever happens.
struct Inside;

impl Controller for Inside {
    fn on_sent(&mut self, _sent: &Sent) -> Stamp {
        STAMP
    }

    fn on_ack(&mut self, _ack: &Ack<'_>) {}

    fn on_loss(&mut self, _loss: &Loss<'_>) {}

    fn on_timeout(&mut self, _timeout: &Timeout<'_>) {}

    fn on_feedback(&mut self, _now: Time, _blob: &[u8]) -> Result<(), BadFeedback> {
        Err(REFUSAL)
    }

    fn nature(&self) -> Nature {
        NATURE
    }

    fn permit(&self) -> Permit {
        PERMIT
    }

    fn remember(&self, _now: Time) -> Option<Remembered> {
        Some(REMEMBERED)
    }

    fn window_set_at(&self) -> Option<String> {
        Some(SET_AT.to_owned())
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report(SET_AT, 1.0);
    }
}

/// Makes a controller around another with `wrap`, and sends it one event of each kind. It is made for packets of 1000 bytes.
///
/// # Panics
/// Where the one inside hears less or more than happened, or the one around it answers other than that: what it permits is to be what
/// `own` makes of what the one inside permits.
pub fn assert_passes_on(wrap: impl FnOnce(Box<dyn Controller>) -> Box<dyn Controller>, own: impl Fn(Permit) -> Permit) {
    let heard = Heard::default();
    let mut around = wrap(Observed::wrap(Box::new(Inside), Some(Box::new(heard.clone()))));
    assert_eq!(around.nature(), NATURE);
    let mut event = Event::Sent(&SENT, STAMP);
    loop {
        let reply = event.feed(around.as_mut());
        let expected = match event {
            Event::Sent(..) => Reply::Stamp(STAMP),
            Event::Feedback { .. } => Reply::Refused(true),
            _ => Reply::Nothing,
        };
        assert_eq!(reply, expected, "{}", event.name());
        assert_eq!(heard.take(), [event.name()], "what the controller inside hears of {}", event.name());
        assert_eq!(around.permit(), own(PERMIT), "after {}", event.name());
        let Some(next) = after(&event) else { break };
        event = next;
    }
    assert_eq!(around.remember(NOW), Some(REMEMBERED));
    assert_eq!(around.window_set_at().as_deref(), Some(SET_AT));
    let mut described = Vec::new();
    around.describe(&mut |name, value| described.push((name, value)));
    assert_eq!(described, [(SET_AT, 1.0)]);
}
