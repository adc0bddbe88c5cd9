//! The words behind an event's: which packets, and its keys.

use std::ops::RangeInclusive;

use paceline_cc::{Bytes, Cause, Hop, Nanos, Rate, Time};

use super::statement::{What, Which};
use super::words::Words;
use super::{MOST_STEPS, ScriptError};

pub(super) const SPAN: &str = "a time such as 20ms or 1.5s";
const SIZE: &str = "a size such as 1448 or 15kB";
pub(super) const COUNT: &str = "a number from 1 to 100000";
pub(super) const WHOLE: &str = "a whole number";

const CAUSES: [(&str, Cause); 6] = [
    ("unknown", Cause::Unknown),
    ("congestion", Cause::Congestion),
    ("aqm", Cause::Aqm),
    ("policer", Cause::Policer),
    ("medium", Cause::Medium),
    ("handover", Cause::Handover),
];

pub(super) fn mss(text: &str) -> Option<u32> {
    let Bytes(size) = text.parse().ok()?;
    u32::try_from(size).ok().filter(|size| (1..=65_535).contains(size))
}

/// What stands behind a key and its `=`.
pub(super) fn value<T>(
    words: &mut Words<'_>,
    wanted: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, ScriptError> {
    if !words.take("=") {
        return Err(words.error(words.place(), "a key has '=' and a value behind it: rtt=40ms"));
    }
    words.read(wanted, read)
}

pub(super) fn time(text: &str) -> Option<Time> {
    text.parse().ok().map(|span: Nanos| Time::ZERO + span)
}

pub(super) fn cause(words: &mut Words<'_>) -> Result<Cause, ScriptError> {
    let place = words.place();
    words
        .one_of("cause", &CAUSES)?
        .ok_or_else(|| words.error(place, "a cause is missing: congestion, medium or another"))
}

pub(super) fn count(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| (1..=MOST_STEPS).contains(number))
}

pub(super) fn sign(words: &mut Words<'_>) -> Result<(), ScriptError> {
    if words.take("=") {
        Ok(())
    } else {
        Err(words.error(words.place(), "a key has '=' and a value behind it: rtt=40ms"))
    }
}

/// `10`, `all`, `window`, `packet 3`, `packets 3..7, 9`.
pub(super) fn which(words: &mut Words<'_>) -> Result<Which, ScriptError> {
    const WANTED: &str = "a number of packets, 'all', or 'packets' and their numbers: packets 3..7";
    match words.peek().map(|word| word.text) {
        Some("packet" | "packets") => named(words),
        Some("all") => {
            words.next();
            Ok(Which::All)
        }
        _ => words.read(WANTED, count).map(Which::Count),
    }
}

pub(super) fn named(words: &mut Words<'_>) -> Result<Which, ScriptError> {
    if !words.take("packet") && !words.take("packets") {
        return Err(words.error(words.place(), "write 'packets' and their numbers: packets 3..7"));
    }
    let mut numbers = Vec::new();
    loop {
        numbers.push(words.read("a packet's number or a range of them, such as 3..7", range)?);
        if !words.take(",") {
            return Ok(Which::Numbers(numbers));
        }
    }
}

fn range(text: &str) -> Option<RangeInclusive<u64>> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let (from, to) = (count(from)?, count(to)?);
    (from <= to).then_some(from..=to)
}

/// Which packets, and the time between them where each has an event of its own.
pub(super) fn packets(words: &mut Words<'_>) -> Result<(Which, Option<Nanos>), ScriptError> {
    let which = which(words)?;
    let every = if words.take("every") { Some(words.read(SPAN, |text| text.parse().ok())?) } else { None };
    Ok((which, every))
}

