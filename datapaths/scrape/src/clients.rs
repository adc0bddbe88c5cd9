//! The connections of those that ask: several at a time, none of which holds up another, and each with one deadline for all that it does.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use crate::format::ScrapeFormat;
use crate::http::{Names, Scrape, ScrapeRequest, parse};

/// Most connections at a time; one more ends the oldest (our choice).
pub const CLIENTS: usize = 16;
/// How long a connection may take in all (our choice: a scrape takes milliseconds).
const PATIENCE: Duration = Duration::from_secs(5);

/// The connections, oldest first. Their sockets do not block; their owner waits for [`Clients::interests`].
#[derive(Debug)]
pub struct Clients {
    all: Vec<Client>,
    patience: Duration,
}

impl Default for Clients {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl Clients {
    /// None yet; each may take this long in all.
    pub const fn with_patience(patience: Duration) -> Self {
        Self { all: Vec::new(), patience }
    }

    /// One that will ask, by one of these names.
    pub fn ask(&mut self, now: Instant, socket: OwnedFd, names: Names) {
        self.keep(Client { socket, stage: Stage::Request(Vec::new(), names), sent: 0, deadline: now + self.patience });
    }

    /// One that is told something without asking.
    pub fn tell(&mut self, now: Instant, socket: OwnedFd, answer: Vec<u8>) {
        let mut client = Client { socket, stage: Stage::Answer(answer), sent: 0, deadline: now + self.patience };
        if client.proceed().unwrap_or(false) {
            self.keep(client);
        }
    }

    fn keep(&mut self, client: Client) {
        if self.all.len() >= CLIENTS {
            self.all.remove(0);
        }
        self.all.push(client);
    }

    /// Ends those whose time is over.
    pub fn expire(&mut self, now: Instant) {
        self.all.retain(|client| client.deadline > now);
    }

    /// When the next one's time is over; `None` without any.
    pub fn deadline(&self) -> Option<Instant> {
        self.all.iter().map(|client| client.deadline).min()
    }

    /// What they wait for, one after the other.
    pub fn interests(&self) -> impl ExactSizeIterator<Item = PollFd<'_>> {
        self.all.iter().map(Client::interest)
    }

    /// Goes on with those that are ready, as [`Clients::interests`] has them.
    pub fn proceed(&mut self, ready: &[bool]) {
        let mut ready = ready.iter().copied();
        self.all.retain_mut(|client| {
            // A client that waits for numbers is only ready when it has gone.
            !ready.next().unwrap_or(false) || (!client.waits() && client.proceed().unwrap_or(false))
        });
    }

    /// Whether one waits for numbers.
    pub fn waiting(&self) -> bool {
        self.all.iter().any(Client::waits)
    }

    /// Answers those that wait, with numbers that are made once for each format.
    pub fn answer(&mut self, numbers: impl Fn(ScrapeFormat) -> String) {
        let mut made: [Option<String>; 2] = [None, None];
        self.all.retain_mut(|client| {
            let Stage::Metrics(scrape) = client.stage else { return true };
            let made = &mut made[usize::from(scrape.format == ScrapeFormat::OpenMetrics)];
            client.stage = Stage::Answer(scrape.answer(made.get_or_insert_with(|| numbers(scrape.format))));
            client.proceed().unwrap_or(false)
        });
    }
}

/// Where a connection stands.
#[derive(Debug)]
enum Stage {
    /// What came of a request so far, and the names that it may ask by.
    Request(Vec<u8>, Names),
    /// For numbers.
    Metrics(Scrape),
    /// What is to be sent.
    Answer(Vec<u8>),
}

#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    stage: Stage,
    sent: usize,
    deadline: Instant,
}

impl Client {
    fn interest(&self) -> PollFd<'_> {
        let flags = match self.stage {
            Stage::Request(..) => PollFlags::IN,
            Stage::Metrics(_) => PollFlags::empty(),
            Stage::Answer(_) => PollFlags::OUT,
        };
        PollFd::from_borrowed_fd(self.socket.as_fd(), flags)
    }

    fn waits(&self) -> bool {
        matches!(self.stage, Stage::Metrics(_))
    }

    /// Goes on as far as it can; `false` when it is done.
    fn proceed(&mut self) -> rustix::io::Result<bool> {
        if let Stage::Request(request, names) = &mut self.stage {
            let mut bytes = [0; 1024];
            let (count, _) = recv(&self.socket, &mut bytes, RecvFlags::empty())?;
            request.extend_from_slice(&bytes[..count]);
            self.stage = match parse(request, *names) {
                ScrapeRequest::Incomplete => return Ok(count > 0),
                ScrapeRequest::Metrics(scrape) => Stage::Metrics(scrape),
                ScrapeRequest::Refused(refusal) => Stage::Answer(refusal.answer()),
            };
        }
        let Stage::Answer(answer) = &self.stage else { return Ok(true) };
        while self.sent < answer.len() {
            match send(&self.socket, &answer[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(rustix::io::Errno::AGAIN) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        shutdown(&self.socket, Shutdown::Write)?;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

    fn pair(clients: &mut Clients, now: Instant) -> UnixStream {
        let (here, there) = UnixStream::pair().unwrap();
        there.set_nonblocking(true).unwrap();
        clients.ask(now, there.into(), Names::Local);
        here
    }

    /// Goes on with all; those that have said nothing would block, and stay.
    fn turn(clients: &mut Clients) {
        let mut polled: Vec<_> = clients.interests().collect();
        let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&zero)).unwrap();
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        drop(polled);
        clients.proceed(&ready);
        clients.answer(|_| "1\n".to_owned());
    }

    #[test]
    fn one_that_trickles_holds_up_no_other_and_has_one_deadline() {
        let (mut clients, now) = (Clients::default(), Instant::now());
        let mut slow = pair(&mut clients, now);
        for (second, byte) in (0..4).zip(REQUEST) {
            slow.write_all(&[*byte]).unwrap();
            clients.expire(now + Duration::from_secs(second));
            let mut quick = pair(&mut clients, now + Duration::from_secs(second));
            quick.write_all(REQUEST).unwrap();
            turn(&mut clients);
            let mut text = String::new();
            quick.read_to_string(&mut text).unwrap();
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\n1\n"), "{text}");
            assert_eq!(clients.interests().len(), 1);
        }
        assert_eq!(clients.deadline(), Some(now + PATIENCE));
        clients.expire(now + PATIENCE);
        assert_eq!(clients.interests().len(), 0);
        assert_eq!(slow.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn one_that_does_not_read_ends_and_the_oldest_makes_place() {
        let (mut clients, now) = (Clients::default(), Instant::now());
        let mut idle: Vec<UnixStream> = (0..=CLIENTS).map(|_| pair(&mut clients, now)).collect();
        assert_eq!(clients.interests().len(), CLIENTS);
        assert_eq!(idle[0].read(&mut [0]).unwrap(), 0);
        // More than a socket holds: it stays until it reads, or its time is over.
        let (here, there) = UnixStream::pair().unwrap();
        there.set_nonblocking(true).unwrap();
        clients.tell(now, there.into(), vec![0; 64 << 20]);
        turn(&mut clients);
        assert_eq!(clients.interests().len(), CLIENTS);
        clients.expire(now + PATIENCE);
        assert_eq!(clients.interests().len(), 0);
        drop(here);
    }
}
