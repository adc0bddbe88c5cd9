//! One connection to a server, from the request to the last word.

use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use paceline_alcc::transfer::{Answer, Client, HASH, News, Request};
use paceline_alcc::{Engine, Framing, Mode, Options};
use paceline_cc::{Nanos, Spec};

use super::{ClientError, Exchanged, Remote, TransferObserver};
use crate::channel::{Channel, Patience};
use crate::tls;

/// Bytes that wait for the controller at most (our choice: what leaves in 20 ms at 100 Mbit/s, so that progress is what has left).
const QUEUE: usize = 256 * 1024;
/// How long one look for the server's words takes (our choice).
const LOOK: Duration = Duration::from_millis(200);

/// What the server said, beside bytes.
pub(super) enum Told {
    Answer(Answer),
    Whole(Option<[u8; HASH]>),
    End(Answer),
}

/// A connection to a server.
pub(super) struct Session<'a> {
    host: String,
    pub(super) channel: Channel,
    protocol: Client,
    pub(super) patience: Duration,
    /// When the server's answer came.
    begun: Instant,
    rtts: Receiver<Nanos>,
    observer: &'a mut dyn TransferObserver,
    /// Bytes of the object that moved in this session.
    pub(super) moved: u64,
    /// From which byte on.
    pub(super) resumed: u64,
    /// How many the object has.
    pub(super) total: Option<u64>,
}

impl<'a> Session<'a> {
    /// Connects, asks, and hears the answer.
    pub(super) fn ask(
        remote: &Remote,
        request: Request,
        controller: &Spec,
        observer: &'a mut dyn TransferObserver,
    ) -> Result<(Self, Answer), ClientError> {
        let (address, patience) = (remote.address, remote.patience);
        let stream = TcpStream::connect_timeout(&address, patience)
            .map_err(|source| ClientError::NoConnection { address, source })?;
        let layer = match &remote.tls {
            Some(config) => {
                let host = host_of(&remote.host);
                let layer = tls::connect(config.clone(), host, &stream, patience);
                Some(layer.map_err(|source| ClientError::NoTls { address, host: host.to_owned(), source })?)
            }
            None => None,
        };
        let options =
            Options { controller: controller.clone(), mode: Mode::Framed, queue: QUEUE, ..Options::default() };
        let engine = Engine::start(options).map_err(ClientError::Engine)?;
        let (sender, rtts) = channel();
        let framing = Framing { layer, rtts: Some(sender) };
        let socket = engine.adopt_framed(stream.into(), framing).map_err(ClientError::System)?;
        let mut session = Self {
            host: remote.host.clone(),
            channel: Channel::new(socket),
            protocol: Client::new(request, remote.token.clone()),
            patience,
            begun: Instant::now(),
            rtts,
            observer,
            moved: 0,
            resumed: 0,
            total: None,
        };
        let asked = Instant::now();
        loop {
            match session.hear(LOOK, &mut |_| Ok(()))? {
                Some(Told::Answer(answer)) => {
                    session.begun = Instant::now();
                    return Ok((session, answer));
                }
                _ if asked.elapsed() > patience => {
                    return Err(ClientError::Silent { host: session.host, limit: patience });
                }
                _ => {}
            }
        }
    }

