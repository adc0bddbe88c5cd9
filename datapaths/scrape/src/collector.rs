//! Sends numbers to an OpenTelemetry collector: OTLP over HTTP/1.1, in JSON.
//!
//! A collector that is absent, slow or refuses never stops who has the numbers: it is tried again, later each time, and one line says so.
//! Nothing waits to be sent again, since sums are cumulative: the next request has all that the one before had. There is no TLS, and no
//! credentials are sent: the collector is on this host, or behind a tunnel.
//!
//! Source: OpenTelemetry protocol 1.x, "OTLP/HTTP": paths, answers, partial success, `Retry-After`.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::format::ScrapeFormat;
use crate::otlp::to_otlp;
use crate::serve::Numbers;

/// Between two requests (our choice: exporters of OpenTelemetry wait a minute, Prometheus 15 s).
const EVERY: Duration = Duration::from_secs(10);
/// For a whole request with its answer (our choice; exporters of OpenTelemetry: 10 s).
const PATIENCE: Duration = Duration::from_secs(5);
/// After each request that was not taken the next one waits twice as long, this many times (our choice: up to 80 s).
const DOUBLINGS: u32 = 3;
/// The longest that a collector may put off the next request by `Retry-After` (our choice).
const LONGEST: Duration = Duration::from_secs(600);
/// What collectors listen at, and the path of metrics.
const PORT: u16 = 4318;
const PATH: &str = "/v1/metrics";
/// Most of an answer that is read, and most lines of its head (our choice).
const ANSWER: usize = 8192;
const HEADERS: usize = 64;

/// Where a collector is: `http://HOST`, with a port (4318 without) and a path (`/v1/metrics` without).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    host: String,
    path: String,
}

/// What a collector's address cannot be. It has nothing of the text, in which there may be a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectorError {
    /// Another scheme, or none.
    #[error(
        "it does not begin with http://; give http://HOST:4318, and where TLS is needed a collector on this host that has it"
    )]
    Scheme,
    /// An `@`.
    #[error("it has a user or a password, which are not sent; give http://HOST:4318, a collector that needs none")]
    Credentials,
    /// White space, a control character, or what is not ASCII.
    #[error("it has a character that an address does not have; give http://HOST:4318")]
    Character,
    /// No host, or IPv6 without brackets.
    #[error("it has no host; give http://HOST:4318, an IPv6 address in brackets")]
    Host,
    /// The port.
    #[error("its port is not a number from 1 to 65535; give one such as http://HOST:4318")]
    Port,
}

impl FromStr for Collector {
    type Err = CollectorError;

    fn from_str(text: &str) -> Result<Self, CollectorError> {
        let rest = text.strip_prefix("http://").ok_or(CollectorError::Scheme)?;
        let (host, path) = rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
        if host.contains('@') {
            return Err(CollectorError::Credentials);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(CollectorError::Character);
        }
        let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, port)) => (name, port),
            None => host.split_at(host.find(':').unwrap_or(host.len())),
        };
        if name.is_empty() || name.contains(['[', ']']) {
            return Err(CollectorError::Host);
        }
        let number = port.strip_prefix(':').map_or(Some(PORT), |digits| digits.parse().ok().filter(|port| *port > 0));
        let number = number.filter(|_| port.is_empty() || port.starts_with(':')).ok_or(CollectorError::Port)?;
        let host = format!("{}:{number}", &host[..host.len() - port.len()]);
        Ok(Self { host, path: if ["", "/"].contains(&path) { PATH } else { path }.to_owned() })
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.host, self.path)
    }
}

/// Why a collector has not taken a request.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    #[error("{0}")]
    Unreachable(#[from] io::Error),
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    #[error("what it answers is not HTTP/1.1; is an OTLP receiver there?")]
    Foreign,
    #[error("it answers {status} {reason}{}", hint(*.status))]
    Refused { status: u16, reason: String, after: Option<Duration> },
    #[error("it refuses {rejected} of the numbers: {message:?}")]
    Partial { rejected: u64, message: String },
}

/// What may be wrong.
const fn hint(status: u16) -> &'static str {
    match status {
        300..=399 => ", and another address is not followed; give the one that it names",
        400 | 415 | 422 => ", and should take OTLP metrics in JSON",
        401 | 403 | 407 => ", and credentials are not sent; a collector on this host can add them",
        404 | 405 => ", and has nothing at this path; collectors have /v1/metrics",
        _ => "",
    }
}

