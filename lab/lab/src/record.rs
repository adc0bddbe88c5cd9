//! The record of one run: one JSON object, with only what scenario and seed determine unless its cost was measured.

use std::collections::BTreeMap;

use paceline_experiment::{DrivenBy, DumbbellWay};
use serde::{Deserialize, Serialize};

use crate::run::World;

mod digest;
pub mod fields;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod run;
mod text;

pub use digest::write_digests;
use fields::described;
#[cfg(feature = "parquet")]
pub use parquet::write_parquet;
pub use run::Run;
pub use text::{ReadError, read_json, read_json_to_cut, write_csv, write_json};

described! {
    /// One run of one contestant; `docs/guide/records.md` describes every field.
    pub struct Record {
        scenario: String, "", "name of the scenario";
        trace: Option<String>, "",
            "file name of the downward trace, with links of the first link that has one; `null` without one";
        world: World, "", "`sim`: virtual time; `real`: sockets and kernel flows in real time";
        clock: Option<EndClocks> => "Option::is_none", "",
            "`none` where the two ends of a flow had no clock in common, in a [race between two hosts](remote.md): one-way delay, its parts \
             and what links did are `null`, `queue_ms` is round trip above the shortest of the race, `loss` is what senders declared lost; \
             else left out";
        // Texts, both: a record may be of a controller that this process does not know.
        controller: String, "", "controller, with the parameters that differ from their defaults";
        via: String, "",
            "datapath: `udp`, `tcp`, `alcc` (above CUBIC), `alcc/LOWER`, with options `alcc:mode=inline/LOWER`, \
             `tcp:driven_by=agent`, `quic`";
        driven_by: Option<DrivenBy> => "Option::is_none", "",
            "real race, `tcp`: who ran the controller: `kernel` (a congestion control of its own), `module` (ours, \
             by eBPF), `agent`; of the contestant's own flows, where it is the same for all";
        seed: u64, "", "seed of the race";
        run: u32, "", "number of the run, from 1; with `seed` it determines everything random";
        seconds: f64, "s", "length of the run, start-up included";
        throughput_mbps: f64, "Mbit/s",
            "data that arrived, from the IP header on, over `seconds`; all flows with a controller";
        own_throughput_mbps: Option<f64> => "Option::is_none", "Mbit/s",
            "throughput of the contestant's own flows; only where others run beside them";
        goodput_mbps: Option<f64>, "Mbit/s",
            "payload that reached applications: in order for TCP, each byte once for datagrams; `null` where a program's \
             protocol does not show it";
        utilization: Option<f64>, "0..1",
            "data that arrived over what the path could have carried in `seconds`, in the directions in which data \
             travels; `null` where nothing limits one of them. With links: over those that are the slowest link on \
             the way of a flow, the data that crossed each over what each could have carried";
        delay_ms: Option<Span>, "ms",
            "one-way delay of data packets that arrived, path and queue: `min`, `mean`, `p50`, `p95`, `p99`, `max`; \
             `null` when none arrived";
        queue_ms: Option<Span>, "ms", "the same for what queues added";
        rtt_ms: Option<Span>, "ms", "the same for the senders' RTT samples";
        loss: f64, "0..1", "data packets dropped on the path over those that entered it";
        policed: Option<u64> => "Option::is_none", "packets",
            "dropped by policers, of all that travels; only where the path has a policer";
        retransmits: Option<u64>, "packets", "retransmissions; `null` where a program's protocol does not show them";
        timeouts: Option<u64>, "", "retransmission timeouts; `null` with a program, whose timer is not seen";
        ecn_marks: u64, "packets", "data packets that arrived with a CE mark; of a program those that the path marked";
        fct_ms: Option<Span> => "Option::is_none", "ms",
            "completion times of flows that ended, as a distribution; only where flows end. If flows of several \
             kinds end: over the first 20000 of each";
        completions: Option<u64> => "Option::is_none", "flows", "how many ended with all their bytes delivered; only where flows end";
        frame_ms: Option<Span> => "Option::is_none", "ms",
            "of flows whose workload is `media` or `media_rate`: from when a frame was made until all of it had arrived, as a \
             distribution over the contestant's own flows";
        frames_late: Option<u64> => "Option::is_none", "frames", "of these, complete later than `late_after`; only where a stream has that";
        frames_lost: Option<u64> => "Option::is_none", "frames", "given up, or never complete because a part was lost; only of such flows";
        jain: Option<f64> => "Option::is_none", "0..1",
            "Jain's index of the throughputs of flows without an end of their own; only if there are several, and \
             data arrived";
        telemetry: Option<TelemetryRecord> => "Option::is_none", "packets",
            "with telemetry: `reports` that reached senders, and those `refused`; lost packets by their true cause, \
             `medium`, `overflow` (of queues) and where there are such `policed`, each by the reason that its receiver gave: \
             `medium`, `overflow`, `policed`, `unknown`; and by what `sender` knew as it declared a packet lost";
        split: Split, "ms",
            "mean one-way delay by its causes: `down` and `up`, each with `propagation_ms`, `queue_ms`, \
             `transmission_ms`, over data and acknowledgements; `null` without packets. With links `down` is of \
             data and `up` of acknowledgements, over their whole way";
        drawn: BTreeMap<String, String> => "BTreeMap::is_empty", "",
            "values drawn for keys that hold a range, by key; only if there are such keys";
        flows: Vec<FlowRecord>, "", "one object for each flow, see below";
        links: Vec<LinkRecord> => "Vec::is_empty", "",
            "one object for each direction of each link, see below; only where the scenario has links";
        routers: Vec<RouterRecord> => "Vec::is_empty", "",
            "one object for each content router, see below; only where the scenario has \
             [nodes](scenarios.md#nodes-content-routers)";
        fired: Vec<FiredRecord> => "Vec::is_empty", "",
            "which [`[[when]]`](scenarios.md#when-what-a-controller-triggers) acted, in the order of time: `when`, its place among \
             them from 0, the time `at_s` in s, and the `value` that its first variable had then; only where one did";
        version: String, "", "version of paceline";
        commit: Option<String> => "Option::is_none", "",
            "commit that it was built from; `+changed.DIGEST` behind it when its sources were changed since, and \
             left out when they were built without their history";
        cpu_s: Option<f64> => "Option::is_none", "s",
            "simulator, with `--measure`: CPU time of the thread that ran it; real race: of the endpoints of the \
             contestant's own flows";
        wall_s: Option<f64> => "Option::is_none", "s", "with `--measure`: wall-clock time";
        peak_mb: Option<f64> => "Option::is_none", "MB", "with `--measure`: largest resident memory of the process so far, all threads";
        release_error_us: Option<ReleaseError> => "Option::is_none", "us",
            "real race: how late the emulator released packets: `p50`, `p99`, `max`";
        late: Option<u64> => "Option::is_none", "packets", "real race: released more than 1 ms late";
        trusted: Option<bool> => "Option::is_none", "",
            "real race: `false` when more than one packet in a hundred was late, or the kernel lost packets outside \
             the path";
    }
}

