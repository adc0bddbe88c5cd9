//! Numbers as a request of OTLP, in JSON.
//!
//! They are made of what Prometheus is answered, so that a number has one name and one place. Counters become monotonic cumulative sums,
//! gauges gauges; of other kinds, which no exporter here has, nothing is sent.
//!
//! Sources: opentelemetry-proto 1.x, `metrics/v1/metrics.proto` and `collector/metrics/v1`; OpenTelemetry, "Prometheus and OpenMetrics
//! compatibility", for names and units; protobuf, "ProtoJSON format": 64-bit numbers and what is not finite are texts.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// The request for numbers in `OpenMetrics`, counted since a time.
pub fn to_otlp(open: &str, since: SystemTime, now: SystemTime) -> String {
    let nanos = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string();
    let (since, now) = (nanos(since), nanos(now));
    let mut metrics: Vec<Value> = Vec::new();
    let (mut help, mut unit, mut kind) = (("", ""), ("", ""), ("", ""));
    for line in open.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("HELP"), Some(name), Some(text)) => help = (name, text),
                (Some("TYPE"), Some(name), Some(text)) => kind = (name, text),
                (Some("UNIT"), Some(name), Some(text)) => unit = (name, text),
                _ => {}
            }
            continue;
        }
        let Some((labels, value)) = sample(line, kind.0) else { continue };
        let mut point = json!({ "attributes": labels, "timeUnixNano": now, "asDouble": number(value) });
        let (data, common) = match kind.1 {
            "counter" => {
                point["startTimeUnixNano"] = Value::from(since.clone());
                ("sum", json!({ "aggregationTemporality": 2, "isMonotonic": true }))
            }
            "gauge" => ("gauge", json!({})),
            _ => continue,
        };
        if metrics.last().is_none_or(|metric| metric["name"] != kind.0) {
            let mut metric = Map::new();
            metric.insert("name".to_owned(), kind.0.into());
            for (key, (of, text)) in [("description", help), ("unit", unit)] {
                if of == kind.0 {
                    metric.insert(key.to_owned(), if key == "unit" { code(text) } else { text.to_owned() }.into());
                }
            }
            metric.insert(data.to_owned(), common);
            metrics.push(metric.into());
        }
        if let Some(metric) = metrics.last_mut() {
            let points = &mut metric[data]["dataPoints"];
            match points {
                Value::Array(points) => points.push(point),
                _ => *points = json!([point]),
            }
        }
    }
    let resource = json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "paceline" } }] });
    let scope = json!({ "scope": { "name": "paceline", "version": env!("CARGO_PKG_VERSION") }, "metrics": metrics });
    json!({ "resourceMetrics": [{ "resource": resource, "scopeMetrics": [scope] }] }).to_string()
}

/// A unit in the Unified Code for Units of Measure; what it does not have is a text in braces there.
fn code(unit: &str) -> String {
    let one = |unit: &str| match unit {
        "seconds" => "s".to_owned(),
        "bytes" => "By".to_owned(),
        "ratio" => "1".to_owned(),
        counted => format!("{{{}}}", counted.strip_suffix('s').unwrap_or(counted)),
    };
    match unit.strip_suffix("_per_second") {
        Some(counted) => format!("{}/s", one(counted)),
        None => one(unit),
    }
}

/// A number in the JSON of protobuf, where those that JSON does not have are texts.
fn number(value: f64) -> Value {
    match value {
        value if value.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        value => value.into(),
    }
}

