//! Events as Python sees them: the fields of `core/cc/src/controller.rs` by the same names. Instants and spans are nanoseconds, sizes
//! bytes, rates bytes per second; what is unknown is `None`.

use paceline_cc::{self as cc, Nanos};
use pyo3::prelude::*;

/// A span that may be endless, which stands for unknown.
fn known(span: Nanos) -> Option<u64> {
    (span != Nanos::MAX).then(|| span.as_nanos())
}

/// A pyclass with the fields of a struct of `cc`, and how each is read from it.
macro_rules! value {
    ($name:ident of $from:ty, $($field:ident: $kind:ty = $read:expr),+ $(,)?) => {
        #[doc = concat!("See `", stringify!($from), "`.")]
        #[pyclass(frozen, get_all, module = "paceline._paceline")]
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            $($field: $kind),+
        }

        impl From<&$from> for $name {
            fn from(from: &$from) -> Self {
                $(let $field: fn(&$from) -> $kind = $read;)+
                Self { $($field: $field(from)),+ }
            }
        }

        #[pymethods]
        impl $name {
            fn __repr__(&self) -> String {
                format!("{self:?}")
            }
        }
    };
}

value!(Env of cc::Env, mss: u32 = |env| env.mss, seed: u64 = |env| env.seed, paced: bool = |env| env.paced);

value!(Sent of cc::Sent,
    now: u64 = |sent| sent.now.as_nanos(),
    seq: u64 = |sent| sent.seq,
    bytes: u32 = |sent| sent.bytes,
    in_flight: u64 = |sent| sent.in_flight,
    retransmission: bool = |sent| sent.retransmission,
    app_limited: bool = |sent| sent.app_limited,
    unsent: u64 = |sent| sent.unsent,
);

value!(Restart of cc::Restart,
    now: u64 = |restart| restart.now.as_nanos(),
    idle: u64 = |restart| restart.idle.as_nanos(),
    rto: u64 = |restart| restart.rto.as_nanos(),
);

value!(RateSample of cc::RateSample,
    delivered: u64 = |rate| rate.delivered,
    interval: u64 = |rate| rate.interval.as_nanos(),
    prior_delivered: u64 = |rate| rate.prior_delivered,
    app_limited: bool = |rate| rate.app_limited,
    retransmission: bool = |rate| rate.retransmission,
    bytes_per_s: u64 = |rate| rate.rate().as_bytes_per_sec(),
);

value!(Loss of cc::Loss<'_>,
    now: u64 = |loss| loss.now.as_nanos(),
    packets: Vec<Lost> = |loss| loss.packets.iter().map(|lost| Lost(*lost)).collect(),
    bytes: u64 = |loss| loss.bytes,
    prior_in_flight: u64 = |loss| loss.prior_in_flight,
    in_flight: u64 = |loss| loss.in_flight,
    new_episode: bool = |loss| loss.new_episode,
);

value!(Timeout of cc::Timeout<'_>,
    now: u64 = |timeout| timeout.now.as_nanos(),
    packets: Vec<Lost> = |timeout| timeout.packets.iter().map(|lost| Lost(*lost)).collect(),
    prior_in_flight: u64 = |timeout| timeout.prior_in_flight,
    in_flight: u64 = |timeout| timeout.in_flight,
    count: u32 = |timeout| timeout.count,
);

value!(Telemetry of cc::Telemetry<'_>,
    now: u64 = |telemetry| telemetry.now.as_nanos(),
    verdict: &'static str = |telemetry| cause(telemetry.verdict),
    fresh_for: u64 = |telemetry| telemetry.fresh_for.as_nanos(),
    hops: Vec<Hop> = |telemetry| telemetry.hops.iter().map(Hop::from).collect(),
);