/// Which clock the two ends of a flow have in common, where it is not the one that measured all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndClocks {
    /// None: they are on two hosts.
    None,
}

/// A change that a controller triggered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FiredRecord {
    /// Its place among the scenario's, from 0.
    pub when: u32,
    /// When its condition was met, in seconds.
    pub at_s: f64,
    /// The value of its first variable then.
    pub value: f64,
}

/// How late an emulator released packets, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReleaseError {
    /// Median.
    pub p50: f64,
    /// 99 % lie below.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

described! {
    /// One flow of a run. Fields mean what they mean in [`Record`].
    pub struct FlowRecord {
        /// As in [`Record`].
        controller: String;
        /// As in [`Record`].
        via: String;
        /// As in [`Record`].
        driven_by: Option<DrivenBy> => "Option::is_none";
        direction: Option<DumbbellWay> => "Option::is_none", "", "which way its data travels: `down`, `up`; only without links";
        from: Option<String> => "Option::is_none", "", "node that sent its data; only with links";
        to: Option<String> => "Option::is_none", "", "node that received its data; only with links";
        start_s: f64, "s", "when it began";
        end_s: f64, "s", "when it ended";
        throughput_mbps: f64, "Mbit/s", "data that arrived, headers included, from its start to its end";
        goodput_mbps: Option<f64>, "Mbit/s", "payload that reached the application, from its start to its end; `null` as above";
        /// As in [`Record`].
        delay_ms: Option<Span>;
        /// As in [`Record`].
        queue_ms: Option<Span>;
        /// As in [`Record`].
        rtt_ms: Option<Span>;
        /// As in [`Record`].
        loss: f64;
        packets: u64, "packets", "data packets that entered the path";
        /// As in [`Record`].
        retransmits: Option<u64>;
        /// As in [`Record`].
        timeouts: Option<u64>;
        /// As in [`Record`].
        ecn_marks: u64;
        /// As in [`Record`].
        fct_ms: Option<Span> => "Option::is_none";
        /// As in [`Record`].
        completions: Option<u64> => "Option::is_none";
        share: Option<f64> => "Option::is_none", "0..1",
            "data that arrived from its start to its end over what the slowest link on its way could carry then; only of \
             flows with `bytes`, beside others";
        limited_below: Option<f64> => "Option::is_none", "0..1",
            "share of the chunks passed to the lower TCP for which that TCP was the limit: it held back earlier \
             ones, or had refused this one; only for `alcc`";
        /// As in [`Record`].
        telemetry: Option<TelemetryRecord> => "Option::is_none";
        program: Option<ProgramRecord> => "Option::is_none", "",
            "only of a [program](programs.md): its `version`; `protocol` and `connections` as the path saw them; when the first \
             data packet entered, `first_data_s`; of `sender` and `receiver` how they ended, `status` or `signal`, when, `ended_s`, \
             and the CPU time of all their processes, `cpu_s`; `figures` of its own, and the files of `qlog` that it left";
        /// As in [`Record`].
        split: Split;
        frames: Vec<FramesRecord> => "Vec::is_empty", "",
            "one object for each stream of frames, see below; only of a workload of frames";
    }
}

