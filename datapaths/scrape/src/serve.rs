//! Answers scrapes at an address, in a thread of its own.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::clients::{CLIENTS, Clients};
use crate::format::ScrapeFormat;
use crate::http::Names;

/// The numbers of the moment, in a format. It is called between clients, and nothing else waits for them.
pub type Numbers = Box<dyn Fn(ScrapeFormat) -> String + Send>;

/// An address that is answered until this is dropped.
#[derive(Debug)]
pub struct ScrapeServer {
    address: SocketAddr,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl ScrapeServer {
    /// Takes the address: then a scrape waits until [`BoundServer::answer`].
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn bind(address: SocketAddr) -> io::Result<BoundServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(BoundServer { address: listener.local_addr()?, listener })
    }

    /// Where it answers.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ScrapeServer {
    fn drop(&mut self) {
        // A counter that is full has woken it already.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An address that is not answered yet.
#[derive(Debug)]
pub struct BoundServer {
    address: SocketAddr,
    listener: TcpListener,
}

impl BoundServer {
    /// Where it will answer.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers each scrape with the numbers of the moment.
    ///
    /// # Errors
    /// There are no resources.
    pub fn answer(self, numbers: Numbers) -> io::Result<ScrapeServer> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (address, stopped) = (self.address, stop.clone());
        let thread = thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || run(&self.listener, Names::at(address), &stopped, &numbers))?;
        Ok(ScrapeServer { address, stop, thread: Some(thread) })
    }
}

fn run(listener: &TcpListener, names: Names, stop: &OwnedFd, numbers: &Numbers) {
    let mut clients = Clients::default();
    loop {
        clients.expire(Instant::now());
        let left = clients.deadline().map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut polled = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        polled.extend(clients.interests());
        // A signal, or no memory for a moment: the same again.
        let Ok(_) = poll(&mut polled, timeout.as_ref()) else { continue };
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        if ready[0] {
            return;
        }
        clients.proceed(&ready[2..]);
        for _ in 0..CLIENTS {
            let Ok((stream, _)) = listener.accept() else { break };
            if stream.set_nonblocking(true).is_ok() {
                clients.ask(Instant::now(), stream.into(), names);
            }
        }
        clients.answer(numbers);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn server() -> ScrapeServer {
        let registry = crate::registry(["1.2.3"]);
        let bound = ScrapeServer::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        bound.answer(Box::new(move |format| crate::expose(&registry, format))).unwrap()
    }

    fn ask(server: &ScrapeServer, request: &str) -> String {
        let mut client = TcpStream::connect(server.address()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn head_has_everything_but_the_numbers() {
        let server = server();
        let whole = ask(&server, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (head, body) = whole.split_once("\r\n\r\n").unwrap();
        assert!(body.ends_with("paceline_build_info{version=\"1.2.3\"} 1\n"), "{body}");
        assert!(
            head.contains("\r\nContent-Type: text/plain; version=0.0.4") && head.contains("\r\nVary: Accept"),
            "{head}"
        );
        assert_eq!(ask(&server, "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"), format!("{head}\r\n\r\n"));
    }

    #[test]
    fn openmetrics_is_for_who_asks() {
        let server = server();
        let text =
            ask(&server, "GET /metrics HTTP/1.1\r\nHost: [::1]:1\r\nAccept: application/openmetrics-text\r\n\r\n");
        assert!(text.contains("application/openmetrics-text; version=1.0.0") && text.ends_with("# EOF\n"), "{text}");
        assert!(ask(&server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404 "));
    }

    #[test]
    fn others_are_answered_beside_those_that_say_nothing_and_the_address_is_given_back() {
        let server = server();
        let idle: Vec<_> = (0..CLIENTS - 1).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        for _ in 0..3 {
            assert!(ask(&server, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 200 "));
        }
        let address = server.address();
        drop((server, idle));
        // What was answered may be in TIME_WAIT; a listener takes the address all the same, as Rust's does by SO_REUSEADDR.
        assert!(TcpListener::bind(address).is_ok());
    }
}
