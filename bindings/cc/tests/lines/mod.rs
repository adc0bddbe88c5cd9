//! Event logs as lines of numbers, which `replay.c` reads.

use std::fmt::Write;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use paceline_cc::event_log::{Header, Line, Reader, Recorded};
use paceline_cc::observe::Answers;
use paceline_cc::{Ability, Acked, Cause, Ecn, Hop, Lost, Nanos, Pacing, Phase, Rate, Recovery, Spec, Time};

/// The lines of a log.
pub(crate) fn of(path: &Path) -> String {
    let mut reader = Reader::new(&path.display().to_string(), BufReader::new(File::open(path).unwrap())).unwrap();
    let mut out = String::new();
    start(reader.header(), &mut out);
    for line in &mut reader {
        let Line { event, answers, .. } = line.unwrap();
        write_event(&event, &mut out);
        write_answers(&answers, &mut out);
    }
    out
}

/// Writes words with blanks between them.
macro_rules! put {
    ($out:expr, $first:expr $(, $rest:expr)*) => {{
        write!($out, "{}", $first).unwrap();
        $(write!($out, " {}", $rest).unwrap();)*
        $out.push(' ');
    }};
}

fn start(header: &Header, out: &mut String) {
    let env = header.env;
    assert!(env.remembered.is_none(), "the interface does not lend yet");
    put!(out, "new", header.controller, env.mss, env.seed, u8::from(env.paced));
    let constants = header.constants;
    let ecn = match constants.ecn {
        Ecn::Off => 0,
        Ecn::Classic => 1,
        Ecn::Exact => 2,
        Ecn::L4s => 3,
    };
    let recovery = u8::from(constants.recovery == Recovery::Controller);
    let spec: Spec = header.controller.parse().unwrap();
    // In the order of PACELINE_CAN_*.
    let bits = [
        Ability::ReceiverHalf,
        Ability::ExactGaps,
        Ability::ExactMarks,
        Ability::Telemetry,
        Ability::ArrivalTimes,
        Ability::Ect1,
    ];
    let needs: u32 = bits.iter().enumerate().map(|(at, ability)| u32::from(spec.needs(*ability)) << at).sum();
    put!(out, recovery, ecn, constants.heartbeat.map_or(0, Nanos::as_nanos), needs);
    write_answers(&header.answers, out);
}

fn write_answers(answers: &Answers, out: &mut String) {
    let (pacing, pace) = match answers.pacing {
        Pacing::Free => (0, 0),
        Pacing::Rate(rate) => (1, rate.as_bytes_per_sec()),
        Pacing::Gap(gap) => (2, gap.as_nanos()),
    };
    let holds = u8::from(answers.holds_against_marks);
    put!(out, "=", answers.window, pacing, pace, answers.next_tick.as_nanos(), answers.threshold, holds);
    out.push('\n');
}

/// One number for several switches.
fn flags<const COUNT: usize>(switches: [bool; COUNT]) -> u32 {
    switches.iter().enumerate().map(|(at, switch)| u32::from(*switch) << at).sum()
}