/// Labels and value of a line that is a sample of `name`.
fn sample(line: &str, name: &str) -> Option<(Vec<Value>, f64)> {
    let rest = line.strip_prefix(name).filter(|_| !name.is_empty())?;
    let rest = rest.strip_prefix("_total").unwrap_or(rest);
    let mut labels = Vec::new();
    let Some(mut rest) = rest.strip_prefix('{') else {
        return Some((labels, rest.strip_prefix(' ')?.split(' ').next()?.parse().ok()?));
    };
    loop {
        let (key, quoted) = rest.split_once("=\"")?;
        let mut text = String::new();
        let mut escaped = false;
        let end = quoted.char_indices().find_map(|(at, one)| {
            match (escaped, one) {
                (true, 'n') => text.push('\n'),
                (true, other) => text.push(other),
                (false, '\\') => {}
                (false, '"') => return Some(at),
                (false, other) => text.push(other),
            }
            escaped = !escaped && one == '\\';
            None
        })?;
        labels.push(json!({ "key": key, "value": { "stringValue": text } }));
        rest = &quoted[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some((labels, rest.strip_prefix("} ")?.split(' ').next()?.parse().ok()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_prometheus_is_answered_becomes_a_request() {
        let open = "# HELP p_lost_packets Packets.\n# TYPE p_lost_packets counter\n\
                    p_lost_packets_total{path=\"1>2\",cause=\"a \\\"b\\\" \\\\n\"} 8\np_lost_packets_total{path=\"3\"} 1\n\
                    # HELP p_latency_seconds Delay.\n# TYPE p_latency_seconds gauge\n# UNIT p_latency_seconds seconds\n\
                    p_latency_seconds 0.25\n# HELP p_rate_packets_per_second Rate.\n\
                    # TYPE p_rate_packets_per_second gauge\n# UNIT p_rate_packets_per_second packets_per_second\n\
                    p_rate_packets_per_second{a=\"\"} NaN\np_rate_packets_per_second{a=\"b\"} +Inf\n# TYPE p_h histogram\np_h_bucket{le=\"1\"} 4\n# EOF\n";
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let request: Value = serde_json::from_str(&to_otlp(open, at(1), at(2))).unwrap();
        let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        assert_eq!(metrics.len(), 3, "{request}");
        let label = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
        assert_eq!(
            metrics[0],
            json!({
                "name": "p_lost_packets", "description": "Packets.",
                "sum": { "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [
                    { "attributes": [label("path", "1>2"), label("cause", "a \"b\" \\n")],
                      "startTimeUnixNano": "1000000000", "timeUnixNano": "2000000000", "asDouble": 8.0 },
                    { "attributes": [label("path", "3")],
                      "startTimeUnixNano": "1000000000", "timeUnixNano": "2000000000", "asDouble": 1.0 },
                ] },
            })
        );
        assert_eq!(
            metrics[1],
            json!({
                "name": "p_latency_seconds", "description": "Delay.", "unit": "s",
                "gauge": { "dataPoints": [{ "attributes": [], "timeUnixNano": "2000000000", "asDouble": 0.25 }] },
            })
        );
        assert_eq!(metrics[2]["unit"], "{packet}/s");
        assert_eq!(metrics[2]["gauge"]["dataPoints"][0]["asDouble"], "NaN");
        assert_eq!(metrics[2]["gauge"]["dataPoints"][1]["asDouble"], "Infinity");
        well_formed(&request);
    }

    /// The members of an object are these; those with `?` may be absent.
    fn members<'a>(value: &'a Value, names: &[&str]) -> &'a Map<String, Value> {
        let object = value.as_object().unwrap_or_else(|| panic!("an object was expected: {value}"));
        let may: BTreeSet<&str> = names.iter().map(|name| name.trim_end_matches('?')).collect();
        assert!(object.keys().all(|key| may.contains(key.as_str())), "{names:?} were expected: {value}");
        assert!(names.iter().all(|name| name.ends_with('?') || object.contains_key(*name)), "{names:?}: {value}");
        object
    }

    fn attributes(value: &Value) {
        let mut keys = BTreeSet::new();
        for one in value.as_array().unwrap() {
            members(one, &["key", "value"]);
            assert!(members(&one["value"], &["stringValue"])["stringValue"].is_string());
            assert!(keys.insert(one["key"].as_str().unwrap()), "a key is there twice: {value}");
        }
    }

    fn nanoseconds(value: &Value) {
        let text = value.as_str().unwrap();
        assert!(text.parse::<u64>().is_ok(), "{text}");
    }

    /// Whether it is an `ExportMetricsServiceRequest`, with the names and units that the data model allows.
    fn well_formed(request: &Value) {
        members(request, &["resourceMetrics"]);
        for resource in request["resourceMetrics"].as_array().unwrap() {
            members(resource, &["resource", "scopeMetrics"]);
            members(&resource["resource"], &["attributes"]);
            attributes(&resource["resource"]["attributes"]);
            for scope in resource["scopeMetrics"].as_array().unwrap() {
                members(scope, &["scope", "metrics"]);
                members(&scope["scope"], &["name", "version"]);
                let mut names = BTreeSet::new();
                for metric in scope["metrics"].as_array().unwrap() {
                    let found = members(metric, &["name", "description?", "unit?", "sum?", "gauge?"]);
                    let name = metric["name"].as_str().unwrap();
                    assert!(names.insert(name), "{name} is there twice");
                    assert!(name.len() <= 255 && name.starts_with(|first: char| first.is_ascii_alphabetic()), "{name}");
                    assert!(metric["unit"].as_str().unwrap_or_default().len() <= 63);
                    assert!(found.contains_key("sum") != found.contains_key("gauge"), "{metric}");
                    let mut point = vec!["attributes", "timeUnixNano", "asDouble"];
                    let points = if let Some(sum) = found.get("sum") {
                        let sum = members(sum, &["aggregationTemporality", "isMonotonic", "dataPoints"]);
                        // AGGREGATION_TEMPORALITY_CUMULATIVE
                        assert_eq!((&sum["aggregationTemporality"], &sum["isMonotonic"]), (&json!(2), &json!(true)));
                        point.push("startTimeUnixNano");
                        &sum["dataPoints"]
                    } else {
                        &members(&metric["gauge"], &["dataPoints"])["dataPoints"]
                    };
                    for one in points.as_array().unwrap() {
                        members(one, &point);
                        attributes(&one["attributes"]);
                        nanoseconds(&one["timeUnixNano"]);
                        one.get("startTimeUnixNano").into_iter().for_each(nanoseconds);
                        let value = &one["asDouble"];
                        assert!(value.is_f64() || ["NaN", "Infinity", "-Infinity"].iter().any(|text| value == text));
                    }
                }
            }
        }
    }

    #[test]
    fn a_registry_becomes_a_request_whatever_its_labels_are() {
        for version in ["1.2.3", "", "a\"b\\c\nd", "\u{e4}, {} =", "\\n"] {
            let open = crate::expose(&crate::registry([version]), crate::ScrapeFormat::OpenMetrics);
            let request: Value = serde_json::from_str(&to_otlp(&open, UNIX_EPOCH, UNIX_EPOCH)).unwrap();
            well_formed(&request);
            let metric = &request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
            assert_eq!(metric["name"], "paceline_build_info", "{open}");
            assert_eq!(
                metric["gauge"]["dataPoints"][0]["attributes"],
                json!([{ "key": "version", "value": { "stringValue": version } }])
            );
        }
    }
}
