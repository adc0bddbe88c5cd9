//! What the exporters for Prometheus and OpenTelemetry share: as much of HTTP as a scrape needs, the formats, `paceline_build_info`.
//!
//! Numbers are encoded in `OpenMetrics` 1.0. A client that does not ask for it gets Prometheus's text format 0.0.4, which older agents,
//! `promtool check metrics` and people with `curl` read.

mod clients;
mod collector;
mod format;
mod http;
mod otlp;
mod serve;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

pub use clients::{CLIENTS, Clients};
pub use collector::{Collector, CollectorError, CollectorFeed};
pub use format::{ScrapeFormat, of_accept};
pub use http::{Names, Refusal, Scrape, ScrapeRequest, parse};
pub use otlp::to_otlp;
pub use serve::{BoundServer, Numbers, ScrapeServer};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: String,
}

/// A registry of names that begin with `paceline_`. It has `paceline_build_info`, which is 1 for each version that is given.
pub fn registry(versions: impl IntoIterator<Item = impl Into<String>>) -> Registry {
    let builds = Family::<Build, Gauge>::default();
    for version in versions {
        builds.get_or_create(&Build { version: version.into() }).set(1);
    }
    let mut registry = Registry::with_prefix("paceline");
    registry.register("build_info", "Versions of paceline that answer here, each of them 1", builds);
    registry
}

/// What a registry has, in a format.
pub fn expose(registry: &Registry, format: ScrapeFormat) -> String {
    let mut encoded = String::new();
    // A string takes everything.
    let _ = text::encode(&mut encoded, registry);
    match format {
        ScrapeFormat::OpenMetrics => encoded,
        ScrapeFormat::Text => format::to_text(&encoded),
    }
}
