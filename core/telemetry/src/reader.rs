//! A flow's reports at its sender: which are believed, for how long, and what they say.

use paceline_cc::{Cause, Hop, Nanos, Telemetry, Time};

use crate::report::{FlowReport, MalformedReport};

/// The longest that a report counts (our choice: never so long that a person notices).
pub const LONGEST: Nanos = Nanos::from_millis(500);
/// Fresh reports in a row before a verdict counts (our choice: one may be the tail of a stream that ended).
pub const STREAK: u32 = 3;
/// A flow that waits for its retransmission timer delivers nothing, and nothing is reported of it: what was said before counts until
/// the timer fires. Linux TCP_RTO_MIN, include/net/tcp.h.
pub const TIMEOUT: Nanos = Nanos::from_millis(200);
/// Interval of a sink's reports before it has been measured ([`crate::sink::INTERVAL`]).
const INTERVAL: Nanos = crate::sink::INTERVAL;

/// What a controller in the kernel reads of the newest report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathRecord {
    /// Number of the report.
    pub rseq: u64,
    /// When it came, by the sender's clock.
    pub at: Time,
    /// For how long from then on it counts.
    pub fresh_for: Nanos,
    /// Why packets of the last round trip were lost; unknown before [`STREAK`] fresh reports.
    pub verdict: Cause,
    /// Packets for which the bottleneck's queue has room.
    pub avail_pkts: Option<u32>,
    /// Packets that it holds.
    pub limit_pkts: Option<u32>,
    /// Packets a second that come there.
    pub rate_pps: Option<u32>,
    /// Flows there.
    pub flows: Option<u32>,
    /// Lost packets of a million, smoothed over some reports.
    pub loss_ppm: u32,
    /// How long its full queue takes to drain.
    pub drain: Option<Nanos>,
    /// Fresh reports in a row, this one included.
    pub reports: u32,
}

/// Why a report is not believed.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Not newer than the newest: sent again, or overtaken on the way.
    #[error("report {rseq} is not newer than {newest}")]
    Old {
        /// Its number.
        rseq: u64,
        /// The newest number.
        newest: u64,
    },
    /// It says what cannot be.
    #[error(transparent)]
    Wrong(#[from] MalformedReport),
}

/// One flow's reports.
#[derive(Clone, Debug)]
pub struct ReportReader {
    newest: Option<PathRecord>,
    /// Mean time between reports.
    interval: Nanos,
    /// The newest losses that a report gave a reason for, and when.
    losses: Option<(Time, Cause)>,
    /// How long congestion, or a policer, is the answer whatever else was lost: a round trip and two intervals.
    horizon: Nanos,
    /// Packets that were due and that were lost, each report counting for an eighth less than the one after it.
    due: f64,
    lost: f64,
    hops: Vec<Hop>,
}

impl Default for ReportReader {
    fn default() -> Self {
        Self::new()
    }
}

impl ReportReader {
    /// Of a flow that has not had a report yet.
    pub fn new() -> Self {
        let (interval, horizon) = (INTERVAL, INTERVAL);
        Self { newest: None, interval, losses: None, horizon, due: 0.0, lost: 0.0, hops: Vec::new() }
    }

    /// Takes a report that came at `now`; `srtt` is the flow's smoothed RTT.
    ///
    /// # Errors
    /// [`Refused`] when it is not believed; nothing changes then.
    pub fn take(&mut self, now: Time, report: &FlowReport, srtt: Nanos) -> Result<PathRecord, Refused> {
        report.check()?;
        if let Some(PathRecord { rseq: newest, .. }) = self.newest
            && report.rseq <= newest
        {
            return Err(Refused::Old { rseq: report.rseq, newest });
        }
        let streak = if self.is_fresh(now) { self.newest.map_or(0, |newest| newest.reports) } else { 0 };
        if let Some(newest) = self.newest.filter(|_| streak > 0) {
            // An eighth of the newest, as RFC 6298 smooths.
            self.interval = self.interval.mul_div(7, 8) + now.since(newest.at).mul_div(1, 8);
        } else {
            (self.interval, self.losses, self.due, self.lost) = (INTERVAL, None, 0.0, 0.0);
        }
        self.horizon = srtt + self.interval.mul_div(2, 1);
        self.note(now, report);
        self.due = self.due * 0.875 + f64::from(report.exp);
        self.lost = self.lost * 0.875 + f64::from(report.lost());
        self.hops.clear();
        self.hops.extend(report.hops.iter().map(crate::report::HopReport::hop));
        let bottleneck = report.bottleneck();
        let fresh_for = (self.interval.mul_div(3, 1) + srtt.mul_div(2, 1) + TIMEOUT).min(LONGEST);
        let mut record = PathRecord {
            rseq: report.rseq,
            at: now,
            fresh_for,
            verdict: Cause::Unknown,
            avail_pkts: bottleneck.and_then(|hop| hop.avail_pkts),
            limit_pkts: bottleneck.and_then(|hop| hop.limit_pkts),
            rate_pps: bottleneck.and_then(|hop| hop.rate_pps),
            flows: bottleneck.and_then(|hop| hop.flows),
            loss_ppm: if self.due > 0.0 { (self.lost / self.due * 1e6) as u32 } else { 0 },
            drain: bottleneck.and_then(crate::report::HopReport::drain),
            reports: streak.saturating_add(1),
        };
        self.newest = Some(record);
        record.verdict = self.verdict(now);
        self.newest = Some(record);
        Ok(record)
    }

    /// Congestion, or a policer, stays the answer for a round trip, whatever else was lost in it.
    fn note(&mut self, now: Time, report: &FlowReport) {
        let stays =
            matches!(self.losses, Some((at, Cause::Congestion | Cause::Policer)) if now.since(at) <= self.horizon);
        match report.verdict {
            Cause::Congestion | Cause::Policer => self.losses = Some((now, report.verdict)),
            Cause::Unknown if report.lost_u == 0 => {}
            verdict if !stays => self.losses = Some((now, verdict)),
            _ => {}
        }
    }

    /// Why the packets were lost that the sender misses at `now`: from the reports of the last round trip, two intervals and a
    /// [`TIMEOUT`]. Unknown when these are stale, gave no reason, or are fewer than [`STREAK`] in a row.
    pub fn verdict(&self, now: Time) -> Cause {
        let counts = self.is_fresh(now) && self.newest.is_some_and(|newest| newest.reports >= STREAK);
        match self.losses {
            Some((at, cause)) if counts && now.since(at) <= self.horizon + TIMEOUT => cause,
            _ => Cause::Unknown,
        }
    }

    /// Whether there is a report, and it still counts.
    pub fn is_fresh(&self, now: Time) -> bool {
        self.newest.is_some_and(|newest| now.since(newest.at) < newest.fresh_for)
    }

    /// The newest report, as a controller in the kernel reads it.
    pub fn record(&self) -> Option<PathRecord> {
        self.newest
    }

    /// The hops as the newest report has them, first hop first; old ones when it is not fresh.
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// What [`paceline_cc::Controller::on_telemetry`] takes, after a report was taken; `None` when none is fresh.
    pub fn telemetry(&self, now: Time) -> Option<Telemetry<'_>> {
        let newest = self.newest.filter(|_| self.is_fresh(now))?;
        let fresh_for = newest.fresh_for - now.since(newest.at);
        Some(Telemetry::new(now, self.verdict(now), fresh_for, &self.hops))
    }
}

#[cfg(test)]
mod tests;
