//! As much of HTTP/1.1 as a scrape needs: one `GET /metrics` (or `HEAD`, `OPTIONS`), one answer, the end.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::format::{ScrapeFormat, of_accept};

/// Longest request (our choice: Prometheus sends some 300 bytes).
const LONGEST: usize = 8192;
/// Most header lines (our choice).
const HEADERS: usize = 64;

/// What to do with the bytes of a request so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrapeRequest {
    /// Wait for more.
    Incomplete,
    /// Answer with the metrics.
    Metrics(Scrape),
    /// Answer without them.
    Refused(Refusal),
}

/// An answer without metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status and what it means, such as `404 Not Found`.
    pub status: &'static str,
    /// `HEAD`: without a word to it.
    pub head: bool,
}

/// What may be asked for (RFC 9110 section 10.2.1).
const METHODS: &str = "GET, HEAD, OPTIONS";
/// The answer to `OPTIONS`.
const OPTIONS: &str = "204 No Content";
const NOT_ALLOWED: &str = "405 Method Not Allowed";

impl Refusal {
    /// The whole answer.
    pub fn answer(self) -> Vec<u8> {
        let Self { status, head } = self;
        let allow =
            if [OPTIONS, NOT_ALLOWED].contains(&status) { format!("Allow: {METHODS}\r\n") } else { String::new() };
        if status == OPTIONS {
            return format!("HTTP/1.1 {status}\r\n{allow}Connection: close\r\n\r\n").into_bytes();
        }
        let body = format!("{status}\n");
        let mut answer = answer(status, "text/plain", &allow, &body);
        if head {
            answer.truncate(answer.len() - body.len());
        }
        answer
    }
}

/// A request for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrape {
    /// How they are to be written.
    pub format: ScrapeFormat,
    /// `HEAD`: without them.
    pub head: bool,
}

impl Scrape {
    /// The whole answer, of the numbers in its format.
    pub fn answer(self, numbers: &str) -> Vec<u8> {
        let mut answer = answer("200 OK", self.format.content_type(), "", numbers);
        if self.head {
            answer.truncate(answer.len() - numbers.len());
        }
        answer
    }
}

/// The names of this machine that a request may ask by (the `Host` of RFC 9110 section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Any.
    Any,
    /// An address or `localhost`. A page in a browser on this machine may have its own name lead here (DNS rebinding), and
    /// would read the answer; the request has that name.
    Local,
}

impl Names {
    /// Those for a listener at this address. What others may reach they may read without a browser.
    pub fn at(address: SocketAddr) -> Self {
        if address.ip().is_loopback() { Self::Local } else { Self::Any }
    }

    /// Whether a request may ask by this host, which may have a port.
    pub fn admit(self, host: &[u8]) -> bool {
        let Ok(host) = str::from_utf8(host) else { return false };
        let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = port.map_or(host, |(name, _)| name);
        let in_brackets = |name: &str| name.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
        let is_address = in_brackets(name).is_some() || name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4());
        self == Self::Any || is_address || name.eq_ignore_ascii_case("localhost")
    }
}

/// What to do with the bytes of a request so far.
pub fn parse(bytes: &[u8], names: Names) -> ScrapeRequest {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(bytes);
    let refused = |status| ScrapeRequest::Refused(Refusal { status, head: request.method == Some("HEAD") });
    match parsed {
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST => return ScrapeRequest::Incomplete,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return refused("431 Request Header Fields Too Large");
        }
        Err(_) => return refused("400 Bad Request"),
        Ok(httparse::Status::Complete(_)) => {}
    }
    let (Some(method), Some(target)) = (request.method, request.path) else { return refused("400 Bad Request") };
    let hosts: Vec<&[u8]> = request
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("host"))
        .map(|header| header.value)
        .collect();
    // RFC 9112 section 3.2: one line, unless it is HTTP/1.0.
    if hosts.len() > 1 || hosts.is_empty() && request.version != Some(0) {
        return refused("400 Bad Request");
    }
    let (authority, path) = split(target);
    let host = authority.map(str::as_bytes).or(hosts.first().copied());
    if names != Names::Any && !host.is_some_and(|host| names.admit(host)) {
        return refused("403 Forbidden");
    }
    match method {
        "GET" | "HEAD" if path == "/metrics" => {
            ScrapeRequest::Metrics(Scrape { format: format(request.headers), head: method == "HEAD" })
        }
        "OPTIONS" if ["/metrics", "*"].contains(&path) => refused(OPTIONS),
        "GET" | "HEAD" | "OPTIONS" => refused("404 Not Found"),
        _ => refused(NOT_ALLOWED),
    }
}

