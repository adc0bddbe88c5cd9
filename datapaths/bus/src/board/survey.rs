//! Of each path that is reported: which hops report, which are silent, what they do not say, what headers take, and which clocks differ.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv6Addr;

use paceline_telemetry::{FlowReport, HopReport, RecordProfile};
use serde::Serialize;

use super::{Board, ENDS_MAX};

/// Clocks that differ by no more, in microseconds, do not: it is what a message takes (our choice).
const ALIKE: i64 = 10_000;
/// Hop limits that senders begin with: of Linux, of some routers, and where RFC 5082 is in use.
const BEGINNINGS: [u8; 3] = [64, 128, 255];
/// The smallest delays of so many nanoseconds are compared for the drift of two clocks (our choice: long enough for a queue to run empty).
const SPAN: u64 = 10_000_000_000;

/// What is known of paths and clocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PathSurvey {
    /// By sink and path.
    pub paths: Vec<SurveyedPath>,
    /// By publisher: how many microseconds its clock is behind that of this machine, messages included.
    pub behind_us: BTreeMap<String, i64>,
}

/// A path of flows to a sink.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SurveyedPath {
    /// The sink.
    pub sink: String,
    /// The nodes, first hop first; `?` for one that has not reported itself.
    pub path: String,
    /// Flows over it.
    pub flows: usize,
    /// Its hops, first hop first.
    pub hops: Vec<SurveyedHop>,
    /// Routers between the last hop and the sink that write nothing; `None`: not known.
    pub silent_behind: Option<u8>,
    /// The clocks of each sender and the sink.
    pub clocks: BTreeMap<Ipv6Addr, SurveyedClocks>,
    /// Octets of a header with room for so many hops, by profile.
    pub header_octets: BTreeMap<&'static str, usize>,
}

/// A hop of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SurveyedHop {
    /// Its node's number.
    pub node: u32,
    /// Its node reports its queues itself.
    pub reports: bool,
    /// Routers in front of it that write nothing: as the hop limits say; `None`: not known.
    pub silent_before: Option<u8>,
    /// What neither a packet nor a report says of it.
    pub missing: Vec<&'static str>,
}

/// The clocks of a sender and a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SurveyedClocks {
    /// They are one, as the sink was told; `None`: nothing came lately.
    pub synced: Option<bool>,
    /// How far the sink's is ahead, in microseconds modulo 2^32; the smallest delay is part of it.
    pub ahead_us: Option<i32>,
    /// By how many microseconds a second it gains; `None`: not known before 20 s.
    pub drift_ppm: Option<f64>,
}

/// Two clocks as reports show them: the smallest difference of a span.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// By the sink's clock, in nanoseconds.
    begins: u64,
    ahead_us: i32,
}

/// Spans of a sender and a sink.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drift {
    first: Span,
    /// The newest that is over, and the one that is not.
    last: Option<Span>,
    running: Span,
}

impl Drift {
    fn of(report: &FlowReport) -> Option<Self> {
        let span = Span { begins: report.t_sink_ns, ahead_us: report.ahead_us? };
        Some(Self { first: span, last: None, running: span })
    }

    fn take(&mut self, report: &FlowReport) {
        let Some(ahead_us) = report.ahead_us else { return };
        let Some(since) = report.t_sink_ns.checked_sub(self.running.begins) else { return };
        if since >= SPAN {
            if self.last.is_none() {
                self.first = self.running;
            }
            self.last = Some(self.running);
            self.running = Span { begins: report.t_sink_ns, ahead_us };
        } else if ahead_us.wrapping_sub(self.running.ahead_us) < 0 {
            self.running.ahead_us = ahead_us;
        }
    }

    fn ppm(&self) -> Option<f64> {
        let last = self.last.filter(|last| last.begins > self.first.begins)?;
        let gained = last.ahead_us.wrapping_sub(self.first.ahead_us);
        Some(f64::from(gained) * 1e9 / (last.begins - self.first.begins) as f64)
    }
}

