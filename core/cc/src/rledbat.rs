//! rLEDBAT: LEDBAT++ at the receiver, above any controller of the sender (RFC 9840). The receiver runs it on what arrives and
//! advertises a window; the sender keeps its own control, so that the flow has the smaller of the two. This file is the sender;
//! `receiver.rs` is the other half. A receiver of named content needs neither: `ledbat++@icn` runs where data goes.
//!
//! What differs from the RFC, because there is feedback in place of TCP's header:
//! - What is advertised is a position, the right edge of the window, in bytes: no scale, and an acknowledgement that is lost or late takes
//!   nothing back.
//! - The time stamp that the receiver measures its round trips by comes back as the note of the packets, to the nanosecond.
//! - Datagrams are not sent again: three packets behind a hole are a loss as well as a retransmission is.
//! - The receiver decides at each packet. What it takes back is paid by what arrives, so that it waits for nothing (section 4.1.1 has it
//!   wait for a round trip after a reduction is paid).

use crate::controller::{
    Ack, BadFeedback, Controller, Env, Loss, Lost, Nature, Permit, ReceiverHalf, Remembered, Restart, Sent, Stamp,
    Telemetry, Timeout,
};
use crate::entry::{Entry, Home, Kind, Param, Params};
use crate::ledbat::TARGET;
use crate::registry::Spec;
use crate::units::{Nanos, Time};

mod receiver;
#[cfg(test)]
mod tests;

/// First window in packets, known to both ends before anything is advertised: LEDBAT's initial one (RFC 6817 section 2.5).
const FIRST_PACKETS: u64 = 2;

/// What the receiver advertises: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Advertised {
    /// Position up to which the sender may send.
    edge: u64,
    /// The receiver's clock as it left.
    stamp: u64,
}

impl Advertised {
    fn write(self, blob: &mut Vec<u8>) {
        blob.extend(self.edge.to_le_bytes());
        blob.extend(self.stamp.to_le_bytes());
    }

    fn read(blob: &[u8]) -> Result<Self, BadFeedback> {
        let bad = BadFeedback { len: blob.len(), what: "it is not of 16 bytes" };
        let both = u128::from_le_bytes(blob.try_into().map_err(|_| bad)?);
        Ok(Self { edge: both as u64, stamp: (both >> 64) as u64 })
    }
}

/// The sending half. See the [module](self).
struct Rledbat {
    inner: Box<dyn Controller>,
    mss: u64,
    /// Position up to which it may send; not known before the first packet says where the flow begins.
    edge: Option<u64>,
    /// The newest stamp of the receiver.
    stamp: u64,
    next: u64,
    in_flight: u64,
}

impl Rledbat {
    fn new(inner: Box<dyn Controller>, mss: u32) -> Self {
        Self { inner, mss: u64::from(mss.max(1)), edge: None, stamp: 0, next: 0, in_flight: 0 }
    }

    /// Bytes in flight that reach the edge. A packet may always leave, as a probe of a window that is closed.
    fn advertised(&self) -> u64 {
        let first = FIRST_PACKETS * self.mss;
        let window = self.edge.map_or(first, |edge| self.in_flight.saturating_add(edge.saturating_sub(self.next)));
        window.max(self.mss)
    }
}

impl Controller for Rledbat {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        let end = sent.seq.saturating_add(u64::from(sent.bytes));
        self.edge.get_or_insert(sent.seq.saturating_add(FIRST_PACKETS * self.mss));
        self.next = self.next.max(end);
        self.in_flight = sent.in_flight;
        Stamp { note: self.stamp, ..self.inner.on_sent(sent) }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        // Where the receiver's window limits the flow, the sender's own does not.
        let own = self.inner.window() <= self.advertised();
        self.inner.on_ack(&Ack { window_limited: ack.window_limited && own, ..*ack });
        self.in_flight = ack.in_flight;
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.in_flight = loss.in_flight;
        self.inner.on_loss(loss);
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.in_flight = timeout.in_flight;
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
        self.in_flight = in_flight;
        self.inner.on_app_limited(now, in_flight);
    }

    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        self.inner.on_telemetry(telemetry);
    }

    fn on_shared_rtt(&mut self, now: Time, min: Nanos) {
        self.inner.on_shared_rtt(now, min);
    }

    fn on_mss(&mut self, now: Time, mss: u32) {
        self.mss = u64::from(mss.max(1));
        self.inner.on_mss(now, mss);
    }

    fn on_feedback(&mut self, _now: Time, blob: &[u8]) -> Result<(), BadFeedback> {
        let Advertised { edge, stamp } = Advertised::read(blob)?;
        // An older one comes late; an edge never moves left.
        self.edge = Some(self.edge.map_or(edge, |before| before.max(edge)));
        self.stamp = self.stamp.max(stamp);
        Ok(())
    }

    fn on_tick(&mut self, now: Time) {
        self.inner.on_tick(now);
    }

    fn nature(&self) -> Nature {
        self.inner.nature()
    }

    fn permit(&self) -> Permit {
        let own = self.inner.permit();
        // The edge stands while packets leave, and the window with it.
        Permit { window: own.window.min(self.advertised()), ..own }
    }

    fn remember(&self, now: Time) -> Option<Remembered> {
        self.inner.remember(now)
    }

    fn window_set_at(&self) -> Option<String> {
        self.inner.window_set_at()
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.inner.describe(report);
        report("advertised_packets", self.advertised() as f64 / self.mss as f64);
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let inner: Spec = params.word("over").parse().expect("its kind lists controllers of the registry");
    Box::new(Rledbat::new(inner.build(env), env.mss))
}

fn make_receiver(params: &Params, env: &Env) -> Box<dyn ReceiverHalf> {
    Box::new(receiver::Receiver::new(env, params.number("target")))
}

/// `rledbat` in the registry.
pub const ENTRY: Entry = Entry {
    name: "rledbat",
    summary: "rLEDBAT: LEDBAT++ at the receiver, by the window that it advertises to a sender that runs `over`",
    source: "RFC 9840",
    statements: crate::statements::RLEDBAT,
    home: Home::Udp,
    start: None,
    params: &[
        Param { default: "60", source: "draft-irtf-iccrg-ledbat-plus-plus-06 section 4", ..TARGET },
        Param {
            name: "over",
            unit: "the sender's own controller",
            kind: Kind::Choice(&["cubic", "reno", "bbr", "bbr3"]),
            default: "cubic",
            source: "RFC 9840 section 4: whatever the sender has; our choice, because it is what most have",
        },
    ],
    needs: &[],
    make: &make,
    receiver: Some(&make_receiver),
    lower: None,
};
