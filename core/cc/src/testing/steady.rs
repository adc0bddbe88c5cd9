//! A steady feed for measuring what an event costs: one packet acknowledged and one sent per step, an RTT that breathes
//! a little, now and then a loss. What the controller permits is read once a step. The feed allocates nothing, so that what is
//! measured is the controller.

use crate::controller::{
    Ack, Acked, Arrival, Cause, Controller, Loss, Lost, Permit, Phase, RateSample, ReceiverHalf, Sent,
};
use crate::units::{Nanos, Time};
use crate::{Env, Spec};

/// Packets in flight: 40 ms at one packet a millisecond (12 Mbit/s of full packets).
const FLIGHT: usize = 40;
/// Time between packets.
const GAP: Nanos = Nanos::from_millis(1);
/// One packet in this many is lost: windows come back to where they were, so that the cost stays that of a working point.
const LOSS_EVERY: u64 = 1000;
/// A packet in this many is marked CE, for controllers that use marks.
const MARK_EVERY: u64 = 100;

/// A controller, its receiver half where it has one, and the feed that drives them.
pub struct Steady {
    controller: Box<dyn Controller>,
    next_tick: Time,
    receiver: Option<Box<dyn ReceiverHalf>>,
    mss: u32,
    now: Time,
    flight: [(Time, u64, u64); FLIGHT],
    step: u64,
    blob: Vec<u8>,
}

impl Steady {
    /// Makes the controller of `spec` and fills the flight.
    pub fn new(spec: &Spec) -> Self {
        let env = Env::default();
        let controller = spec.build(&env);
        let mut feed = Self {
            next_tick: controller.next_tick(),
            controller,
            receiver: spec.build_receiver(&env),
            mss: env.mss,
            now: Time::ZERO,
            flight: [(Time::ZERO, 0, 0); FLIGHT],
            step: 0,
            blob: Vec::with_capacity(crate::MAX_FEEDBACK),
        };
        for index in 0..FLIGHT as u64 {
            feed.now += GAP;
            feed.send(index, index * u64::from(feed.mss));
        }
        feed
    }

    /// One packet's life: it arrives, is acknowledged (or, seldom, lost), and the next one leaves. Answers the window.
    pub fn step(&mut self) -> u64 {
        self.now += GAP;
        let mss = u64::from(self.mss);
        let packet = self.step;
        let seq = packet * mss;
        let (sent_at, tag, note) = self.flight[packet as usize % FLIGHT];
        self.step += 1;
        if self.next_tick <= self.now {
            self.controller.on_tick(self.now);
        }
        if packet % LOSS_EVERY == LOSS_EVERY - 1 {
            self.lose(Lost { seq, bytes: self.mss, sent_at, tag, cause: Cause::Unknown });
        } else {
            self.receive(seq, note);
            self.acknowledge(seq, sent_at, tag);
        }
        self.send(packet + FLIGHT as u64, seq + FLIGHT as u64 * mss);
        let Permit { window, next_tick, .. } = self.controller.permit();
        self.next_tick = next_tick;
        window
    }

    fn send(&mut self, packet: u64, seq: u64) {
        let stamp = self.controller.on_sent(&Sent {
            now: self.now,
            seq,
            bytes: self.mss,
            in_flight: FLIGHT as u64 * u64::from(self.mss),
            retransmission: false,
            app_limited: false,
            unsent: u64::MAX,
        });
        self.flight[packet as usize % FLIGHT] = (self.now, stamp.tag, stamp.note);
    }

    fn receive(&mut self, seq: u64, note: u64) {
        let Some(receiver) = &mut self.receiver else { return };
        receiver.on_arrival(&Arrival { now: self.now, seq, bytes: self.mss, note, ce: false });
        self.blob.clear();
        if receiver.feedback(self.now, &mut self.blob) {
            self.controller.on_feedback(self.now, &self.blob).expect("the receiver half's own blob");
        }
    }

    fn acknowledge(&mut self, seq: u64, sent_at: Time, tag: u64) {
        let mss = u64::from(self.mss);
        // The flight takes 40 ms; the RTT breathes by 2 ms over 64 packets.
        let swing = (self.step % 64).min(64 - self.step % 64);
        let rtt = (self.now - sent_at) + Nanos::from_micros(62).mul_div(swing, 1);
        let ce = self.step.is_multiple_of(MARK_EVERY);
        let delivered = self.step * mss;
        let acked = Acked {
            seq,
            bytes: self.mss,
            sent_at,
            tag,
            retransmitted: false,
            app_limited: false,
            ce,
            received_at: Some(self.now),
        };
        self.controller.on_ack(&Ack {
            now: self.now,
            packets: &[acked],
            bytes: mss,
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: GAP.mul_div(FLIGHT as u64, 1),
            rate: Some(RateSample {
                delivered: FLIGHT as u64 * mss,
                interval: rtt,
                prior_delivered: delivered.saturating_sub(FLIGHT as u64 * mss),
                app_limited: false,
                retransmission: false,
            }),
            prior_in_flight: FLIGHT as u64 * mss,
            in_flight: (FLIGHT as u64 - 1) * mss,
            lost_bytes: 0,
            ce_bytes: if ce { mss } else { 0 },
            ce_packets: u32::from(ce),
            echo: ce,
            delivered,
            una: seq + mss,
            next: seq + FLIGHT as u64 * mss,
            phase: Phase::Open,
            window_limited: true,
        });
    }

    fn lose(&mut self, lost: Lost) {
        let flight = FLIGHT as u64 * u64::from(self.mss);
        self.controller.on_loss(&Loss {
            now: self.now,
            packets: &[lost],
            bytes: u64::from(self.mss),
            prior_in_flight: flight,
            in_flight: flight - u64::from(self.mss),
            new_episode: true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::CONTROLLERS;

    #[test]
    fn every_controller_keeps_a_working_window() {
        for entry in CONTROLLERS {
            let spec: Spec = entry.name.parse().expect("the bare name parses");
            let mut feed = Steady::new(&spec);
            let windows: Vec<u64> = (0..20_000).map(|_| feed.step()).collect();
            let floor = u64::from(Env::default().mss);
            assert!(windows.iter().all(|window| *window >= floor), "{}", entry.name);
        }
    }

    #[test]
    fn a_departure_changes_no_permit_that_outlasts_it() {
        for entry in CONTROLLERS {
            let mut feed = Steady::new(&entry.name.parse().expect("the bare name parses"));
            for step in 0..5_000 {
                feed.step();
                let before = feed.controller.permit();
                feed.send(step + FLIGHT as u64, (step + FLIGHT as u64) * 1448);
                let after = feed.controller.permit();
                assert!(!before.outlasts_departures || after == before, "{}: {before:?}, {after:?}", entry.name);
            }
        }
    }

    #[test]
    fn losses_hold_reno_at_a_working_point() {
        let mut feed = Steady::new(&"reno".parse().expect("reno is registered"));
        let windows: Vec<u64> = (0..20_000).map(|_| feed.step() / 1448).collect();
        let late = &windows[10_000..];
        assert!(late.iter().max() > late.iter().min(), "it grows and halves");
        assert!(*late.iter().max().expect("not empty") < 200, "{:?}", late.iter().max());
    }
}