fn missing(hop: &HopReport) -> Vec<&'static str> {
    let known = [
        ("room", hop.avail_pkts.is_some()),
        ("limit", hop.limit_pkts.is_some()),
        ("arrivals", hop.rate_pps.is_some()),
        ("flows", hop.flows.is_some()),
        ("rate of the link", hop.rate_100k.is_some()),
    ];
    known.into_iter().filter(|(_, known)| !known).map(|(what, _)| what).collect()
}

impl Board {
    /// A report may say how clocks differ.
    pub(super) fn compare(&mut self, report: &FlowReport, publisher: &str) {
        let ends = (report.tuple.src, publisher.to_owned());
        if let Some(drift) = self.drifts.get_mut(&ends) {
            drift.take(report);
        } else if self.drifts.len() < ENDS_MAX {
            self.drifts.extend(Drift::of(report).map(|drift| (ends, drift)));
        }
    }

    /// What is known at the moment, of flows to one address or of all.
    pub fn survey(&self, to: Option<Ipv6Addr>) -> PathSurvey {
        let mut paths: BTreeMap<(&str, &str), SurveyedPath> = BTreeMap::new();
        for flow in self.flows.values().filter(|flow| to.is_none_or(|to| flow.report.tuple.dst == to)) {
            let (report, drift) = (&flow.report, self.drifts.get(&(flow.report.tuple.src, flow.publisher.clone())));
            let path = paths.entry((&flow.publisher, &flow.path)).or_insert_with(|| SurveyedPath {
                sink: flow.publisher.clone(),
                path: flow.path.clone(),
                flows: 0,
                hops: self.surveyed(report),
                silent_behind: report.hl.zip(report.hops.last().and_then(|hop| hop.hl)).and_then(silent_behind),
                clocks: BTreeMap::new(),
                header_octets: RecordProfile::ALL
                    .map(|profile| (profile.name(), profile.header_octets(report.hops.len().min(15) as u8)))
                    .into(),
            });
            path.flows += 1;
            let clocks = path.clocks.entry(report.tuple.src).or_default();
            clocks.synced = clocks.synced.or(report.lat_us.map(|latency| latency.synced));
            clocks.ahead_us = [clocks.ahead_us, report.ahead_us].into_iter().flatten().min();
            clocks.drift_ppm = drift.and_then(Drift::ppm);
        }
        PathSurvey { paths: paths.into_values().collect(), behind_us: self.behind_us.clone() }
    }

    fn surveyed(&self, report: &FlowReport) -> Vec<SurveyedHop> {
        let mut before = None;
        let hop = |hop: &HopReport| {
            let queue = self.queues.get(&super::key_of(hop));
            let newest = queue.map_or(hop, |queue| &queue.newest);
            let silent_before = hop.hl.map(|own| silent_before(before, own));
            before = hop.hl;
            SurveyedHop { node: hop.node, reports: queue.is_some(), silent_before, missing: missing(newest) }
        };
        report.hops.iter().map(hop).collect()
    }
}

/// Routers that have lowered the hop limit in front of one from which a packet went with `own`. A hop that is not a router, such as a bridge or
/// the sender, lowers nothing.
fn silent_before(before: Option<u8>, own: u8) -> u8 {
    let begun = before.or_else(|| BEGINNINGS.into_iter().find(|begun| *begun >= own)).unwrap_or(own);
    begun.saturating_sub(own).saturating_sub(1)
}

fn silent_behind((came, left): (u8, u8)) -> Option<u8> {
    left.checked_sub(came)
}

fn millis(us: i64) -> f64 {
    us.unsigned_abs() as f64 / 1e3
}

