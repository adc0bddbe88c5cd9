//! What a controller may see of a step, as numbers of bounded size.

use paceline_cc::{Ack, Nanos, Time};

/// What is observed, with the bounds of each number, and what it is.
pub(crate) const OBSERVATION: [(&str, f32, f32, &str); 9] = [
    ("rtt", 0.0, 10.0, "mean RTT of the step over the smallest so far, less 1; of the newest step with samples"),
    ("rtt_gradient", -1.0, 1.0, "change of the mean RTT since the step before, over the length of the step, s/s"),
    ("throughput", 0.0, 1.0, "payload rate delivered in the step, over the largest of a step so far"),
    ("throughput_log", -3.0, 5.0, "log10 of the payload rate delivered in the step in Mbit/s; -3 for nothing"),
    ("loss", 0.0, 1.0, "payload bytes declared lost over those lost and delivered, in the step"),
    ("marks", 0.0, 1.0, "payload bytes delivered with a CE mark over those delivered, in the step"),
    ("sent", 0.0, 4.0, "payload bytes sent over those delivered, in the step; 0 where none was delivered"),
    ("window", -8.0, 8.0, "log2 of the window over the largest payload rate of a step so far times the smallest RTT"),
    ("in_flight", 0.0, 2.0, "payload bytes in flight at the last acknowledgement or loss, over the window"),
];

/// What a step was, for rewards and plots, and what each is.
pub(crate) const FIGURES: [(&str, &str); 7] = [
    ("time_s", "end of the step since the start of the run, s"),
    ("throughput_mbps", "payload delivered in the step, over its length, Mbit/s"),
    ("rtt_ms", "mean RTT of the step, ms; of the newest step with samples"),
    ("queue_ms", "the same less the smallest RTT so far, ms"),
    ("loss", "payload bytes declared lost over those lost and delivered, in the step"),
    ("window_packets", "window, packets"),
    (
        "capacity_mbps",
        "what the link could have carried in the step, headers included, Mbit/s; NaN where nothing limits it",
    ),
];

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
        for ((seen, raw), (_, low, high, _)) in seen.iter_mut().zip(raw).zip(OBSERVATION) {
            *seen = (raw as f32).clamp(low, high);
        }
        (self.began, self.sent, self.delivered, self.lost, self.marked) = (now, 0, 0, 0, 0);
        (self.rtt_sum, self.rtts) = (0.0, 0);
        let queue_ms = (self.rtt_ms - min).max(0.0);
        (seen, Step { throughput_mbps: mbps, rtt_ms: self.rtt_ms, queue_ms, inflation, loss })
    }
}
