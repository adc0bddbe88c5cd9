//! What another process says of its sockets, and what a scrape asks: whatever is taken becomes metrics of whole lines and
//! leaves no control character for a terminal; a request is refused or answered as far as it has come, and more bytes
//! never turn one answer into another.
#![no_main]

// What asks for the names of a listening address is not of the parser.
#[allow(dead_code)]
#[path = "../../datapaths/alcc/src/export/http.rs"]
mod http;

use libfuzzer_sys::fuzz_target;
use paceline_alcc::export::{Answers, encode, read};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(process) = read(bytes) {
        let text = |text: &str| assert!(!text.contains(char::is_control), "{text:?}");
        text(&process.program);
        for line in &process.sockets {
            [&line.controller, &line.mode, &line.acks, &line.limited_by].into_iter().for_each(|field| text(field));
        }
        let metrics = encode(&Answers { processes: vec![process], ..Answers::default() });
        assert!(metrics.ends_with("# EOF\n"));
        for line in metrics.lines() {
            assert!(line.starts_with("# ") || line.starts_with("paceline_"), "{line:?} in {metrics}");
        }
    }
    for names in [http::Names::Any, http::Names::Local] {
        let whole = http::parse(bytes, names);
        for end in [0, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let part = http::parse(&bytes[..end], names);
            assert!(part == http::Request::Incomplete || part == whole, "{part:?} becomes {whole:?}");
        }
        if let http::Request::Refused(why) = whole {
            assert!(http::answer(why, "text/plain", why).starts_with(b"HTTP/1.1 4"));
        }
    }
});
