//! A scenario as a file again: the values that stand for keys that are not given, and ranges as they were written.

use paceline_path::config::{DEFAULT_QUEUE, WIFI_QUEUE};
use paceline_path::jitter::SCALE;
use paceline_path::{Bucket, DrawSpan};
use serde::Deserialize;

use super::Flow;

/// Writes the flow that runs where none is given, and of each direction the values that stand for keys that are not given. What is
/// nothing by default (a jitter, an outage) has no value to write.
pub(super) fn fill(whole: &mut toml::Value, flows: &[Flow]) {
    let Some(whole) = whole.as_table_mut() else { return };
    if let (Some(toml::Value::Array(given)), Ok(toml::Value::Array(flows))) =
        (whole.get_mut("flows"), toml::Value::try_from(flows))
        && given.is_empty()
    {
        *given = flows;
    }
    if let Some(links) = whole.get_mut("links").and_then(toml::Value::as_table_mut) {
        for (_, link) in links.iter_mut() {
            fill_direction(link);
            if let Some(back) = link.get_mut("back") {
                fill_direction(back);
            }
        }
        return;
    }
    for key in ["down", "up"] {
        if let Some(direction) = whole.get_mut(key) {
            fill_direction(direction);
        }
    }
}

fn fill_direction(direction: &mut toml::Value) {
    let Some(keys) = direction.as_table_mut() else { return };
    let limited = ["rate", "schedule", "trace", "bucket", "wifi"].into_iter().any(|key| keys.contains_key(key));
    let queue = if keys.contains_key("wifi") { WIFI_QUEUE } else { DEFAULT_QUEUE };
    if limited && !keys.contains_key("queue_schedule") {
        keys.entry("queue").or_insert_with(|| queue.to_string().into());
    }
    if let Some(bucket) = keys.get_mut("bucket") {
        let burst = Bucket::deserialize(bucket.clone()).map(|bucket| bucket.burst().to_string());
        if let (Ok(burst), Some(bucket)) = (burst, bucket.as_table_mut()) {
            bucket.entry("burst").or_insert_with(|| burst.into());
        }
    }
    if !keys.contains_key("loss_schedule") {
        keys.entry("loss").or_insert_with(|| 0.0.into());
    }
    keys.entry("duplicate").or_insert_with(|| 0.0.into());
    let steps = keys.get_mut("jitter_schedule").and_then(toml::Value::as_array_mut);
    let stepped = steps.into_iter().flatten().filter_map(|step| step.get_mut(1)).collect::<Vec<_>>();
    for jitter in stepped {
        fill_jitter(jitter);
    }
    if let Some(jitter) = keys.get_mut("jitter") {
        fill_jitter(jitter);
    }
}

fn fill_jitter(jitter: &mut toml::Value) {
    if let Some(keys) = jitter.as_table_mut().filter(|keys| keys.contains_key("wifi")) {
        keys.entry("per").or_insert_with(|| DrawSpan::default().to_string().into());
        keys.entry("scale").or_insert_with(|| SCALE.into());
    }
}

/// Puts a text, or nothing, in the place of a key such as `flows[0].start`.
pub(super) fn restore(whole: &mut toml::Value, key: &str, text: Option<&str>) {
    let behind = |rest: &str| rest.strip_prefix('.').unwrap_or(rest).to_owned();
    match whole {
        toml::Value::Table(table) => {
            // What a `[[when]]` sets has dots in its keys.
            let end = key.find(['.', '[']).filter(|_| !table.contains_key(key));
            match (end, text) {
                (Some(end), _) => {
                    if let Some(inner) = table.get_mut(&key[..end]) {
                        restore(inner, &behind(&key[end..]), text);
                    }
                }
                (None, Some(text)) => _ = table.insert(key.to_owned(), text.into()),
                (None, None) => _ = table.remove(key),
            }
        }
        toml::Value::Array(array) => {
            let Some((index, rest)) = key.strip_prefix('[').and_then(|key| key.split_once(']')) else { return };
            let place = index.parse::<usize>().ok().and_then(|index| array.get_mut(index));
            match (place, text) {
                (Some(place), Some(text)) if rest.is_empty() => *place = text.into(),
                (Some(place), _) => restore(place, &behind(rest), text),
                (None, _) => {}
            }
        }
        _ => {}
    }
}