value!(Hop of cc::Hop,
    id: u32 = |hop| hop.id,
    arrived_at: Option<u64> = |hop| hop.arrived_at.map(cc::Time::as_nanos),
    delay: Option<u64> = |hop| hop.delay.map(Nanos::as_nanos),
    queue_bytes: Option<u64> = |hop| hop.queue_bytes,
    room_packets: Option<u32> = |hop| hop.room_packets,
    limit_packets: Option<u32> = |hop| hop.limit_packets,
    capacity: Option<u64> = |hop| hop.capacity.map(cc::Rate::as_bytes_per_sec),
    arrival: Option<u64> = |hop| hop.arrival.map(cc::Rate::as_bytes_per_sec),
    flows: Option<u32> = |hop| hop.flows,
    drops: Option<u32> = |hop| hop.drops,
    signal_dbm: Option<f32> = |hop| hop.signal_dbm,
    radio_retry_share: Option<f32> = |hop| hop.radio_retry_share,
);

/// A packet that was declared lost.
#[pyclass(frozen, module = "paceline._paceline")]
#[derive(Clone, Debug)]
pub(crate) struct Lost(pub(crate) cc::Lost);

#[pymethods]
impl Lost {
    #[getter]
    fn seq(&self) -> u64 {
        self.0.seq
    }

    #[getter]
    fn bytes(&self) -> u32 {
        self.0.bytes
    }

    #[getter]
    fn sent_at(&self) -> u64 {
        self.0.sent_at.as_nanos()
    }

    #[getter]
    fn tag(&self) -> u64 {
        self.0.tag
    }

    #[getter]
    fn cause(&self) -> &'static str {
        cause(self.0.cause)
    }
}

/// By the names of the event log.
fn cause(cause: cc::Cause) -> &'static str {
    match cause {
        cc::Cause::Unknown => "unknown",
        cc::Cause::Congestion => "congestion",
        cc::Cause::Aqm => "aqm",
        cc::Cause::Policer => "policer",
        cc::Cause::Medium => "medium",
        cc::Cause::Handover => "handover",
    }
}

/// A packet that was delivered.
#[pyclass(frozen, module = "paceline._paceline")]
#[derive(Clone, Debug)]
pub(crate) struct Acked(cc::Acked);

#[pymethods]
impl Acked {
    #[getter]
    fn seq(&self) -> u64 {
        self.0.seq
    }

    #[getter]
    fn bytes(&self) -> u32 {
        self.0.bytes
    }

    #[getter]
    fn sent_at(&self) -> u64 {
        self.0.sent_at.as_nanos()
    }

    #[getter]
    fn tag(&self) -> u64 {
        self.0.tag
    }

    #[getter]
    fn retransmitted(&self) -> bool {
        self.0.retransmitted
    }

    #[getter]
    fn app_limited(&self) -> bool {
        self.0.app_limited
    }

    #[getter]
    fn ce(&self) -> bool {
        self.0.ce
    }

    #[getter]
    fn received_at(&self) -> Option<u64> {
        self.0.received_at.map(cc::Time::as_nanos)
    }
}

value!(Ack of cc::Ack<'_>,
    now: u64 = |ack| ack.now.as_nanos(),
    packets: Vec<Acked> = |ack| ack.packets.iter().map(|acked| Acked(*acked)).collect(),
    bytes: u64 = |ack| ack.bytes,
    rtt: Option<u64> = |ack| ack.rtt.map(Nanos::as_nanos),
    srtt: u64 = |ack| ack.srtt.as_nanos(),
    min_rtt: Option<u64> = |ack| known(ack.min_rtt),
    rate: Option<RateSample> = |ack| ack.rate.as_ref().map(RateSample::from),
    prior_in_flight: u64 = |ack| ack.prior_in_flight,
    in_flight: u64 = |ack| ack.in_flight,
    lost_bytes: u64 = |ack| ack.lost_bytes,
    ce_bytes: u64 = |ack| ack.ce_bytes,
    ce_packets: u32 = |ack| ack.ce_packets,
    echo: bool = |ack| ack.echo,
    delivered: u64 = |ack| ack.delivered,
    una: u64 = |ack| ack.una,
    next: u64 = |ack| ack.next,
    phase: &'static str = |ack| match ack.phase {
        cc::Phase::Open => "open",
        cc::Phase::Cwr => "cwr",
        cc::Phase::Recovery => "recovery",
        cc::Phase::Loss => "loss",
    },
    window_limited: bool = |ack| ack.window_limited,
);
