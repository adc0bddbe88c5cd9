//! Numbers for Prometheus: none of them is by receiver.

use std::net::SocketAddr;
use std::sync::Arc;

use paceline_scrape::{BoundServer, ScrapeFormat, ScrapeServer, expose, registry};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::{Counts, KernelStoreFigures, ServerError, Shared};
use crate::failed;

pub(super) fn bind(address: SocketAddr) -> Result<BoundServer, ServerError> {
    ScrapeServer::bind(address).map_err(|source| ServerError::bind(address, "--metrics", source))
}

pub(super) fn answer(bound: BoundServer, shared: &Arc<Shared>) -> Result<ScrapeServer, ServerError> {
    let shared = Arc::clone(shared);
    let numbers = Box::new(move |format| encode(&shared.total(), format));
    Ok(bound.answer(numbers).map_err(failed("no thread"))?)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Judged {
    outcome: &'static str,
}

fn encode(counts: &Counts, format: ScrapeFormat) -> String {
    let mut whole = registry([env!("CARGO_PKG_VERSION")]);
    let registry = whole.sub_registry_with_prefix("icn");
    let router = &counts.router;
    let mut counter = |name: &str, help: &str, value: u64| registry.register(name, help, ConstCounter::new(value));
    counter("requests", "Requests that were well formed", router.requests);
    counter("garbage", "Datagrams that were not requests", router.garbage);
    counter("tokens", "Tokens that were given out", router.granted);
    counter("hits", "Units that were asked for and were here", router.hits);
    counter("misses", "Units that were asked for and were not here", router.misses);
    counter("sent_units", "Units that left", router.sent_units);
    counter("dropped_messages", "Messages that the kernel did not take", counts.refused);
    counter("unread_bursts", "Bursts that could not be read from the store", counts.unread);
    let bytes = ConstCounter::new(counts.sent_bytes);
    registry.register_with_unit("sent", "Bytes of units that left, heads included", Unit::Bytes, bytes);
    let refused = Family::<Refused, Counter>::default();
    for (reason, count) in [
        ("no_token", router.no_token),
        ("bad_token", router.bad_tokens),
        ("source_limit", router.limited),
        ("queue_full", router.overflowed),
        ("not_found", router.not_found),
        ("past_end", router.past_end),
        ("changed", router.changed),
        ("loop", router.looped),
    ] {
        refused.get_or_create(&Refused { reason }).inc_by(count);
    }
    registry.register("refused_requests", "Requests that got no units, or not all", refused);
    for (name, help, value) in [
        ("queued_units", "Units that wait to leave", counts.queued),
        ("awaited_units", "Units that wait for the upstream router", counts.awaited),
    ] {
        registry.register(name, help, ConstGauge::new(value.cast_signed()));
    }
    if let Some(kernel) = &counts.kernel {
        encode_kernel(kernel, registry);
    }
    expose(&whole, format)
}

fn encode_kernel(kernel: &KernelStoreFigures, registry: &mut Registry) {
    let judged = Family::<Judged, Counter>::default();
    for (outcome, count) in [
        ("answered", kernel.answered),
        ("busy", kernel.busy),
        ("missed", kernel.missed),
        ("bad_token", kernel.bad_tokens.saturating_sub(kernel.dropped)),
        ("dropped", kernel.dropped),
        ("renewal", kernel.renewals),
        ("paced", kernel.paced),
        ("no_room", kernel.no_room),
    ] {
        judged.get_or_create(&Judged { outcome }).inc_by(count);
    }
    let help = "Requests for one unit that the kernel's store answered, refused or dropped, or passed on to the router for this reason";
    registry.register("kernel_requests", help, judged);
    let evicted = ConstCounter::new(kernel.evicted);
    registry.register(
        "kernel_evicted_parts",
        "Parts of objects that made room for others in the kernel's store",
        evicted,
    );
    let looks = ConstCounter::new(kernel.looks);
    registry.register("kernel_looks", "Times that the files of what is in the kernel's store were looked at", looks);
    for (name, help, value) in [
        ("kernel_store", "Memory of the kernel's store", kernel.bytes),
        ("kernel_store_used", "Memory of the kernel's store that has units", kernel.used_bytes),
    ] {
        registry.register_with_unit(name, help, Unit::Bytes, ConstGauge::new(value.cast_signed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_there_under_its_name() {
        let mut counts = Counts { sent_bytes: 7, queued: 3, ..Counts::default() };
        counts.kernel = Some(KernelStoreFigures { bad_tokens: 9, dropped: 4, bytes: 90_112, ..Default::default() });
        counts.router.limited = 4;
        let text = encode(&counts, ScrapeFormat::Text);
        for line in [
            "paceline_icn_sent_bytes_total 7",
            "paceline_icn_queued_units 3",
            "paceline_icn_kernel_requests_total{outcome=\"bad_token\"} 5",
            "paceline_icn_kernel_store_bytes 90112",
            "paceline_icn_refused_requests_total{reason=\"source_limit\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        paceline_fixture::promtool_accepts(&text);
        paceline_fixture::dashboards_name_what_is_in(&text, |name| name.starts_with("paceline_icn_"));
    }
}
