//! As much of HTTP/1.1 as a scrape needs: one `GET /metrics` (or `HEAD`), one answer, the end.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::format::{Format, of_accept};

/// Longest request (our choice: Prometheus sends some 300 bytes).
const LONGEST: usize = 8192;
/// Most header lines (our choice).
const HEADERS: usize = 64;

/// What to do with the bytes of a request so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Wait for more.
    Incomplete,
    /// Answer with the metrics.
    Metrics(Scrape),
    /// Answer that something is wrong: status and what it means.
    Refused(&'static str),
}

/// A request for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrape {
    /// How they are to be written.
    pub format: Format,
    /// `HEAD`: without them.
    pub head: bool,
}

impl Scrape {
    /// The whole answer, of the numbers in its format.
    pub fn answer(self, numbers: &str) -> Vec<u8> {
        let mut answer = answer("200 OK", self.format.content_type(), numbers);
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
    /// Those for who listens at this address. What others may reach they may read without a browser.
    pub fn at(address: SocketAddr) -> Self {
        if address.ip().is_loopback() { Self::Local } else { Self::Any }
    }

    fn take(self, host: &[u8]) -> bool {
        let Ok(host) = str::from_utf8(host) else { return false };
        let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = port.map_or(host, |(name, _)| name);
        let in_brackets = |name: &str| name.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
        let is_address = in_brackets(name).is_some() || name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4());
        self == Self::Any || is_address || name.eq_ignore_ascii_case("localhost")
    }
}

/// What to do with the bytes of a request so far.
pub fn parse(bytes: &[u8], names: Names) -> Request {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST => Request::Incomplete,
        Ok(httparse::Status::Partial) => Request::Refused("431 Request Header Fields Too Large"),
        Err(_) => Request::Refused("400 Bad Request"),
        Ok(httparse::Status::Complete(_)) if !may_ask(request.headers, names) => Request::Refused("403 Forbidden"),
        Ok(httparse::Status::Complete(_)) => match (request.method, request.path) {
            (Some(method @ ("GET" | "HEAD")), Some(path)) if path.split('?').next() == Some("/metrics") => {
                Request::Metrics(Scrape { format: format(request.headers), head: method == "HEAD" })
            }
            (Some("GET" | "HEAD"), _) => Request::Refused("404 Not Found"),
            _ => Request::Refused("405 Method Not Allowed"),
        },
    }
}

/// What its `Accept` asks for; several are one list (RFC 9110 section 5.3).
fn format(headers: &[httparse::Header<'_>]) -> Format {
    let accepts = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let accepts: Vec<_> = accepts.map(|header| String::from_utf8_lossy(header.value)).collect();
    of_accept(&accepts.join(","))
}

fn may_ask(headers: &[httparse::Header<'_>], names: Names) -> bool {
    let mut hosts = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host")).peekable();
    let named = hosts.peek().is_some() || names == Names::Any;
    named && hosts.all(|host| names.take(host.value))
}

/// A whole answer; `kind` is the content type.
pub fn answer(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nVary: Accept\r\nConnection: close\r\n\r\n"
    );
    (head + body).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Request = Request::Metrics(Scrape { format: Format::Text, head: false });

    #[test]
    fn only_a_scrape_is_answered() {
        let parse = |bytes: &[u8]| parse(bytes, Names::Any);
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), TEXT);
        assert_eq!(parse(b"GET /metrics?a=b HTTP/1.0\r\n\r\n"), TEXT);
        assert_eq!(
            parse(
                b"HEAD /metrics HTTP/1.1\r\naccept: text/plain;q=0.1\r\nAccept: application/openmetrics-text\r\n\r\n"
            ),
            Request::Metrics(Scrape { format: Format::OpenMetrics, head: true })
        );
        assert_eq!(parse(b"GET / HTTP/1.1\r\n\r\n"), Request::Refused("404 Not Found"));
        assert_eq!(parse(b"POST /metrics HTTP/1.1\r\n\r\n"), Request::Refused("405 Method Not Allowed"));
        assert_eq!(parse(b"\x16\x03\x01\x02"), Request::Refused("400 Bad Request"));
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost"), Request::Incomplete);
        let endless = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'x'; LONGEST]].concat();
        assert_eq!(parse(&endless), Request::Refused("431 Request Header Fields Too Large"));
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
        let refused = Request::Refused("403 Forbidden");
        for host in
            ["evil.example", "evil.example:9464", "localhost.evil.example", "127.0.0.1.evil", "::1", "", "[::1", "x:"]
        {
            assert_eq!(ask(&format!("host: {host}\r\n")), refused, "{host}");
        }
        assert_eq!(ask(""), refused);
        assert_eq!(ask("Host: localhost\r\nHost: evil.example\r\n"), refused);
    }
}
