//! What another process says of its sockets, and what a scrape asks: whatever is taken becomes metrics of whole lines and
//! leaves no control character for a terminal; a request is refused or answered as far as it has come, and more bytes
//! never turn one answer into another.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_alcc::export::{Answers, read, registry};
use paceline_scrape::{Names, ScrapeFormat, ScrapeRequest, expose, parse};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(process) = read(bytes) {
        let text = |text: &str| assert!(!text.contains(char::is_control), "{text:?}");
        text(&process.program);
        for line in &process.sockets {
            [&line.controller, &line.mode, &line.acks, &line.limited_by].into_iter().for_each(|field| text(field));
        }
        let registry = registry(&Answers { processes: vec![process], ..Answers::default() });
        let metrics = expose(&registry, ScrapeFormat::OpenMetrics) + &expose(&registry, ScrapeFormat::Text);
        assert!(metrics.contains("\n# EOF\n"));
        for line in metrics.lines() {
            assert!(line.starts_with("# ") || line.starts_with("paceline_"), "{line:?} in {metrics}");
        }
    }
    for names in [Names::Any, Names::Local] {
        let whole = parse(bytes, names);
        for end in [0, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let part = parse(&bytes[..end], names);
            assert!(part == ScrapeRequest::Incomplete || part == whole, "{part:?} becomes {whole:?}");
        }
        if let ScrapeRequest::Refused(refusal) = whole {
            let answer = refusal.answer();
            assert!(answer.starts_with(b"HTTP/1.1 4") || answer.starts_with(b"HTTP/1.1 204 "));
        }
    }
});
