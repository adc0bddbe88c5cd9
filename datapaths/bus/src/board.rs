//! What is known at the moment of flows, hops and ends, from the messages that came: for tables and for Prometheus.

mod metrics;
mod objects;
mod survey;

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use paceline_telemetry::{FlowReport, HopReport, Tuple};

use crate::key::PublisherRole;
use crate::message::{BusMessage, Health, MessageBody};
use crate::subject::MessageKind;
use crate::subscription::Subscription;

pub use metrics::{encode, numbers};
pub use objects::{BoardView, ReportSums};
pub use survey::{PathSurvey, SurveyedClocks, SurveyedHop, SurveyedPath};

/// What has sent no report for this long is left out. Our choice: ten signs of life.
const SILENCE: Duration = Duration::from_secs(10);
/// Flows, queues, ends and paths that are kept. Our choice: what a table or a page can show, in some megabytes.
const FLOWS_MAX: usize = 4096;
const HOPS_MAX: usize = 1024;
const ENDS_MAX: usize = 256;
const PATHS_MAX: usize = 256;
/// What a node is called in a path that has not reported itself: packets can have any number.
const UNKNOWN: &str = "?";

/// Packets by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// That were due.
    pub expected: u64,
    /// That came.
    pub received: u64,
    /// Dropped by a full queue.
    pub lost_congestion: u64,
    /// Lost by the medium.
    pub lost_medium: u64,
    /// Lost for a reason that is not known.
    pub lost_unknown: u64,
    /// Reports that say so.
    pub reports: u64,
}

impl Packets {
    fn add(&mut self, report: &FlowReport) {
        self.expected += u64::from(report.exp);
        self.received += u64::from(report.rcv);
        self.lost_congestion += u64::from(report.lost_q);
        self.lost_medium += u64::from(report.lost_m);
        self.lost_unknown += u64::from(report.lost_u);
        self.reports += 1;
    }
}

/// A flow.
#[derive(Clone, Debug)]
pub struct BoardFlow {
    /// Its newest report.
    pub report: FlowReport,
    /// The sink.
    pub publisher: String,
    /// When that came.
    pub heard: Instant,
    /// Since its first report.
    pub packets: Packets,
    /// When that was.
    pub since: Instant,
    /// The nodes of its path, first hop first; `?` for one that has not reported itself.
    pub path: String,
}

/// A hop's egress queue, of a node that has reported it itself.
#[derive(Clone, Copy, Debug)]
pub struct BoardQueue {
    /// The newest that is known of it: from the node's report, or from a packet's record.
    pub newest: HopReport,
    /// When that came.
    pub heard: Instant,
    /// Packets dropped since its first report.
    pub drops: u64,
    /// Frames lost by the link since its first report.
    pub link_losses: u64,
}

/// Someone who publishes signs of life.
#[derive(Clone, Debug)]
pub struct LivePublisher {
    /// The newest.
    pub health: Health,
    /// When it came.
    pub heard: Instant,
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// By tuple.
    pub flows: BTreeMap<Tuple, BoardFlow>,
    /// By node and egress interface; 65535: not known.
    pub queues: BTreeMap<(u32, u16), BoardQueue>,
    /// By role and name.
    pub ends: BTreeMap<(PublisherRole, String), LivePublisher>,
    /// Of all flows so far, by sink and path, and the time of its last report.
    totals: BTreeMap<(String, String), (Packets, Instant)>,
    /// By publisher: how many microseconds its clock is behind this machine's, as the message says that was fastest.
    behind_us: BTreeMap<String, i64>,
    /// By sender and sink.
    drifts: BTreeMap<(Ipv6Addr, String), survey::Drift>,
}

