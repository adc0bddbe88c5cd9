//! A controller that sees a flow otherwise than it is.

use paceline_cc::controller::{
    Ack, BadFeedback, Carrier, Loss, Lost, Nature, Permit, Remembered, Restart, Sent, Stamp, Telemetry, Timeout,
};
use paceline_cc::entry::Params;
use paceline_cc::registry::{Definition, register};
use paceline_cc::{Controller, Env, Nanos, Spec, Time};

/// What it sees.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tampering {
    /// Every flight fills its window: maxFS puts no bound on growth.
    Fills,
    /// The receiver's clock runs ahead by this many parts of a million.
    Drifts(f64),
    /// Reports name a packet that was acknowledged last, as if they had come with its acknowledgement.
    Carried,
}

struct Tampered {
    inner: Box<dyn Controller>,
    how: Tampering,
    newest: Option<Carrier>,
}

/// Registers the controller of `spec` under a name of its own.
pub(crate) fn tampered(spec: &str, how: Tampering) -> String {
    let name: String =
        format!("{how:?}-{spec}").chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let spec: Spec = spec.parse().unwrap();
    let make = move |_: &Params, env: &Env| -> Box<dyn Controller> {
        Box::new(Tampered { inner: spec.build(env), how, newest: None })
    };
    register(Definition::new(&name, make)).unwrap();
    name
}

impl Controller for Tampered {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        let mut sent = *sent;
        if matches!(self.how, Tampering::Fills) {
            sent.in_flight = sent.in_flight.max(self.inner.window());
        }
        self.inner.on_sent(&sent)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let newest = ack.packets.last();
        self.newest = newest.map(|packet| Carrier::new(packet.seq, packet.sent_at, packet.tag));
        let Tampering::Drifts(ppm) = self.how else { return self.inner.on_ack(ack) };
        let ahead = |at: Time| at + (at - Time::ZERO).mul_f64(ppm * 1e-6);
        let mut packets = ack.packets.to_vec();
        packets.iter_mut().for_each(|packet| packet.received_at = packet.received_at.map(ahead));
        let mut ack = *ack;
        ack.packets = &packets;
        self.inner.on_ack(&ack);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.inner.on_loss(loss);
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.inner.on_timeout(timeout);
    }

    fn on_spurious(&mut self, now: Time) {
        self.inner.on_spurious(now);
    }

    fn on_cause(&mut self, now: Time, packets: &[Lost]) {
        self.inner.on_cause(now, packets);
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.inner.on_restart(restart);
    }

    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        self.inner.on_app_limited(now, in_flight);
    }

    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        let mut telemetry = *telemetry;
        if matches!(self.how, Tampering::Carried) {
            telemetry.packet = self.newest;
        }
        self.inner.on_telemetry(&telemetry);
    }

    fn on_shared_rtt(&mut self, now: Time, min: Nanos) {
        self.inner.on_shared_rtt(now, min);
    }

    fn on_mss(&mut self, now: Time, mss: u32) {
        self.inner.on_mss(now, mss);
    }

    fn on_feedback(&mut self, now: Time, blob: &[u8]) -> Result<(), BadFeedback> {
        self.inner.on_feedback(now, blob)
    }

    fn on_tick(&mut self, now: Time) {
        self.inner.on_tick(now);
    }

    fn nature(&self) -> Nature {
        self.inner.nature()
    }

    fn permit(&self) -> Permit {
        self.inner.permit()
    }

    fn remember(&self, now: Time) -> Option<Remembered> {
        self.inner.remember(now)
    }

    fn window_set_at(&self) -> Option<String> {
        self.inner.window_set_at()
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.inner.describe(report);
    }
}
