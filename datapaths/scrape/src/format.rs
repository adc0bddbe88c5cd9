//! `OpenMetrics` 1.0 and the text format 0.0.4: which one is asked for, and the second from the first.

use std::fmt::Write;

/// How numbers are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrapeFormat {
    /// Prometheus's text format 0.0.4.
    #[default]
    Text,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl ScrapeFormat {
    /// Its media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The format for a request's `Accept` (RFC 9110 section 12.5.1): `OpenMetrics` when it is named and nothing else is preferred.
pub fn of_accept(accept: &str) -> ScrapeFormat {
    let mut best = (ScrapeFormat::Text, 0.0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let format = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "application/openmetrics-text" => ScrapeFormat::OpenMetrics,
            "text/plain" | "text/*" | "*/*" => ScrapeFormat::Text,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, |q| q.parse().unwrap_or(0.0));
        if weight > best.1 {
            best = (format, weight);
        }
    }
    best.0
}

/// The text format of what is written in `OpenMetrics`: a counter is named with its `_total`; units and the end are not said.
pub(crate) fn to_text(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            text += line;
            text.push('\n');
            continue;
        };
        let mut words = comment.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("HELP"), Some(name), Some(what)) => help = Some((name, what)),
            (Some("TYPE"), Some(name), Some(kind)) => {
                let (end, kind) = match kind {
                    "counter" => ("_total", kind),
                    "unknown" => ("", "untyped"),
                    _ => ("", kind),
                };
                if let Some((_, what)) = help.take().filter(|(of, _)| *of == name) {
                    // A string takes everything.
                    let _ = writeln!(text, "# HELP {name}{end} {what}");
                }
                let _ = writeln!(text, "# TYPE {name}{end} {kind}");
            }
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_answered() {
        // Prometheus 2.42, 3.0; Telegraf; curl; a browser.
        for (accept, format) in [
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                ScrapeFormat::OpenMetrics,
            ),
            ("application/vnd.google.protobuf;q=0.7,text/plain;version=0.0.4;q=0.3", ScrapeFormat::Text),
            ("text/plain", ScrapeFormat::Text),
            ("*/*", ScrapeFormat::Text),
            ("", ScrapeFormat::Text),
            ("text/plain, application/openmetrics-text;q=0.5", ScrapeFormat::Text),
            ("Application/OpenMetrics-Text", ScrapeFormat::OpenMetrics),
            ("application/openmetrics-text;q=0", ScrapeFormat::Text),
            ("application/openmetrics-text;q=x, ;;,", ScrapeFormat::Text),
        ] {
            assert_eq!(of_accept(accept), format, "{accept}");
        }
    }

    #[test]
    fn counters_have_their_whole_name_in_text() {
        let open = "# HELP a_bytes How many.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total{x=\"# y\"} 1\n\
                    # HELP b How much.\n# TYPE b gauge\nb 2.0\n# TYPE c unknown\nc 3\n# EOF\n";
        let text = "# HELP a_bytes_total How many.\n# TYPE a_bytes_total counter\na_bytes_total{x=\"# y\"} 1\n\
                    # HELP b How much.\n# TYPE b gauge\nb 2.0\n# TYPE c untyped\nc 3\n";
        assert_eq!(to_text(open), text);
    }
}