impl Collector {
    /// Sends a request, once.
    fn post(&self, body: &str, patience: Duration) -> Result<(), NotTaken> {
        let due = Instant::now() + patience;
        let left = || {
            Some(due.saturating_duration_since(Instant::now()))
                .filter(|left| !left.is_zero())
                .ok_or(NotTaken::Late(patience))
        };
        let in_time = |error: io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => NotTaken::Late(patience),
            _ => NotTaken::Unreachable(error),
        };
        let mut connected = Err(NotTaken::Unreachable(io::Error::new(ErrorKind::NotFound, "its name has no address")));
        for address in self.host.to_socket_addrs()? {
            connected = TcpStream::connect_timeout(&address, left()?).map_err(in_time);
            if connected.is_ok() {
                break;
            }
        }
        let mut stream = connected?;
        let Self { host, path } = self;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let request = [head.as_bytes(), body.as_bytes()].concat();
        let mut rest = &request[..];
        while !rest.is_empty() {
            stream.set_write_timeout(Some(left()?))?;
            match stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It may have answered why, and closed.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                Err(error) => return Err(in_time(error)),
            }
        }
        let (mut answer, mut piece) = (Vec::new(), [0; 2048]);
        loop {
            match read_answer(&answer)? {
                Some((head, body)) if body.len() >= head.length || answer.len() >= ANSWER => {
                    return head.taken(body);
                }
                None if answer.len() >= ANSWER => return Err(NotTaken::Foreign),
                _ => {}
            }
            stream.set_read_timeout(Some(left()?))?;
            match stream.read(&mut piece) {
                Ok(0) => {
                    let (head, body) = read_answer(&answer)?.ok_or(NotTaken::Foreign)?;
                    return head.taken(body);
                }
                Ok(count) => answer.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(in_time(error)),
            }
        }
    }
}

/// The head of an answer.
struct Head {
    status: u16,
    reason: String,
    /// Octets of its body; as many as there may be, where it does not say so.
    length: usize,
    after: Option<Duration>,
}

/// The head and what has come of the body; `None`: the head is not complete.
fn read_answer(octets: &[u8]) -> Result<Option<(Head, &[u8])>, NotTaken> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(at) = answer.parse(octets).map_err(|_| NotTaken::Foreign)? else { return Ok(None) };
    let number = |name: &str| {
        let header = answer.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()?.trim().parse::<u64>().ok()
    };
    let reason: String = answer.reason.unwrap_or_default().chars().filter(|letter| !letter.is_control()).collect();
    let length = number("content-length").and_then(|length| usize::try_from(length).ok()).unwrap_or(ANSWER);
    let after = number("retry-after").map(Duration::from_secs);
    Ok(Some((Head { status: answer.code.unwrap_or(0), reason, length, after }, &octets[at..])))
}

impl Head {
    fn taken(self, body: &[u8]) -> Result<(), NotTaken> {
        let Self { status, reason, after, .. } = self;
        if !(200..300).contains(&status) {
            return Err(NotTaken::Refused { status, reason, after });
        }
        // A body that cannot be read says nothing.
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let partial = &body["partialSuccess"];
        let of = &partial["rejectedDataPoints"];
        // Numbers of 64 bits are texts in the JSON of protobuf.
        let rejected = of.as_u64().or_else(|| of.as_str()?.parse().ok()).unwrap_or(0);
        match rejected {
            0 => Ok(()),
            _ => {
                let message = partial["errorMessage"].as_str().unwrap_or_default().chars().take(200).collect();
                Err(NotTaken::Partial { rejected, message })
            }
        }
    }
}

/// Sends numbers to a collector until it is dropped, and once more then.
#[derive(Debug)]
pub struct CollectorFeed {
    stop: Option<Sender<()>>,
    ended: Receiver<()>,
    patience: Duration,
}

impl CollectorFeed {
    /// Sends the numbers of the moment now, and again each ten seconds. When the collector does not take them, `said` is given a line, the next
    /// request waits 20 s, 40 s, 80 s, or as long as the collector says; and another line when it takes them again.
    ///
    /// # Errors
    /// There are no resources. What the collector does is never an error.
    pub fn begin(collector: Collector, numbers: Numbers, said: impl Fn(&str) + Send + 'static) -> io::Result<Self> {
        Self::at_pace(collector, numbers, (EVERY, PATIENCE), said)
    }

    fn at_pace(
        collector: Collector,
        numbers: Numbers,
        (every, patience): (Duration, Duration),
        said: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let since = SystemTime::now();
        thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            let _end = end;
            let send = || {
                let document = to_otlp(&numbers(ScrapeFormat::OpenMetrics), since, SystemTime::now());
                collector.post(&document, patience)
            };
            run(&collector, every, &stopped, send, said);
        })?;
        Ok(Self { stop: Some(stop), ended, patience })
    }
}

impl Drop for CollectorFeed {
    /// Waits for the last request, no longer than for any other: what still runs then ends with the process.
    fn drop(&mut self) {
        self.stop.take();
        let _ = self.ended.recv_timeout(self.patience);
    }
}

fn run(
    collector: &Collector,
    every: Duration,
    stopped: &Receiver<()>,
    send: impl Fn() -> Result<(), NotTaken>,
    said: impl Fn(&str),
) {
    let mut missed = 0_u32;
    loop {
        let mut wait = every;
        match send() {
            Ok(()) if missed > 0 => {
                said(&format!("{collector}: it takes the numbers again, with what it missed ({missed} requests)"));
                missed = 0;
            }
            Ok(()) => {}
            Err(error) => {
                missed = missed.saturating_add(1);
                wait = every * 2_u32.pow(missed.min(DOUBLINGS));
                if let NotTaken::Refused { after: Some(after), .. } = error {
                    wait = wait.max(after.min(LONGEST));
                }
                if missed == 1 {
                    said(&format!("{collector}: {error}; it is tried again, and nothing else waits for it"));
                }
            }
        }
        if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            // The newest numbers; one that does not take them now has had its time.
            if missed == 0 {
                let _ = send();
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests;
