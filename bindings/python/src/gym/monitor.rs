//! What a controller may see of a step, as numbers of bounded size.

use paceline_cc::{Ack, Nanos, Time};

/// What is observed, with the bounds of each number.
pub(crate) const OBSERVATION: [(&str, f32, f32); 9] = [
    // Mean RTT over the smallest so far, less 1.
    ("rtt", 0.0, 10.0),
    // Change of the mean RTT since the step before, over the length of the step.
    ("rtt_gradient", -1.0, 1.0),
    // Delivered over the most that was delivered in a step so far, by rate.
    ("throughput", 0.0, 1.0),
    // log10 of delivered Mbit/s.
    ("throughput_log", -3.0, 5.0),
    // Lost over lost and delivered.
    ("loss", 0.0, 1.0),
    // Marked over delivered.
    ("marks", 0.0, 1.0),
    // Sent over delivered.
    ("sent", 0.0, 4.0),
    // log2 of the window over the product of the most throughput and the smallest RTT.
    ("window", -8.0, 8.0),
    // In flight over the window.
    ("in_flight", 0.0, 2.0),
];

/// What a step was, for rewards and plots.
pub(crate) const FIGURES: [&str; 7] =
    ["time_s", "throughput_mbps", "rtt_ms", "queue_ms", "loss", "window_packets", "capacity_mbps"];

/// A step's figures, before what only the world knows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    pub(crate) throughput_mbps: f64,
    pub(crate) rtt_ms: f64,
    /// Mean RTT less the smallest so far.
    pub(crate) queue_ms: f64,
    /// The same over the smallest.
    pub(crate) inflation: f64,
    pub(crate) loss: f64,
}

/// Gathers what happens in a step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Monitor {
    began: Time,
    sent: u64,
    delivered: u64,
    lost: u64,
    marked: u64,
    rtt_sum: f64,
    rtts: u32,
    in_flight: u64,
    /// Smoothed RTT; zero before the first sample.
    pub(crate) srtt: Nanos,
    min_rtt_ms: Option<f64>,
    /// Of the newest step that had samples.
    rtt_ms: f64,
    most_mbps: f64,
}

impl Monitor {
    /// A packet left.
    pub(crate) fn sent(&mut self, bytes: u32) {
        self.sent += u64::from(bytes);
    }

    /// Something was delivered.
    pub(crate) fn acked(&mut self, ack: &Ack<'_>) {
        self.delivered += ack.bytes;
        self.marked += ack.ce_bytes;
        self.in_flight = ack.in_flight;
        self.srtt = ack.srtt;
        if let Some(rtt) = ack.rtt {
            self.rtt_sum += rtt.as_millis_f64();
            self.rtts += 1;
            self.min_rtt_ms = Some(self.min_rtt_ms.unwrap_or(f64::INFINITY).min(rtt.as_millis_f64()));
        }
    }

    /// Packets were lost.
    pub(crate) fn lost(&mut self, bytes: u64, in_flight: u64) {
        self.lost += bytes;
        self.in_flight = in_flight;
    }

    /// Ends a step, with this window.
    pub(crate) fn end(&mut self, now: Time, window: f64) -> ([f32; OBSERVATION.len()], Step) {
        let span = (now - self.began).as_secs_f64().max(1e-9);
        let mbps = self.delivered as f64 * 8e-6 / span;
        self.most_mbps = self.most_mbps.max(mbps);
        let before = self.rtt_ms;
        if self.rtts > 0 {
            self.rtt_ms = self.rtt_sum / f64::from(self.rtts);
        }
        let min = self.min_rtt_ms.unwrap_or(self.rtt_ms);
        let inflation = if min > 0.0 { self.rtt_ms / min - 1.0 } else { 0.0 };
        let gradient = if before > 0.0 { (self.rtt_ms - before) / (span * 1e3) } else { 0.0 };
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let loss = share(self.lost as f64, (self.lost + self.delivered) as f64);
        let product = self.most_mbps * min * 125.0;
        let raw = [
            inflation,
            gradient,
            share(mbps, self.most_mbps),
            if mbps > 0.0 { mbps.log10() } else { -3.0 },
            loss,
            share(self.marked as f64, self.delivered as f64),
            share(self.sent as f64, self.delivered as f64),
            if product > 0.0 { (window / product).log2() } else { 0.0 },
            share(self.in_flight as f64, window),
        ];
        let mut seen = [0.0; OBSERVATION.len()];
        for ((seen, raw), (_, low, high)) in seen.iter_mut().zip(raw).zip(OBSERVATION) {
            *seen = (raw as f32).clamp(low, high);
        }
        (self.began, self.sent, self.delivered, self.lost, self.marked) = (now, 0, 0, 0, 0);
        (self.rtt_sum, self.rtts) = (0.0, 0);
        let queue_ms = (self.rtt_ms - min).max(0.0);
        (seen, Step { throughput_mbps: mbps, rtt_ms: self.rtt_ms, queue_ms, inflation, loss })
    }
}