/// A request's target as the host that it names (the absolute form of RFC 9112 section 3.2.2, by which `Host` is passed over) and its
/// path without what is behind `?`.
fn split(target: &str) -> (Option<&str>, &str) {
    let behind = ["http://", "https://"].iter().find_map(|scheme| {
        let (first, rest) = target.split_at_checked(scheme.len())?;
        first.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let (authority, path) = match behind {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (Some(authority), path)
        }
        None => (None, target),
    };
    (authority, path.split('?').next().unwrap_or_default())
}

/// What its `Accept` asks for; several are one list (RFC 9110 section 5.3).
fn format(headers: &[httparse::Header<'_>]) -> ScrapeFormat {
    let accepts = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let accepts: Vec<_> = accepts.map(|header| String::from_utf8_lossy(header.value)).collect();
    of_accept(&accepts.join(","))
}

/// A whole answer; `kind` is the content type, `more` are lines of its head.
fn answer(status: &str, kind: &str, more: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}Vary: Accept\r\nConnection: close\r\n\r\n"
    );
    (head + body).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: ScrapeRequest = ScrapeRequest::Metrics(Scrape { format: ScrapeFormat::Text, head: false });

    const fn refused(status: &'static str) -> ScrapeRequest {
        ScrapeRequest::Refused(Refusal { status, head: false })
    }

    #[test]
    fn only_a_scrape_is_answered() {
        let parse = |bytes: &[u8]| parse(bytes, Names::Any);
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), TEXT);
        assert_eq!(parse(b"GET /metrics?a=b HTTP/1.0\r\n\r\n"), TEXT);
        assert_eq!(
            parse(
                b"HEAD /metrics HTTP/1.1\r\nhost:\r\naccept: text/plain;q=0.1\r\nAccept: application/openmetrics-text\r\n\r\n"
            ),
            ScrapeRequest::Metrics(Scrape { format: ScrapeFormat::OpenMetrics, head: true })
        );
        let head = ScrapeRequest::Refused(Refusal { status: "404 Not Found", head: true });
        assert_eq!(parse(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"), head);
        for (line, status) in [
            ("GET /", "404 Not Found"),
            ("GET /metrics/", "404 Not Found"),
            ("GET *", "404 Not Found"),
            ("OPTIONS /", "404 Not Found"),
            ("OPTIONS *", "204 No Content"),
            ("OPTIONS /metrics", "204 No Content"),
            ("POST /metrics", "405 Method Not Allowed"),
            ("get /metrics", "405 Method Not Allowed"),
            ("CONNECT x:1", "405 Method Not Allowed"),
        ] {
            assert_eq!(parse(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()), refused(status), "{line}");
        }
        let bad = refused("400 Bad Request");
        assert_eq!(parse(b"\x16\x03\x01\x02"), bad);
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\n\r\n"), bad);
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n"), bad);
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost"), ScrapeRequest::Incomplete);
        let endless = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'x'; LONGEST]].concat();
        assert_eq!(parse(&endless), refused("431 Request Header Fields Too Large"));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: x\r\n".repeat(HEADERS + 1));
        assert_eq!(parse(many.as_bytes()), refused("431 Request Header Fields Too Large"));
    }

    #[test]
    fn a_target_may_be_absolute() {
        for target in ["http://x/metrics", "HTTP://x:80/metrics?a=/b", "https://[::1]:9/metrics"] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: y\r\n\r\n");
            assert_eq!(parse(request.as_bytes(), Names::Any), TEXT, "{target}");
        }
        let none =
            ["http://x", "http://x?/metrics", "http://x/y/metrics", "ftp://x/metrics", "x/metrics", "http:/metrics"];
        for target in none {
            let request = format!("GET {target} HTTP/1.1\r\nHost: y\r\n\r\n");
            assert_eq!(parse(request.as_bytes(), Names::Any), refused("404 Not Found"), "{target}");
        }
        // The host is the target's, whatever stands beside it.
        let ask = |target: &str, host: &str| {
            parse(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(), Names::Local)
        };
        assert_eq!(ask("http://127.0.0.1:9470/metrics", "evil.example"), TEXT);
        for target in ["http://evil.example/metrics", "http:///metrics", "http://localhost@evil.example/metrics"] {
            assert_eq!(ask(target, "localhost"), refused("403 Forbidden"), "{target}");
        }
    }

    #[test]
    fn what_is_refused_says_what_is_allowed() {
        let answer = |status, head| String::from_utf8(Refusal { status, head }.answer()).unwrap();
        let whole = answer(NOT_ALLOWED, false);
        assert!(
            whole.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n") && whole.ends_with("\r\n\r\n405 Method Not Allowed\n")
        );
        let none = answer("404 Not Found", true);
        assert!(none.contains("\r\nContent-Length: 14\r\n") && none.ends_with("\r\n\r\n"), "{none}");
        assert!(!none.contains("Allow"));
        assert_eq!(
            answer(OPTIONS, false),
            "HTTP/1.1 204 No Content\r\nAllow: GET, HEAD, OPTIONS\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn a_page_with_a_name_of_its_own_reads_nothing_of_the_loopback_address() {
        let names = |address: &str| Names::at(address.parse().unwrap());
        assert_eq!(
            (names("127.0.0.1:1"), names("[::1]:1"), names("0.0.0.0:1")),
            (Names::Local, Names::Local, Names::Any)
        );
        let ask = |headers: &str| parse(format!("GET /metrics HTTP/1.1\r\n{headers}\r\n").as_bytes(), Names::Local);
        for host in
            ["localhost", "LocalHost:9464", "127.0.0.1", "127.0.0.1:9464", "[::1]", "[::1]:9464", "192.0.2.1:80"]
        {
            assert_eq!(ask(&format!("Host: {host}\r\n")), TEXT, "{host}");
        }
        let refused = refused("403 Forbidden");
        for host in
            ["evil.example", "evil.example:9464", "localhost.evil.example", "127.0.0.1.evil", "::1", "", "[::1", "x:"]
        {
            assert_eq!(ask(&format!("host: {host}\r\n")), refused, "{host}");
        }
        assert_eq!(parse(b"GET /metrics HTTP/1.0\r\n\r\n", Names::Local), refused);
    }
}
