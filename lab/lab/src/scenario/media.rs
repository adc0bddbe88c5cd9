//! Whether a workload of frames can run: the first thing that is wrong, its key below the workload's and what to write instead.

use paceline_cc::datapath::UDP;
use paceline_cc::{Bytes, Nanos, Rate};
use paceline_experiment::{MediaRate, Stream, Workload};

use crate::contestant::Contestant;

/// What is wrong, and with which key.
type Wrong = (String, String);

/// Most frames in a second (our choice: beyond it they are packets).
const MOST_FPS: f64 = 10_000.0;
/// Largest frame (our choice: a key frame of a video in 8K).
const LARGEST: Bytes = Bytes(100_000_000);

pub(super) fn check(workload: &Workload, contestants: &[Contestant]) -> Result<(), Wrong> {
    match workload {
        Workload::Media(streams) => check_streams(streams)?,
        Workload::MediaRate(media) => check_rate(media).map_err(|(key, problem)| wrong("media_rate", key, problem))?,
        _ => return Ok(()),
    }
    let carries = |one: &&Contestant| one.via.in_order() || one.via.row().datapath.name == UDP.name;
    match contestants.iter().find(|one| !carries(one)) {
        Some(one) => {
            let problem = format!(
                "{one} does not carry frames: they go over @udp and @tcp; take {}@udp, or another workload",
                one.controller
            );
            Err((String::new(), problem))
        }
        None => Ok(()),
    }
}

fn wrong(of: &str, key: &str, problem: &str) -> Wrong {
    (format!(".{of}.{key}"), problem.to_owned())
}

fn check_streams(streams: &[Stream]) -> Result<(), Wrong> {
    if streams.is_empty() {
        let example = "it has no stream; write [{ name = \"voice\", fps = 50, size = \"80B\" }]";
        return Err((".media".to_owned(), example.to_owned()));
    }
    for (index, stream) in streams.iter().enumerate() {
        let of = format!("media[{index}]");
        check_stream(stream).map_err(|(key, problem)| wrong(&of, key, problem))?;
        if streams[..index].iter().any(|other| other.name == stream.name) {
            return Err(wrong(&of, "name", "another stream of the flow is called so; give each a name of its own"));
        }
    }
    Ok(())
}

fn check_fps(fps: f64) -> Result<(), (&'static str, &'static str)> {
    if fps > 0.0 && fps <= MOST_FPS {
        Ok(())
    } else {
        Err(("fps", "it is not above 0 and at most 10000; give frames in a second, such as 30"))
    }
}

fn check_late(late_after: Option<Nanos>) -> Result<(), (&'static str, &'static str)> {
    if late_after == Some(Nanos::ZERO) {
        return Err(("late_after", "every frame is later than 0; give a time such as \"150ms\", or leave it out"));
    }
    Ok(())
}

fn check_stream(stream: &Stream) -> Result<(), (&'static str, &'static str)> {
    let sized = |size: Bytes| size > Bytes(0) && size <= LARGEST;
    if stream.name.trim().is_empty() {
        return Err(("name", "it is empty; give the stream a name, such as \"voice\""));
    }
    check_fps(stream.fps)?;
    if !sized(stream.size) {
        return Err(("size", "it is not between 1 byte and 100 MB; give the bytes of a frame, such as \"3750B\""));
    }
    if stream.count == Some(0) {
        return Err((
            "count",
            "0 frames are not a stream; give 1 or more, or leave it out for frames as long as the flow",
        ));
    }
    if stream.first.is_some() && stream.group == 0 {
        return Err(("first", "without groups there are no key frames; add group, such as group = 30"));
    }
    if stream.first.is_some_and(|first| !sized(first)) {
        return Err((
            "first",
            "it is not between 1 byte and 100 MB; give the bytes of a key frame, such as \"37500B\"",
        ));
    }
    if stream.drop_after == Some(Nanos::ZERO) {
        return Err(("drop_after", "no frame is sent in 0; give a time such as \"250ms\", or leave it out"));
    }
    check_late(stream.late_after)
}

fn check_rate(media: &MediaRate) -> Result<(), (&'static str, &'static str)> {
    check_fps(media.fps)?;
    if media.least < Rate::from_bytes_per_sec(125) {
        return Err(("least", "it is below 1 kbit/s; give the lowest rate of the encoder, such as \"150 kbit/s\""));
    }
    if media.most < media.least {
        return Err(("most", "it is below least; give a higher rate"));
    }
    if media.every == Nanos::ZERO {
        return Err(("every", "an encoder does not follow in 0; give a time such as \"1s\""));
    }
    if media.silent.is_some_and(|[from, until]| until <= from) {
        return Err(("silent", "it does not end after it begins; write [\"40s\", \"60s\"]"));
    }
    check_late(media.late_after)
}