fn write_event(event: &Recorded, out: &mut String) {
    let now = event.now().as_nanos();
    match event {
        Recorded::Sent(sent, stamp) => {
            let flags = flags([sent.retransmission, sent.app_limited]);
            put!(out, "sent", now, sent.seq, sent.bytes, sent.in_flight, sent.unsent, flags, stamp.tag, stamp.note);
        }
        Recorded::Acked(ack, packets) => {
            let rate = ack.rate;
            let flags = flags([
                ack.rtt.is_some(),
                rate.is_some(),
                rate.is_some_and(|rate| rate.app_limited),
                rate.is_some_and(|rate| rate.retransmission),
                ack.echo,
                ack.window_limited,
            ]);
            put!(out, "acked", flags, now, ack.bytes, ack.rtt.map_or(0, Nanos::as_nanos), ack.srtt.as_nanos());
            let min = if ack.min_rtt == Nanos::MAX { 0 } else { ack.min_rtt.as_nanos() };
            let interval = rate.map_or(0, |rate| rate.interval.as_nanos());
            let (delivered, prior) = rate.map_or((0, 0), |rate| (rate.delivered, rate.prior_delivered));
            put!(out, min, delivered, interval, prior, ack.prior_in_flight, ack.in_flight, ack.lost_bytes);
            let phase = match ack.phase {
                Phase::Open => 0,
                Phase::Cwr => 1,
                Phase::Recovery => 2,
                Phase::Loss => 3,
            };
            put!(out, ack.ce_bytes, ack.ce_packets, ack.delivered, ack.una, ack.next, phase, packets.len());
            packets.iter().for_each(|packet| write_acked(packet, out));
        }
        Recorded::Lost(loss, packets) => {
            let flags = flags([loss.new_episode]);
            put!(out, "lost", flags, now, loss.bytes, loss.prior_in_flight, loss.in_flight);
            write_lost(packets, out);
        }
        Recorded::Timeout(timeout, packets) => {
            put!(out, "timeout", timeout.count, now, timeout.prior_in_flight, timeout.in_flight);
            write_lost(packets, out);
        }
        Recorded::Cause(_, packets) => {
            put!(out, "cause", now);
            write_lost(packets, out);
        }
        Recorded::Telemetry(telemetry, hops) => {
            let (seq, sent_at, tag) = telemetry.packet.map_or((0, 0, 0), |it| (it.seq, it.sent_at.as_nanos(), it.tag));
            let flags = flags([telemetry.packet.is_some()]);
            put!(out, "telemetry", flags, now, seq, sent_at, tag, cause(telemetry.verdict));
            put!(out, telemetry.fresh_for.as_nanos(), hops.len());
            hops.iter().for_each(|hop| write_hop(hop, out));
        }
        Recorded::Feedback { blob, refused, .. } => {
            put!(out, "feedback", now, blob.len());
            blob.iter().for_each(|byte| put!(out, byte));
            put!(out, u8::from(*refused));
        }
        Recorded::Mss(_, mss) => put!(out, "mss", now, mss),
        Recorded::Restart(restart) => put!(out, "restart", now, restart.idle.as_nanos(), restart.rto.as_nanos()),
        Recorded::AppLimited { in_flight, .. } => put!(out, "app_limited", now, in_flight),
        Recorded::SharedRtt(_, min) => put!(out, "shared_rtt", now, min.as_nanos()),
        Recorded::Spurious(_) => put!(out, "spurious", now),
        Recorded::Tick(_) => put!(out, "tick", now),
    }
}

fn write_acked(packet: &Acked, out: &mut String) {
    let flags = flags([packet.retransmitted, packet.app_limited, packet.ce, packet.received_at.is_some()]);
    let received_at = packet.received_at.map_or(0, Time::as_nanos);
    put!(out, packet.seq, packet.bytes, packet.sent_at.as_nanos(), packet.tag, flags, received_at);
}

fn cause(cause: Cause) -> u32 {
    match cause {
        Cause::Unknown => 0,
        Cause::Congestion => 1,
        Cause::Aqm => 2,
        Cause::Policer => 3,
        Cause::Medium => 4,
        Cause::Handover => 5,
    }
}

fn write_lost(packets: &[Lost], out: &mut String) {
    put!(out, packets.len());
    for packet in packets {
        put!(out, packet.seq, packet.bytes, packet.sent_at.as_nanos(), packet.tag, cause(packet.cause));
    }
}

fn write_hop(hop: &Hop, out: &mut String) {
    let known = flags([
        hop.arrived_at.is_some(),
        hop.delay.is_some(),
        hop.queue_bytes.is_some(),
        hop.capacity.is_some(),
        hop.arrival.is_some(),
        hop.room_packets.is_some(),
        hop.limit_packets.is_some(),
        hop.flows.is_some(),
        hop.drops.is_some(),
        hop.signal_dbm.is_some(),
        hop.radio_retry_share.is_some(),
    ]);
    let rate = |rate: Option<Rate>| rate.map_or(0, Rate::as_bytes_per_sec);
    put!(out, hop.id, known, hop.arrived_at.map_or(0, Time::as_nanos), hop.delay.map_or(0, Nanos::as_nanos));
    put!(out, hop.queue_bytes.unwrap_or(0), rate(hop.capacity), rate(hop.arrival), hop.room_packets.unwrap_or(0));
    put!(out, hop.limit_packets.unwrap_or(0), hop.flows.unwrap_or(0), hop.drops.unwrap_or(0));
    let bits = |number: Option<f32>| number.map_or(0, f32::to_bits);
    put!(out, bits(hop.signal_dbm), bits(hop.radio_retry_share));
}
