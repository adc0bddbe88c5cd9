//! As much of HTTP/1.1 as a scrape needs: one `GET /metrics`, one answer, the end.

/// Longest request (our choice: Prometheus sends some 300 bytes).
pub(super) const LONGEST: usize = 8192;
/// Most header lines (our choice).
const HEADERS: usize = 64;

/// What to do with the bytes of a request so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Wait for more.
    Incomplete,
    /// Answer with the metrics.
    Metrics,
    /// Answer that something is wrong: status and what it means.
    Refused(&'static str),
}

pub(super) fn parse(bytes: &[u8]) -> Request {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST => Request::Incomplete,
        Ok(httparse::Status::Partial) => Request::Refused("431 Request Header Fields Too Large"),
        Err(_) => Request::Refused("400 Bad Request"),
        Ok(httparse::Status::Complete(_)) => match (request.method, request.path) {
            (Some("GET"), Some(path)) if path.split('?').next() == Some("/metrics") => Request::Metrics,
            (Some("GET"), _) => Request::Refused("404 Not Found"),
            _ => Request::Refused("405 Method Not Allowed"),
        },
    }
}

/// A whole answer; `kind` is the content type.
pub(super) fn answer(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    (head + body).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_scrape_is_answered() {
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), Request::Metrics);
        assert_eq!(parse(b"GET /metrics?a=b HTTP/1.0\r\n\r\n"), Request::Metrics);
        assert_eq!(parse(b"GET / HTTP/1.1\r\n\r\n"), Request::Refused("404 Not Found"));
        assert_eq!(parse(b"POST /metrics HTTP/1.1\r\n\r\n"), Request::Refused("405 Method Not Allowed"));
        assert_eq!(parse(b"\x16\x03\x01\x02"), Request::Refused("400 Bad Request"));
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost"), Request::Incomplete);
        let endless = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'x'; LONGEST]].concat();
        assert_eq!(parse(&endless), Request::Refused("431 Request Header Fields Too Large"));
    }
}