described! {
    /// Frames of one stream of a flow.
    pub struct FramesRecord {
        stream: String, "", "name of the stream; `video` of `media_rate`";
        made: u64, "frames", "that were made, from `stats_from` on, as all that follows";
        complete: u64, "frames", "that arrived as a whole";
        late: Option<u64> => "Option::is_none", "frames", "of these, later than `late_after`; only with that";
        given_up: u64, "frames", "that were given up after `drop_after`";
        lost: u64, "frames", "never complete, because a part was lost and not sent again";
        /// As in [`Record`].
        frame_ms: Option<Span>;
    }
}

/// What a program left beside its packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramRecord {
    /// What it says of itself.
    pub version: Option<String>,
    /// `tcp`, `quic`, `udp`, `tcp+udp` and so on; `None` where it sent no data.
    pub protocol: Option<String>,
    /// Connections that carried data.
    pub connections: u64,
    /// When the first data packet entered the path, in seconds.
    pub first_data_s: Option<f64>,
    /// Where data comes from.
    pub sender: ProgramEndRecord,
    /// Where it goes.
    pub receiver: ProgramEndRecord,
    /// Numbers of its own, compared with nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// The qlogs that it left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qlog: Vec<String>,
}

/// How a side of a program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramEndRecord {
    /// Its exit status, where no signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// When, in seconds.
    pub ended_s: f64,
    /// CPU time of all its processes, in seconds.
    pub cpu_s: f64,
}