pub(super) fn sent(words: &mut Words<'_>) -> Result<What, ScriptError> {
    let (which, every) = if words.take("window") {
        (Which::All, None)
    } else if words.peek().is_some_and(|word| word.text == "all") {
        return Err(words.error(words.place(), "write 'sent window' for as many packets as the window lets"));
    } else {
        packets(words)?
    };
    let (mut bytes, mut unsent) = (None, u64::MAX);
    while let Some(key) = words.one_of("key of sent", &[("bytes", 0), ("unsent", 1)])? {
        if key == 0 {
            bytes = Some(value(words, "a size from 1 to 65535 B", mss)?);
        } else {
            Bytes(unsent) = value(words, SIZE, |text| text.parse().ok())?;
        }
    }
    Ok(What::Sent { which, every, bytes, unsent })
}

pub(super) fn acked(words: &mut Words<'_>) -> Result<What, ScriptError> {
    if words.take("handshake") {
        let Some(()) = words.one_of("key of acked handshake", &[("rtt", ())])? else {
            return Err(words.error(words.place(), "a handshake has a round trip; write acked handshake rtt=40ms"));
        };
        return Ok(What::Handshake { rtt: value(words, SPAN, |text| text.parse().ok())? });
    }
    let (which, every) = packets(words)?;
    let (mut marked, mut received_at) = (false, None);
    while let Some(key) = words.one_of("key of acked", &[("ce", 0), ("received_at", 1)])? {
        if key == 0 {
            marked = true;
        } else {
            received_at = Some(value(words, SPAN, time)?);
        }
    }
    Ok(What::Acked { which, every, marked, received_at })
}

pub(super) fn telemetry(words: &mut Words<'_>) -> Result<What, ScriptError> {
    const KEYS: [&str; 16] = [
        "packet",
        "verdict",
        "fresh_for",
        "hop",
        "id",
        "arrived_at",
        "delay",
        "queue_bytes",
        "room_packets",
        "limit_packets",
        "capacity",
        "arrival",
        "flows",
        "drops",
        "signal_dbm",
        "radio_retry_share",
    ];
    let span = |text: &str| text.parse::<Nanos>().ok();
    let rate = |text: &str| text.parse::<Rate>().ok();
    let whole = |text: &str| text.parse::<u32>().ok();
    let real = |text: &str| text.parse::<f32>().ok().filter(|number| number.is_finite());
    let (mut packet, mut verdict, mut fresh_for, mut hops) = (None, Cause::Unknown, Nanos::MAX, Vec::<Hop>::new());
    let keys = KEYS.map(|key| (key, key));
    loop {
        let place = words.place();
        let Some(key) = words.one_of("key of telemetry", &keys)? else { break };
        match key {
            "packet" => packet = Some(value(words, COUNT, count)?),
            "verdict" => {
                sign(words)?;
                verdict = cause(words)?;
            }
            "fresh_for" => fresh_for = value(words, SPAN, span)?,
            "hop" => hops.push(Hop::default()),
            _ => {
                let Some(hop) = hops.last_mut() else {
                    return Err(
                        words.error(place, "what a hop reports stands behind 'hop': telemetry hop id=1 delay=2ms")
                    );
                };
                match key {
                    "id" => hop.id = value(words, WHOLE, whole)?,
                    "arrived_at" => hop.arrived_at = Some(value(words, SPAN, time)?),
                    "delay" => hop.delay = Some(value(words, SPAN, span)?),
                    "queue_bytes" => {
                        hop.queue_bytes = Some(value(words, SIZE, |text| text.parse().ok().map(|Bytes(size)| size))?);
                    }
                    "room_packets" => hop.room_packets = Some(value(words, WHOLE, whole)?),
                    "limit_packets" => hop.limit_packets = Some(value(words, WHOLE, whole)?),
                    "capacity" => hop.capacity = Some(value(words, "a rate such as 12Mbit/s", rate)?),
                    "arrival" => hop.arrival = Some(value(words, "a rate such as 12Mbit/s", rate)?),
                    "flows" => hop.flows = Some(value(words, WHOLE, whole)?),
                    "drops" => hop.drops = Some(value(words, WHOLE, whole)?),
                    "signal_dbm" => hop.signal_dbm = Some(value(words, "a number", real)?),
                    _ => hop.radio_retry_share = Some(value(words, "a number", real)?),
                }
            }
        }
    }
    Ok(What::Telemetry { packet, verdict, fresh_for, hops })
}