    /// Waits for a word of the server's, at most for `limit` without any bytes; `take` gets those of the object.
    pub(super) fn hear(
        &mut self,
        limit: Duration,
        take: &mut dyn FnMut(&[u8]) -> Result<(), ClientError>,
    ) -> Result<Option<Told>, ClientError> {
        self.rtts.try_iter().for_each(|rtt| self.observer.rtt(rtt));
        if self.observer.stops() {
            return Err(ClientError::Stopped);
        }
        loop {
            let (mut input, mut out) = (self.channel.input(), Vec::new());
            let news = self.protocol.read(&mut input, &mut out)?;
            let left = input.len();
            let (told, some) = match news {
                Some(News::Answer(answer)) => (Some(Told::Answer(answer)), true),
                Some(News::Whole(hash)) => (Some(Told::Whole(hash)), true),
                Some(News::End(answer)) => (Some(Told::End(answer)), true),
                Some(News::Bytes(bytes)) => {
                    take(bytes)?;
                    self.moved += bytes.len() as u64;
                    self.observer.moved(self.resumed + self.moved, self.total);
                    (None, true)
                }
                None => (None, false),
            };
            self.channel.taken(left);
            if !out.is_empty() {
                self.channel.say(&out)?;
            }
            if told.is_some() {
                return Ok(told);
            }
            if some || left > 0 {
                continue;
            }
            match self.channel.wait(limit)? {
                Some(0) => return Err(ClientError::Cut { host: self.host.clone() }),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// Takes what comes, in its order; answers the hash.
    pub(super) fn receive(
        &mut self,
        take: &mut dyn FnMut(&[u8]) -> Result<(), ClientError>,
    ) -> Result<Option<[u8; HASH]>, ClientError> {
        let mut patience = Patience::new(self.patience);
        loop {
            if let Some(Told::Whole(hash)) = self.hear(LOOK, take)? {
                return Ok(hash);
            }
            patience.moved(self.moved)?;
        }
    }

    /// Sends pieces until there is an empty one; a last word of the server's ends it before. `next` gets how many bytes were sent.
    pub(super) fn send(
        &mut self,
        mut next: impl FnMut(u64) -> Result<Vec<u8>, ClientError>,
    ) -> Result<Option<Answer>, ClientError> {
        let mut patience = Patience::new(self.patience);
        let asked = self.channel.socket.stats().delivered;
        loop {
            let piece = next(self.moved)?;
            if piece.is_empty() {
                return Ok(None);
            }
            let mut rest = piece.as_slice();
            while !rest.is_empty() {
                // A connection that broke may hold the reason.
                let taken = self.channel.offer(rest);
                if let Some(Told::End(answer)) = self.hear(Duration::ZERO, &mut |_| Ok(()))? {
                    return Ok(Some(answer));
                }
                let taken = taken?;
                rest = &rest[taken..];
                self.moved += taken as u64;
                let delivered = self.channel.socket.stats().delivered.saturating_sub(asked);
                self.observer.moved(self.resumed + delivered, self.total);
                patience.moved(delivered)?;
            }
        }
    }

    /// Hears nothing but the last word; the server may need time for `bytes` on its disk.
    pub(super) fn last_word(&mut self, bytes: u64) -> Result<Answer, ClientError> {
        // Our choice: a disk takes 20 MB/s.
        let limit = self.patience + Duration::from_secs(bytes / 20_000_000);
        let mut patience = Patience::new(limit);
        loop {
            if let Some(Told::End(answer)) = self.hear(LOOK, &mut |_| Ok(()))? {
                return Ok(answer);
            }
            patience.moved(self.channel.socket.stats().delivered)?;
        }
    }

    /// What came of it, `answer` being the last; then the connection ends, within `limit`.
    pub(super) fn end(self, answer: Answer, verified: bool, limit: Duration) -> Exchanged {
        self.rtts.try_iter().for_each(|rtt| self.observer.rtt(rtt));
        let stats = self.channel.socket.stats();
        let done = Exchanged {
            bytes: self.moved,
            resumed: self.resumed,
            took: self.begun.elapsed(),
            losses: stats.retransmits,
            timeouts: stats.timeouts,
            answer,
            verified,
        };
        self.channel.close(limit);
        done
    }
}

/// Without the port.
fn host_of(text: &str) -> &str {
    let host = match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => host,
        _ => text,
    };
    host.trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_a_certificate_names() {
        let hosts = ["example.org", "example.org:4436", "10.0.0.1:1", "[::1]:4436", "::1", "[::1]"].map(host_of);
        assert_eq!(hosts, ["example.org", "example.org", "10.0.0.1", "::1", "::1", "::1"]);
    }
}