impl Board {
    /// Takes in a message that came at `now`.
    pub fn take(&mut self, message: &BusMessage, now: Instant) {
        self.compare_clocks(message);
        match &message.body {
            MessageBody::Flow(report) => self.flow(report, &message.publisher, now),
            MessageBody::Node(report) => {
                for hop in &report.hops {
                    let hop = HopReport { node: report.node, ..*hop };
                    if self.queues.len() < HOPS_MAX {
                        let queue = BoardQueue { newest: hop, heard: now, drops: 0, link_losses: 0 };
                        self.queues.entry(key_of(&hop)).or_insert(queue);
                    }
                    self.queue(&hop, now);
                }
            }
            MessageBody::Health(health) => {
                let MessageKind::Health { role, host } = &message.subject.kind else { return };
                let key = (*role, host.clone());
                if self.ends.len() < ENDS_MAX || self.ends.contains_key(&key) {
                    self.ends.insert(key, LivePublisher { health: health.clone(), heard: now });
                }
            }
            MessageBody::Control(_) => {}
        }
    }

    /// A message's number is when it was published.
    fn compare_clocks(&mut self, message: &BusMessage) {
        let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64;
        let behind = here.saturating_sub_unsigned(message.number);
        if let Some(least) = self.behind_us.get_mut(&message.publisher) {
            *least = behind.min(*least);
        } else if self.behind_us.len() < ENDS_MAX && message.number > 0 {
            self.behind_us.insert(message.publisher.clone(), behind);
        }
    }

    /// Takes in what comes for this long.
    pub fn listen(&mut self, messages: &Subscription, longest: Duration) {
        let end = Instant::now() + longest;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if let Some(message) = messages.next(left) {
                self.take(&message, Instant::now());
            }
        }
    }

    fn flow(&mut self, report: &FlowReport, publisher: &str, now: Instant) {
        self.compare(report, publisher);
        report.hops.iter().for_each(|hop| self.queue(hop, now));
        let path = self.path(report);
        self.total(publisher, &path, report, now);
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&report.tuple) {
            self.forget(now);
            if self.flows.len() >= FLOWS_MAX {
                return;
            }
        }
        let fresh = || BoardFlow {
            report: report.clone(),
            publisher: publisher.to_owned(),
            heard: now,
            packets: Packets::default(),
            since: now,
            path: path.clone(),
        };
        let flow = self.flows.entry(report.tuple).or_insert_with(fresh);
        flow.packets.add(report);
        // A window in which nothing came says nothing of the hops.
        let hops = if report.hops.is_empty() { flow.report.hops.clone() } else { report.hops.clone() };
        let bottleneck = if report.hops.is_empty() { flow.report.bottleneck } else { report.bottleneck };
        flow.report = FlowReport { hops, bottleneck, ..report.clone() };
        if !report.hops.is_empty() {
            flow.path = path;
        }
        (flow.heard, flow.publisher) = (now, publisher.to_owned());
    }

    /// The nodes of a path, first hop first.
    fn path(&self, report: &FlowReport) -> String {
        let known = |node: u32| self.queues.range((node, 0)..=(node, u16::MAX)).next().is_some();
        let name = |node: u32| if known(node) { node.to_string() } else { UNKNOWN.to_owned() };
        let nodes: Vec<String> = report.hops.iter().map(|hop| name(hop.node)).collect();
        nodes.join(">")
    }

    fn total(&mut self, publisher: &str, path: &str, report: &FlowReport, now: Instant) {
        let key = (publisher.to_owned(), path.to_owned());
        if self.totals.len() >= PATHS_MAX && !self.totals.contains_key(&key) {
            // The one that was silent longest makes place, if any is.
            let oldest = self.totals.iter().min_by_key(|(_, (_, heard))| *heard);
            let Some((oldest, _)) = oldest.filter(|(_, (_, heard))| !recent(*heard, now)) else { return };
            let oldest = oldest.clone();
            self.totals.remove(&oldest);
        }
        let (packets, heard) = self.totals.entry(key).or_insert((Packets::default(), now));
        packets.add(report);
        *heard = now;
    }

    /// What is known of a queue, if its node has reported it.
    fn queue(&mut self, hop: &HopReport, now: Instant) {
        let Some(queue) = self.queues.get_mut(&key_of(hop)) else { return };
        let before = queue.newest;
        queue.drops += step(before.qdrop, hop.qdrop);
        queue.link_losses += step(before.lloss, hop.lloss);
        // A packet's record does not say everything that the node's report does, nor the other way round.
        queue.newest = HopReport {
            limit_pkts: hop.limit_pkts.or(before.limit_pkts),
            qdrop: hop.qdrop.or(before.qdrop),
            policed: hop.policed.or(before.policed),
            lloss: hop.lloss.or(before.lloss),
            rssi: hop.rssi.or(before.rssi),
            snr: hop.snr.or(before.snr),
            channel: hop.channel.or(before.channel),
            rate_100k: hop.rate_100k.or(before.rate_100k),
            mcs: hop.mcs.or(before.mcs),
            ..*hop
        };
        queue.heard = now;
    }

    /// Leaves out what sent no report lately.
    pub fn forget(&mut self, now: Instant) {
        self.flows.retain(|_, flow| recent(flow.heard, now));
        self.queues.retain(|_, queue| recent(queue.heard, now));
        self.ends.retain(|_, end| recent(end.heard, now));
    }
}

