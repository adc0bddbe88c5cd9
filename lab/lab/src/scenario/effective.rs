//! A scenario as a file again: the values that stand for keys that are not given, and ranges as they were written.

use paceline_path::DrawSpan;
use paceline_path::config::{DEFAULT_QUEUE, WIFI_QUEUE};
use paceline_path::jitter::SCALE;

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
    let limited = ["rate", "schedule", "trace", "wifi"].into_iter().any(|key| keys.contains_key(key));
    let queue = if keys.contains_key("wifi") { WIFI_QUEUE } else { DEFAULT_QUEUE };
    if limited && !keys.contains_key("queue_schedule") {
        keys.entry("queue").or_insert_with(|| queue.to_string().into());
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
    let mut steps = key.split(['.', '[']).map(|step| step.trim_end_matches(']'));
    let Some(last) = steps.next_back() else { return };
    let inner = steps.try_fold(whole, |value, step| match value {
        toml::Value::Array(array) => array.get_mut(step.parse::<usize>().ok()?),
        value => value.get_mut(step),
    });
    match (inner, text) {
        (Some(toml::Value::Table(table)), Some(text)) => {
            table.insert(last.to_owned(), text.into());
        }
        (Some(toml::Value::Table(table)), None) => {
            table.remove(last);
        }
        (Some(toml::Value::Array(array)), Some(text)) => {
            if let Some(place) = last.parse::<usize>().ok().and_then(|index| array.get_mut(index)) {
                *place = text.into();
            }
        }
        _ => {}
    }
}