impl fmt::Display for SurveyedClocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ahead = self.ahead_us.map(i64::from);
        match (self.synced, ahead) {
            (Some(true), Some(ahead @ ..0)) => write!(
                f,
                "delays are negative: the sink's clock is {:.3} ms and more behind the sender's, against what --synced says",
                millis(ahead)
            ),
            (Some(true), Some(ahead)) => write!(f, "one clock, smallest delay {:.3} ms", millis(ahead)),
            (Some(false), Some(ahead)) => {
                let which = if ahead < 0 { "behind" } else { "ahead of" };
                write!(
                    f,
                    "the sink's clock is {:.3} ms {which} the sender's, delay included, modulo 71.6 min",
                    millis(ahead)
                )
            }
            _ => write!(f, "the clocks are not known"),
        }?;
        match self.drift_ppm {
            Some(ppm) => write!(f, "; it gains {ppm:.1} us a second"),
            None if ahead.is_some() => write!(f, "; drift is known after 20 s"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for PathSurvey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.paths.is_empty() {
            writeln!(
                f,
                "no path is reported: no flow has headers, or its sink is on another bus (paceline int watch --ends)"
            )?;
        }
        let silent = |count: Option<u8>| match count {
            None | Some(0) => String::new(),
            Some(1) => "  1 router that writes nothing: without telemetry, or without room in the header\n".to_owned(),
            Some(count) => {
                format!("  {count} routers that write nothing: without telemetry, or without room in the header\n")
            }
        };
        for path in &self.paths {
            let plural = if path.flows == 1 { "" } else { "s" };
            writeln!(f, "{} to {}: {} flow{plural}", path.path, path.sink, path.flows)?;
            for hop in &path.hops {
                let reports = if hop.reports { "reports" } else { "writes into packets and does not report" };
                let missing = match hop.missing.as_slice() {
                    [] => String::new(),
                    missing => format!("; not known: {}", missing.join(", ")),
                };
                writeln!(f, "{}  hop {} {reports}{missing}", silent(hop.silent_before), hop.node)?;
            }
            write!(f, "{}", silent(path.silent_behind))?;
            for (sender, clocks) in &path.clocks {
                writeln!(f, "  from {sender}: {clocks}")?;
            }
            let octets = path.header_octets.iter().map(|(name, octets)| format!("{name} {octets}"));
            writeln!(f, "  octets of a header for these hops: {}", octets.collect::<Vec<_>>().join(", "))?;
        }
        for (publisher, behind) in self.behind_us.iter().filter(|(_, behind)| behind.abs() > ALIKE) {
            let which = if *behind > 0 { "behind" } else { "ahead of" };
            writeln!(f, "the clock of {publisher} is {:.0} ms {which} this machine's", millis(*behind))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    use paceline_telemetry::{Latency, NodeReport, Tuple};

    use super::*;
    use crate::message::{BusMessage, MessageBody, flow_number};
    use crate::subject::{BusSubject, MessageKind};

    fn message(publisher: &str, body: MessageBody) -> BusMessage {
        let kind = match &body {
            MessageBody::Node(report) => MessageKind::Node(report.node),
            MessageBody::Flow(report) => MessageKind::Flow(flow_number(&report.tuple)),
            _ => MessageKind::Control("a".to_owned()),
        };
        let subject = BusSubject { domain: "lab".to_owned(), kind };
        let number = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - Duration::from_millis(300);
        BusMessage { subject, publisher: publisher.to_owned(), number: number.as_micros() as u64, body }
    }

    fn flow(sport: u16, ahead_us: i32, synced: bool) -> FlowReport {
        let known = HopReport { node: 1, hl: Some(63), avail_pkts: Some(4), ..HopReport::default() };
        FlowReport {
            tuple: Tuple { sport, ..Tuple::default() },
            lat_us: Some(Latency { synced, ..Latency::default() }),
            ahead_us: Some(ahead_us),
            hl: Some(57),
            hops: vec![
                HopReport { eg: Some(1), limit_pkts: Some(60), rate_pps: Some(9), flows: Some(1), ..known },
                HopReport { node: 7, hl: Some(60), ..known },
            ],
            ..FlowReport::default()
        }
    }

    #[test]
    fn who_reports_and_who_is_silent_is_said() {
        let (mut board, now) = (Board::default(), Instant::now());
        assert!(board.survey(None).to_string().contains("no path is reported"));
        let report = NodeReport { node: 1, hops: vec![flow(1, 0, true).hops[0]], ..NodeReport::default() };
        board.take(&message("ap1", MessageBody::Node(report)), now);
        board.take(&message("sta2", MessageBody::Flow(flow(1, 250, true))), now);
        board.take(&message("sta2", MessageBody::Flow(flow(2, 300, true))), now);
        let survey = board.survey(None);
        let text = survey.to_string();
        let lines = [
            "1>? to sta2: 2 flows",
            "  hop 1 reports; not known: rate of the link",
            "  2 routers that write nothing: without telemetry, or without room in the header",
            "  hop 7 writes into packets and does not report; not known: limit, arrivals, flows, rate of the link",
            "  3 routers that write nothing: without telemetry, or without room in the header",
            "  from ::: one clock, smallest delay 0.250 ms; drift is known after 20 s",
            "  octets of a header for these hops: counted 72, full 120, lean 64, timed 80, word 40",
        ];
        assert_eq!(text.lines().take(lines.len()).collect::<Vec<_>>(), lines);
        assert!(text.contains("the clock of ap1 is ") && text.contains(" ms behind this machine's"), "{text}");
        let behind = survey.behind_us["sta2"];
        assert!((300_000..60_000_000).contains(&behind), "{behind}");
        assert_eq!(board.survey(Some(Ipv6Addr::UNSPECIFIED)).paths, survey.paths);
        assert!(board.survey(Some(Ipv6Addr::LOCALHOST)).paths.is_empty());
    }

    #[test]
    fn routers_in_front_of_a_hop_are_counted_from_the_hop_limits() {
        // At the sender, at the first router, behind two more; of a bridge behind a router; 254 of 255.
        for (before, own, silent) in
            [(None, 64, 0), (None, 63, 0), (None, 61, 2), (Some(63), 63, 0), (Some(63), 60, 2), (None, 254, 0)]
        {
            assert_eq!(silent_before(before, own), silent, "{before:?} {own}");
        }
        assert_eq!((silent_behind((60, 60)), silent_behind((61, 60))), (Some(0), None));
    }

    #[test]
    fn clocks_that_differ_and_drift_are_measured() {
        let said = |aheads: &[(u64, i32)], synced| {
            let (mut board, now) = (Board::default(), Instant::now());
            for (second, ahead) in aheads {
                let report = FlowReport { t_sink_ns: second * 1_000_000_000, ..flow(1, *ahead, synced) };
                board.take(&message("sta2", MessageBody::Flow(report)), now);
            }
            let clocks = board.survey(None).paths[0].clocks[&Ipv6Addr::UNSPECIFIED];
            (clocks.to_string(), clocks.drift_ppm)
        };
        // What queues add is above the smallest of each ten seconds.
        let fast: Vec<(u64, i32)> =
            (0..41).map(|s| (s, -7_000 + 25 * s as i32 + 900 * i32::from(s % 10 != 0))).collect();
        let (text, drift) = said(&fast, true);
        assert!(text.starts_with("delays are negative: the sink's clock is 6.000 ms and more behind"), "{text}");
        assert!(drift.is_some_and(|ppm| (ppm - 25.0).abs() < 1e-6), "{drift:?}");
        assert!(text.ends_with("; it gains 25.0 us a second"), "{text}");
        // Over the end of the range of 32 bits.
        let (text, drift) = said(&[(0, i32::MAX - 100), (11, i32::MIN), (22, i32::MIN + 500)], false);
        assert!(text.starts_with("the sink's clock is 2147483.148 ms behind"), "{text}");
        assert!(drift.is_some_and(|ppm| (ppm - 101.0 / 11.0).abs() < 1e-6), "{drift:?}");
        assert_eq!(said(&[(0, 5), (1, 6)], false).1, None);
    }
}
