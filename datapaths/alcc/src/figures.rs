//! The figures of a socket, each of them defined once: what the program that holds it asks for ([`SocketStats`]), what others
//! see ([`Line`], which JSON has), and of each its unit, its kind and what it says ([`FIGURES`]), from which the metrics for
//! Prometheus, the table of `paceline top`, the comments of `alcc.h` and the list of `docs/guide/deploy.md` are made.

use std::net::SocketAddr;

use paceline_cc::{Nanos, Rate};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::options::{Acks, Mode};
use crate::stats::LimitedBy;

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It names something.
    Label,
    /// As it is now.
    Gauge,
    /// It counts up.
    Counter,
}

/// What a figure is counted in where people read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nothing: a name, or how often.
    None,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Mbit/s.
    MegabitsPerSecond,
    /// Bytes.
    Bytes,
}

/// One figure of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name in [`SocketStats`].
    pub field: &'static str,
    /// Its key in JSON, and its name in [`Line`].
    pub name: &'static str,
    /// Its unit there.
    pub unit: Unit,
    /// What it is.
    pub kind: Kind,
    /// What it says, in a sentence or two.
    pub what: &'static str,
    /// Its title in the table of `paceline top`, where it is shown.
    pub title: Option<&'static str>,
    /// Its name for Prometheus without the prefix `paceline_` and the units that the registry adds, where it is offered.
    pub metric: Option<&'static str>,
    value: fn(&Line) -> Value,
}

impl Figure {
    /// The figure with this key.
    pub fn named(name: &str) -> Option<&'static Self> {
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// Its whole name for Prometheus, where it is offered.
    pub fn series(&self) -> Option<String> {
        let unit = match self.unit {
            Unit::Bytes => "_bytes",
            Unit::Seconds | Unit::Milliseconds => "_seconds",
            Unit::None | Unit::MegabitsPerSecond => "",
        };
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        self.metric.map(|metric| format!("paceline_{metric}{unit}{total}"))
    }

    /// What it is on a socket, in its unit; null where it is not known, or not yet.
    pub fn of(&self, line: &Line) -> Value {
        (self.value)(line)
    }
}