fn recent(heard: Instant, now: Instant) -> bool {
    now.saturating_duration_since(heard) < SILENCE
}

fn key_of(hop: &HopReport) -> (u32, u16) {
    (hop.node, hop.eg.unwrap_or(u16::MAX))
}

/// By how much a counter of 16 bits has moved. A step back, which an overtaken report makes, does not count: more than half of the
/// range (as TCP's sequence numbers are compared, RFC 9293 section 3.4).
fn step(before: Option<u16>, now: Option<u16>) -> u64 {
    match (before, now) {
        (Some(before), Some(now)) => u64::from(now.wrapping_sub(before).cast_signed().max(0).cast_unsigned()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use paceline_scrape::ScrapeFormat;
    use paceline_telemetry::Latency;

    use super::*;
    use crate::message::flow_number;
    use crate::subject::BusSubject;

    fn message(body: MessageBody) -> BusMessage {
        let kind = match &body {
            MessageBody::Flow(report) => MessageKind::Flow(flow_number(&report.tuple)),
            MessageBody::Node(report) => MessageKind::Node(report.node),
            MessageBody::Health(_) => MessageKind::Health { role: PublisherRole::Sink, host: "sta2".to_owned() },
            MessageBody::Control(_) => MessageKind::Control("a".to_owned()),
        };
        let subject = BusSubject { domain: "lab".to_owned(), kind };
        BusMessage { subject, publisher: "sta2".to_owned(), number: 0, body }
    }

    fn node(node: u32, hop: HopReport) -> BusMessage {
        message(MessageBody::Node(paceline_telemetry::NodeReport { node, hops: vec![hop], ..Default::default() }))
    }

    fn report(sport: u16, qdrop: u16) -> FlowReport {
        let hop =
            |node| HopReport { node, eg: Some(1), avail_pkts: Some(40), qdrop: Some(qdrop), ..HopReport::default() };
        FlowReport {
            tuple: Tuple { sport, ..Tuple::default() },
            exp: 10,
            rcv: 7,
            lost_m: 2,
            lost_q: 1,
            cwnd_echo: Some(20),
            hops: vec![hop(1), hop(2)],
            bottleneck: Some(1),
            ..FlowReport::default()
        }
    }

    #[test]
    fn sums_go_on_and_silence_is_forgotten() {
        let mut board = Board::default();
        let now = Instant::now();
        board.take(&node(1, HopReport { eg: Some(1), ..HopReport::default() }), now);
        board.take(&node(2, HopReport { eg: Some(1), ..HopReport::default() }), now);
        board.take(&message(MessageBody::Flow(report(1, 65_530))), now);
        board.take(&message(MessageBody::Flow(report(1, 4))), now);
        board.take(&message(MessageBody::Flow(report(1, 3))), now);
        board.take(&node(2, HopReport { eg: Some(1), limit_pkts: Some(60), ..HopReport::default() }), now);
        board.take(&message(MessageBody::Flow(report(1, 4))), now);
        board.take(&message(MessageBody::Health(Health::default())), now);
        let packets = board.flows[&Tuple { sport: 1, ..Tuple::default() }].packets;
        assert_eq!((packets.expected, packets.lost_medium, packets.lost_congestion, packets.reports), (40, 8, 4, 4));
        let queue = board.queues[&(2, 1)];
        assert_eq!((queue.drops, queue.newest.limit_pkts, queue.newest.avail_pkts), (11, Some(60), Some(40)));
        let text = encode(&board, now, ScrapeFormat::OpenMetrics);
        for line in [
            "paceline_int_lost_packets_total{sink=\"sta2\",path=\"1>2\",cause=\"medium\"} 8",
            "paceline_int_flows{sink=\"sta2\",path=\"1>2\"} 1",
            "paceline_int_window_packets{sink=\"sta2\",path=\"1>2\"} 20",
            "paceline_int_hop_room_packets{node=\"2\",egress=\"1\"} 40",
            "paceline_int_hop_limit_packets{node=\"2\",egress=\"1\"} 60",
            "paceline_int_end_up_seconds{role=\"sink\",host=\"sta2\"} 0",
        ] {
            assert!(text.lines().any(|one| one == line || one.starts_with(&format!("{line}."))), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        board.forget(now + SILENCE);
        assert!(board.flows.is_empty() && board.queues.is_empty() && board.ends.is_empty());
        // What was counted stays counted.
        assert!(encode(&board, now, ScrapeFormat::Text).contains("cause=\"medium\"} 8"));
    }

    #[test]
    fn a_collector_is_sent_all_that_prometheus_is_answered() {
        let (mut board, now) = (Board::default(), Instant::now());
        let known = HopReport {
            eg: Some(1),
            avail_pkts: Some(3),
            limit_pkts: Some(60),
            qbytes: Some(9),
            rate_pps: Some(5),
            flows: Some(1),
            rate_100k: Some(200),
            rssi: Some(-60),
            mcs: Some(7),
            ..HopReport::default()
        };
        board.take(&node(1, known), now);
        let delay = Latency { min: 1, avg: 2, p95: 3, synced: true };
        board.take(&message(MessageBody::Flow(FlowReport { lat_us: Some(delay), ..report(1, 0) })), now);
        board.take(&message(MessageBody::Health(Health::default())), now);
        let open = encode(&board, now, ScrapeFormat::OpenMetrics);
        let at = SystemTime::UNIX_EPOCH;
        let request: serde_json::Value = serde_json::from_str(&paceline_scrape::to_otlp(&open, at, at)).unwrap();
        let mut sent = Vec::new();
        for metric in request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap() {
            let (total, data) =
                if metric["sum"].is_null() { ("", &metric["gauge"]) } else { ("_total", &metric["sum"]) };
            for point in data["dataPoints"].as_array().unwrap() {
                let label = |label: &serde_json::Value| {
                    format!("{}={}", label["key"].as_str().unwrap(), label["value"]["stringValue"])
                };
                let labels: Vec<String> = point["attributes"].as_array().unwrap().iter().map(label).collect();
                let name = metric["name"].as_str().unwrap();
                sent.push(format!("{name}{total}{{{}}} {:?}", labels.join(","), point["asDouble"].as_f64().unwrap()));
            }
            let units = ["", "{packet}", "{packet}/s", "By", "By/s", "s", "{flow}", "{dbm}", "{index}"];
            assert!(units.contains(&metric["unit"].as_str().unwrap_or_default()), "{metric}");
        }
        let answered = encode(&board, now, ScrapeFormat::Text);
        let mut samples: Vec<String> = answered
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').unwrap();
                format!("{name} {:?}", value.parse::<f64>().unwrap())
            })
            .collect();
        // Labels are in no order.
        sent.sort();
        samples.sort();
        assert_eq!(sent, samples);
        assert!(sent.len() > 20, "{sent:?}");
    }

    #[test]
    fn it_is_bounded() {
        let mut board = Board::default();
        let now = Instant::now();
        for number in 0..6000_u32 {
            board.take(&node(number, HopReport { eg: Some(1), ..HopReport::default() }), now);
            let mut one = report(number as u16, 0);
            one.hops[0].node = number;
            board.take(&message(MessageBody::Flow(one)), now);
        }
        assert_eq!((board.flows.len(), board.queues.len(), board.totals.len()), (FLOWS_MAX, HOPS_MAX, PATHS_MAX));
        board.take(&message(MessageBody::Flow(report(6000, 0))), now + SILENCE);
        assert_eq!(board.flows.len(), 1);
    }

    #[test]
    fn packets_make_no_nodes_and_paths_that_are_silent_make_place() {
        let (mut board, now) = (Board::default(), Instant::now());
        board.take(&node(1, HopReport { eg: Some(1), ..HopReport::default() }), now);
        for number in 0..1000 {
            let mut one = report(7, 0);
            (one.hops[0].eg, one.hops[1].node) = (Some(number), 100 + u32::from(number));
            board.take(&message(MessageBody::Flow(one)), now);
        }
        assert_eq!(board.queues.keys().collect::<Vec<_>>(), [&(1, 1)]);
        assert_eq!(board.totals.keys().map(|(_, path)| path.as_str()).collect::<Vec<_>>(), ["1>?"]);
        assert_eq!(board.flows.values().map(|flow| flow.path.as_str()).collect::<Vec<_>>(), ["1>?"]);
        // Sinks of as many names as there is place for, and one more.
        let from =
            |name: usize| BusMessage { publisher: format!("sink{name}"), ..message(MessageBody::Flow(report(1, 0))) };
        (1..PATHS_MAX).for_each(|name| board.take(&from(name), now));
        board.take(&from(PATHS_MAX), now);
        assert!(!board.totals.keys().any(|(sink, _)| *sink == format!("sink{PATHS_MAX}")));
        board.take(&from(PATHS_MAX), now + SILENCE);
        assert!(board.totals.keys().any(|(sink, _)| *sink == format!("sink{PATHS_MAX}")));
        assert_eq!(board.totals.len(), PATHS_MAX);
    }

    #[test]
    fn prometheus_understands_everything_and_the_dashboard_names_what_there_is() {
        let (mut board, now) = (Board::default(), Instant::now());
        let mut all = report(1, 0);
        all.lat_us = Some(Latency::default());
        (all.hops[0].limit_pkts, all.hops[0].qbytes) = (Some(60), Some(0));
        (all.hops[0].rate_pps, all.hops[0].rssi) = (Some(1), Some(-60));
        (all.hops[0].rate_100k, all.hops[0].mcs, all.hops[0].flows) = (Some(8), Some(7), Some(1));
        board.take(&node(1, HopReport { eg: Some(1), ..HopReport::default() }), now);
        board.take(&node(2, HopReport { eg: Some(1), ..HopReport::default() }), now);
        board.take(&message(MessageBody::Flow(all)), now);
        board.take(&message(MessageBody::Health(Health::default())), now);
        let text = encode(&board, now, ScrapeFormat::Text);
        let rate = "paceline_int_hop_rate_bytes_per_second{node=\"1\",egress=\"1\"} 100000.0";
        assert!(text.lines().any(|line| line == rate), "{text}");
        paceline_fixture::promtool_accepts(&text);
        paceline_fixture::dashboards_name_what_is_in(&text, |name| name.starts_with("paceline_int_"));
    }
}
