//! What controllers were informed of and what they answered, as rows: the event log (docs/design/event-log.md) in columns.

use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::observe::{Answers, Event, Observer};
use paceline_cc::{Controller, Nanos, Pacing, Time};
use paceline_experiment::{Layer, Moment, Subject, Tap};
use paceline_lab::guest::known;

/// One event of one controller.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Number of the flow from 1, in the order in which they started.
    pub(crate) flow: u32,
    pub(crate) layer: &'static str,
    pub(crate) now: Time,
    pub(crate) event: &'static str,
    pub(crate) bytes: Option<u64>,
    pub(crate) packets: Option<u64>,
    pub(crate) rtt: Option<Nanos>,
    pub(crate) srtt: Option<Nanos>,
    pub(crate) min_rtt: Option<Nanos>,
    pub(crate) in_flight: Option<u64>,
    pub(crate) ce_bytes: Option<u64>,
    pub(crate) window: u64,
    pub(crate) pacing_mbps: Option<f64>,
}

/// The rows of one controller.
struct Rows {
    flow: u32,
    layer: &'static str,
    moment: Moment,
    rows: Vec<Row>,
}

/// Sees all controllers of a world.
#[derive(Default)]
pub(crate) struct Events {
    of: Vec<Arc<Mutex<Rows>>>,
}

impl Events {
    /// All rows, controller by controller.
    pub(crate) fn into_rows(self) -> Vec<Row> {
        let rows =
            |rows: Arc<Mutex<Rows>>| std::mem::take(&mut rows.lock().unwrap_or_else(PoisonError::into_inner).rows);
        self.of.into_iter().flat_map(rows).collect()
    }
}

impl Tap for Events {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        let layer = match of.layer {
            Layer::Packets => "packets",
            Layer::Above => "above",
        };
        let rows = Arc::new(Mutex::new(Rows { flow: of.flow + 1, layer, moment: of.moment, rows: Vec::new() }));
        self.of.push(rows.clone());
        Some(Box::new(rows))
    }
}

impl Observer for Rows {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        let Answers { window, pacing, .. } = Answers::of(controller);
        let mut row = Row {
            flow: self.flow,
            layer: self.layer,
            now: self.moment.in_world(event.now()),
            event: event.name(),
            window,
            pacing_mbps: if let Pacing::Rate(rate) = pacing { Some(rate.as_mbps()) } else { None },
            ..Row::default()
        };
        match event {
            Event::Sent(sent, _) => {
                (row.bytes, row.packets, row.in_flight) = (Some(sent.bytes.into()), Some(1), Some(sent.in_flight));
            }
            Event::Acked(ack) => {
                (row.bytes, row.packets) = (Some(ack.bytes), Some(ack.packets.len() as u64));
                (row.rtt, row.srtt, row.min_rtt) = (ack.rtt, known(ack.srtt), known(ack.min_rtt));
                (row.in_flight, row.ce_bytes) = (Some(ack.in_flight), Some(ack.ce_bytes));
            }
            Event::Lost(loss) => {
                (row.bytes, row.packets, row.in_flight) =
                    (Some(loss.bytes), Some(loss.packets.len() as u64), Some(loss.in_flight));
            }
            Event::Timeout(timeout) => {
                (row.packets, row.in_flight) = (Some(timeout.packets.len() as u64), Some(timeout.in_flight));
            }
            Event::Cause { packets, .. } => row.packets = Some(packets.len() as u64),
            Event::AppLimited { in_flight, .. } => row.in_flight = Some(*in_flight),
            Event::SharedRtt { min, .. } => row.min_rtt = Some(*min),
            _ => {}
        }
        self.rows.push(row);
    }
}