/// An empty text stands for what there is not.
const fn given(text: &'static str) -> Option<&'static str> {
    if text.is_empty() { None } else { Some(text) }
}

/// A row: what it says; its name and type for the program; its key and type in JSON; unit, kind, title in `paceline top`, name for
/// Prometheus; how the second is made from the first.
macro_rules! figures {
    ($($(#[doc = $what:literal])+ $field:ident: $own:ty => $name:ident: $shown:ty,
        $unit:ident, $kind:ident, $title:literal, $metric:literal, $convert:expr;)+) => {
        /// A socket's state and counters, for the program that holds it.
        #[derive(Clone, Debug, PartialEq)]
        pub struct SocketStats {
            $($(#[doc = $what])+ pub $field: $own,)+
        }

        /// One socket, in the units that people read: [`SocketStats`] as JSON has them.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Line {
            $($(#[doc = $what])+ pub $name: $shown,)+
        }

        impl From<&SocketStats> for Line {
            fn from(stats: &SocketStats) -> Self {
                $(let $name: fn(&$own) -> $shown = $convert;)+
                Self { $($name: $name(&stats.$field),)+ }
            }
        }

        /// Every figure of a socket.
        pub const FIGURES: &[Figure] = &[$(Figure {
            field: stringify!($field),
            name: stringify!($name),
            unit: Unit::$unit,
            kind: Kind::$kind,
            what: concat!($($what),+).trim_ascii(),
            title: given($title),
            metric: given($metric),
            value: |line| serde_json::to_value(&line.$name).unwrap_or_default(),
        },)+];
    };
}

fn millis(span: &Option<Nanos>) -> Option<f64> {
    span.map(Nanos::as_millis_f64)
}

figures! {
    /// Number of the socket, unique in its process.
    id: u64 => id: u64, None, Label, "", "", |id| *id;
    /// This end; not known when the kernel no longer says.
    local: Option<SocketAddr> => local: Option<SocketAddr>, None, Label, "", "", |end| *end;
    /// The other end.
    peer: Option<SocketAddr> => peer: Option<SocketAddr>, None, Label, "PEER", "", |end| *end;
    /// The controller above TCP: `NAME:KEY=VALUE`.
    controller: String => controller: String, None, Label, "CONTROLLER", "", String::clone;
    /// How bytes reach TCP: `queue`, `inline` or `framed`.
    mode: Mode => mode: String, None, Label, "MODE", "", ToString::to_string;
    /// Where acknowledgements are read: `stamps` or `info`.
    acks: Acks => acks: String, None, Label, "ACKS", "", ToString::to_string;
    /// Time since it was taken on.
    age: Nanos => age_s: f64, Seconds, Gauge, "", "", |age| age.as_millis_f64() / 1e3;
    /// What limits it. `window` and `pacing`: the controller decides. `application`: there is nothing to send. `layer below`: the
    /// lower TCP is the limit (losses, a small buffer), and the controller cannot do better. `nothing`: it is sending.
    limited_by: LimitedBy => limited_by: String, None, Label, "LIMITED BY", "", ToString::to_string;
    /// Delivery rate: the newest sample.
    rate: Rate => rate_mbps: f64, MegabitsPerSecond, Gauge, "Mbit/s", "delivery_rate_bytes_per_second", |rate| rate.as_mbps();
    /// The newest round-trip time of the network, without the time in TCP's own buffer where timestamps show it.
    rtt: Option<Nanos> => rtt_ms: Option<f64>, Milliseconds, Gauge, "RTT ms", "socket_rtt", millis;
    /// Smoothed round-trip time.
    srtt: Option<Nanos> => srtt_ms: Option<f64>, Milliseconds, Gauge, "", "", millis;
    /// Smallest round-trip time; the newest less this is queueing.
    min_rtt: Option<Nanos> => min_rtt_ms: Option<f64>, Milliseconds, Gauge, "MIN ms", "", millis;
    /// How long the newest acknowledged chunk waited in TCP's buffer before it left.
    below: Nanos => below_ms: f64, Milliseconds, Gauge, "", "", |span| span.as_millis_f64();
    /// The controller's window.
    window: u64 => window_bytes: u64, Bytes, Gauge, "WINDOW kB", "", |bytes| *bytes;
    /// TCP's own window.
    lower_window: u64 => lower_window_bytes: u64, Bytes, Gauge, "", "", |bytes| *bytes;
    /// Passed to TCP and not yet acknowledged.
    in_flight: u64 => in_flight_bytes: u64, Bytes, Gauge, "FLIGHT kB", "in_flight", |bytes| *bytes;
    /// Written by the application and not yet passed to TCP (not in mode inline).
    queued: u64 => queue_bytes: u64, Bytes, Gauge, "QUEUE kB", "queue", |bytes| *bytes;
    /// Written by the application.
    written: u64 => written_bytes: u64, Bytes, Counter, "", "", |bytes| *bytes;
    /// Acknowledged since it was taken on.
    delivered: u64 => delivered_bytes: u64, Bytes, Counter, "", "delivered", |bytes| *bytes;
    /// Segments that TCP sent again.
    retransmits: u32 => retransmits: u32, None, Counter, "", "retransmits", |count| *count;
    /// Timeouts of TCP.
    timeouts: u32 => timeouts: u32, None, Counter, "", "", |count| *count;
    /// Chunks passed to TCP.
    chunks: u64 => chunks: u64, None, Counter, "", "", |count| *count;
    /// Chunks for which TCP was the limit: it held back earlier ones, or had refused this one.
    limited_below: u64 => chunks_limited_below: u64, None, Counter, "", "", |count| *count;
    /// Chunks whose acknowledgement was seen in `TCP_INFO` because the kernel dropped the timestamp.
    stamps_lost: u64 => stamps_lost: u64, None, Counter, "", "", |count| *count;
    /// Samples of the round-trip time that cover a retransmission and were kept from the controller.
    marked: u64 => marked_samples: u64, None, Counter, "", "", |count| *count;
    /// Others wrote to the socket past the queue while it held bytes, so the connection was reset.
    bypassed: bool => bypassed: bool, None, Label, "", "", |yes| *yes;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_what_json_has_under_its_name() {
        let line = Line { rtt_ms: Some(45.5), retransmits: 3, controller: "copa".to_owned(), ..Line::default() };
        let json = serde_json::to_value(&line).unwrap();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), FIGURES.len());
        for figure in FIGURES {
            assert_eq!(json[figure.name], figure.of(&line), "{}", figure.name);
        }
    }

    #[test]
    fn names_that_have_a_unit_have_the_figures() {
        for figure in FIGURES {
            let ends = [
                ("_s", Unit::Seconds),
                ("_ms", Unit::Milliseconds),
                ("_mbps", Unit::MegabitsPerSecond),
                ("_bytes", Unit::Bytes),
            ];
            let named = ends.iter().find(|(end, _)| figure.name.ends_with(end)).map_or(Unit::None, |(_, unit)| *unit);
            assert_eq!(named, figure.unit, "{}", figure.name);
            assert!(figure.what.ends_with('.') && !figure.what.contains('|'), "{}", figure.name);
        }
    }
}