described! {
    /// A content router of a run.
    pub struct RouterRecord {
        node: String, "", "its node";
        requests: u64, "", "that it took in";
        hits: u64, "units", "that it was asked for and had";
        misses: u64, "units", "that it was asked for and did not have";
        sent_units: u64, "units", "that it sent";
    }
}

described! {
    /// One direction of a link of a run.
    pub struct LinkRecord {
        name: String, "", "name of the link; with `.back` for the direction from its second node to its first";
        from: String, "", "the node that packets come from";
        to: String, "", "the node that they go to";
        utilization: Option<f64>, "0..1",
            "bytes carried over what it could have carried in `seconds`; `null` where nothing limits it";
        queue_packets: f64, "packets", "that waited, on average over time, without the one in service";
        packets: u64, "packets", "that arrived at its queue";
        dropped: u64, "packets", "of these, dropped because the queue was full, or by its AQM";
        lost: u64, "packets", "lost at random behind the queue, or on the air although sent again";
        policed: Option<u64> => "Option::is_none", "packets", "dropped by its policer, before its queue; only where it has one";
        ecn_marks: u64, "packets", "marked \"congestion experienced\" by its AQM";
        frames_per_aggregate: Option<f64> => "Option::is_none", "frames",
            "in an aggregate, on average; this and what follows only of Wi-Fi links";
        airtime: Option<f64> => "Option::is_none", "0..1", "share of `seconds` in which its frames and their answers were on the air";
        frames_again: Option<u64> => "Option::is_none", "frames", "that had to be sent again";
        collisions: Option<u64> => "Option::is_none", "", "aggregates that collided with another sender's";
    }
}

/// What in-band telemetry said of losses, and what they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TelemetryRecord {
    /// Reports that reached senders.
    pub reports: u64,
    /// Of these, not believed.
    pub refused: u64,
    /// Packets that the medium lost, by what their receivers called it.
    pub medium: NamedRecord,
    /// Packets that queues dropped, by what their receivers called it.
    pub overflow: NamedRecord,
    /// Packets that policers dropped, by what their receivers called it; `None` where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policed: Option<NamedRecord>,
    /// Packets that senders declared lost, by what they knew then.
    pub sender: NamedRecord,
}

/// Losses by the reason given for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedRecord {
    /// The medium.
    pub medium: u64,
    /// A full queue.
    pub overflow: u64,
    /// A policer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub policed: u64,
    /// None.
    pub unknown: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A distribution in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Smallest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95 % lie below.
    pub p95: f64,
    /// 99 % lie below.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// Mean one-way delay by where it came from, for each direction; `null` where nothing travelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// From the network to the user.
    pub down: Option<Parts>,
    /// From the user to the network.
    pub up: Option<Parts>,
}

/// Parts of a mean one-way delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Distance and jitter, ms.
    pub propagation_ms: f64,
    /// Waiting, ms.
    pub queue_ms: f64,
    /// Being put on the wire, ms.
    pub transmission_ms: f64,
}

impl Record {
    /// The contestant: `CONTROLLER@VIA`.
    pub fn contestant(&self) -> String {
        format!("{}@{}", self.controller, self.via)
    }
}

/// `value` to six significant digits, so that its text is short and the same everywhere (our choice, because
/// quantiles of delay carry three). Not-a-number and infinity become zero: JSON has neither.
pub fn rounded(value: f64) -> f64 {
    if !value.is_finite() {
        return 0.0;
    }
    // Through decimal text: correctly rounded on every platform, without a logarithm.
    format!("{value:.5e}").parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits() {
        assert_eq!(rounded(1.0 / 3.0), 0.333_333);
        assert_eq!(rounded(123_456_789.0), 123_457_000.0);
        assert_eq!(rounded(f64::NAN), 0.0);
        assert_eq!(rounded(-0.000_012_345_678), -0.000_012_345_7);
    }
}
