//! A client: uploads a file, or fetches one, and goes on where the same stopped before.

mod session;

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_alcc::transfer::token::Token;
use paceline_alcc::transfer::{Answer, Breach, ENDLESS, Kind, NONCE, Request, Status};
use paceline_cc::{Ability, Nanos, Spec};
use paceline_files::{Draft, Kept, OutputError, followed, part_of};
use ring::digest::{Context, SHA256};
use rustls::ClientConfig;

use crate::ChannelError;
use crate::hash::hash_into;
use session::Session;

/// Bytes of one read of the file (our choice: some frames).
const PIECE: usize = 64 * 1024;
/// How long the end of an upload waits for the server's (our choice).
const FAREWELL: Duration = Duration::from_secs(1);
/// The patience where nothing is said.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and how it is asked.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Its name, with or without a port: for errors, and what its certificate has to be for.
    pub host: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// What it lets in.
    pub token: Option<Token>,
    /// TLS below the frames ([`crate::tls::client`]).
    pub tls: Option<Arc<ClientConfig>>,
    /// It is given up when less than 1 KiB has moved in so long.
    pub patience: Duration,
}

/// Sees a transfer while it runs.
pub trait TransferObserver {
    /// So many bytes of the object are over, of so many where that is known.
    fn moved(&mut self, _bytes: u64, _of: Option<u64>) {}

    /// An RTT was measured: of acknowledgements, without how long they waited at the receiver.
    fn rtt(&mut self, _sample: Nanos) {}

    /// The transfer is to end, as [`ClientError::Stopped`]; asked every 0.2 s at least once there is a connection.
    fn stops(&self) -> bool {
        false
    }
}

/// Sees nothing.
impl TransferObserver for () {}

/// What came of a transfer.
#[derive(Clone, Debug)]
pub struct Exchanged {
    /// Bytes of the object that moved.
    pub bytes: u64,
    /// From which byte on.
    pub resumed: u64,
    /// From the server's first answer on.
    pub took: Duration,
    /// Packets that TCP sent again.
    pub losses: u32,
    /// Its timeouts.
    pub timeouts: u32,
    /// The server's last answer: [`Status::Go`] where all went well, else why it did not.
    pub answer: Answer,
    /// Both ends have the same SHA-256.
    pub verified: bool,
}

/// Why there was no transfer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection.
    #[error("{address}: no connection; is a paceline alcc serve there?")]
    NoConnection {
        /// Who was asked.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The handshake of TLS failed.
    #[error("{address}: no TLS with a server that is certified as {host}")]
    NoTls {
        /// Who was asked.
        address: SocketAddr,
        /// What its certificate has to name.
        host: String,
        /// What was wrong.
        source: io::Error,
    },
    /// There is no engine.
    #[error("the engine above TCP cannot start")]
    Engine(#[source] io::Error),
    /// The server says nothing.
    #[error("{host}: no answer within {:.0} s; if it speaks TLS, `paceline alcc` with --tls-ca does", limit.as_secs_f64())]
    Silent {
        /// Who was asked.
        host: String,
        /// For so long.
        limit: Duration,
    },
    /// The server ended its stream too early.
    #[error("{host}: the connection ended too early; the same command goes on where it stands")]
    Cut {
        /// Who was asked.
        host: String,
    },
    /// The observer ended it ([`TransferObserver::stops`]).
    #[error("stopped; the same again goes on from there")]
    Stopped,
    /// The connection carries no more.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The server broke the protocol.
    #[error(transparent)]
    Breach(#[from] Breach),
    /// What is to be sent is a folder, a device, or the like.
    #[error("{}: is not a regular file; name one", .0.display())]
    NotAFile(PathBuf),
    /// A file cannot be opened.
    #[error("{}: cannot be read ({source})", path.display())]
    Unopened {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be read any more.
    #[error("{}: cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file was written to.
    #[error("{}: became shorter while it was sent; send it again", .0.display())]
    Shrank(PathBuf),
    /// What is fetched cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Another process fetches into the same part.
    #[error("{}: another fetch writes it; wait for its end", .0.display())]
    PartHeld(PathBuf),
    /// The bytes are not those of the server's file.
    #[error("{name}: what came is not what {host} has; {fix}")]
    Mismatch {
        /// The file's name there.
        name: String,
        /// The server.
        host: String,
        /// What became of the bytes, and what to do.
        fix: String,
    },
    /// The system failed.
    #[error("{0}")]
    System(#[source] io::Error),
}

impl Remote {
    /// The server at `address`, without token and TLS, and with a patience of 30 s.
    pub fn new(address: SocketAddr) -> Self {
        Self { host: address.to_string(), address, token: None, tls: None, patience: PATIENCE }
    }

    /// Uploads a file under this name, by this controller. The same again goes on where the one before stopped.
    ///
    /// # Errors
    /// [`ClientError`]. Where the server refuses, [`Exchanged::answer`] says why.
    pub fn send(
        &self,
        path: &Path,
        name: &str,
        controller: &Spec,
        observer: &mut dyn TransferObserver,
    ) -> Result<Exchanged, ClientError> {
        let (mut file, size, id) = open(path)?;
        let half = half_of(controller);
        let request = Request { size, id, half, ..Request::new(Kind::Put, name) };
        let (mut session, answer) = Session::ask(self, request, controller, observer)?;
        if answer.status != Status::Go {
            return Ok(session.end(answer, false, FAREWELL));
        }
        let held = answer.number;
        (session.resumed, session.total) = (held, Some(size));
        let mut hash = Context::new(&SHA256);
        let mut piece = vec![0; PIECE];
        let mut next = |left: u64| {
            let wanted = left.min(PIECE as u64) as usize;
            let read = file.read(&mut piece[..wanted]);
            let read = read.map_err(|source| ClientError::Unreadable { path: path.to_owned(), source })?;
            if read == 0 && wanted > 0 {
                return Err(ClientError::Shrank(path.to_owned()));
            }
            hash.update(&piece[..read]);
            Ok(piece[..read].to_vec())
        };
        let mut at = 0;
        // What is there already counts for the hash.
        while at < held {
            at += next(held - at)?.len() as u64;
        }
        let answer = match session.send(|sent| next(size - held - sent))? {
            Some(early) => early,
            None => {
                session.channel.say(hash.finish().as_ref())?;
                session.last_word(size)?
            }
        };
        let verified = answer.status == Status::Go;
        Ok(session.end(answer, verified, FAREWELL))
    }

    /// Sends zeros that the server drops: `size` of them, or for `time`, whichever ends first; without both there is no end.
    ///
    /// # Errors
    /// As [`Remote::send`].
    pub fn send_zeros(
        &self,
        size: Option<u64>,
        time: Option<Duration>,
        controller: &Spec,
        observer: &mut dyn TransferObserver,
    ) -> Result<Exchanged, ClientError> {
        let size = size.unwrap_or(ENDLESS).min(ENDLESS);
        let request = Request { size, half: half_of(controller), ..Request::new(Kind::Discard, "") };
        let (mut session, mut answer) = Session::ask(self, request, controller, observer)?;
        if answer.status == Status::Go {
            session.total = time.is_none().then_some(size);
            let until = time.map(|time| Instant::now() + time);
            let early = session.send(|sent| {
                let over = until.is_some_and(|until| Instant::now() >= until);
                let count = if over { 0 } else { (size - sent).min(PIECE as u64) };
                Ok(vec![0; count as usize])
            })?;
            answer = match early {
                Some(answer) => answer,
                None => {
                    if size == ENDLESS {
                        session.channel.socket.shutdown_write();
                    }
                    session.last_word(0)?
                }
            };
            if answer.status == Status::Go {
                session.moved = answer.number;
            }
        }
        Ok(session.end(answer, false, FAREWELL))
    }

    /// Fetches a file into `to`, which appears when it is whole; until then its bytes are in a part beside it, and the same again goes on from
    /// there. To a device, a pipe or `-` (standard output) they go in order. `controller` is that of what this end says, which is short.
    ///
    /// # Errors
    /// As [`Remote::send`].
    pub fn fetch(
        &self,
        name: &str,
        to: &Path,
        controller: &Spec,
        observer: &mut dyn TransferObserver,
    ) -> Result<Exchanged, ClientError> {
        let (kept, held) = part(to, &format!("{name} of {}", self.host))?;
        let request = Request { offset: held, ..Request::new(Kind::Get, name) };
        let asked = Session::ask(self, request, controller, observer);
        let (mut session, answer) = match asked {
            Ok((session, answer)) if answer.status == Status::Go => (session, answer),
            refused => {
                // Nothing came, and nothing was there.
                if held == 0 {
                    kept.into_iter().for_each(Kept::remove);
                }
                let (session, answer) = refused?;
                return Ok(session.end(answer, false, Duration::ZERO));
            }
        };
        (session.resumed, session.total) = (held, Some(answer.number));
        let mut hash = Context::new(&SHA256);
        let wrong = |fix: String| ClientError::Mismatch { name: name.to_owned(), host: self.host.clone(), fix };
        let Some(kept) = kept else {
            let mut draft = Draft::create(to)?;
            let said = session.receive(&mut |bytes| {
                draft.write_all(bytes).map_err(|source| unwritten(to, source))?;
                hash.update(bytes);
                Ok(())
            })?;
            draft.finish()?;
            if said.is_none_or(|said| hash.finish().as_ref() != said) {
                return Err(wrong(format!("do not use what was written to {}, fetch it again", to.display())));
            }
            return Ok(session.end(answer, true, Duration::ZERO));
        };
        hash_into(&mut hash, kept.file(), held).map_err(|source| unwritten(kept.path(), source))?;
        let mut at = held;
        let said = session.receive(&mut |bytes| {
            kept.file().write_all_at(bytes, at).map_err(|source| unwritten(to, source))?;
            hash.update(bytes);
            at += bytes.len() as u64;
            Ok(())
        })?;
        if said.is_none_or(|said| hash.finish().as_ref() != said) {
            kept.remove();
            return Err(wrong("the part was removed, fetch it again".to_owned()));
        }
        kept.place(to).map_err(|unplaced| unwritten(to, unplaced.source))?;
        Ok(session.end(answer, true, Duration::ZERO))
    }

    /// Fetches so many zeros.
    ///
    /// # Errors
    /// As [`Remote::send`].
    pub fn fetch_zeros(
        &self,
        size: u64,
        controller: &Spec,
        observer: &mut dyn TransferObserver,
    ) -> Result<Exchanged, ClientError> {
        let request = Request { size, ..Request::new(Kind::Generate, "") };
        let (mut session, answer) = Session::ask(self, request, controller, observer)?;
        if answer.status == Status::Go {
            session.total = Some(size);
            session.receive(&mut |_| Ok(()))?;
        }
        Ok(session.end(answer, false, Duration::ZERO))
    }

    /// Asks how large a file is: the number of [`Exchanged::answer`].
    ///
    /// # Errors
    /// As [`Remote::send`].
    pub fn stat(&self, name: &str, controller: &Spec) -> Result<Exchanged, ClientError> {
        let request = Request::new(Kind::Stat, name);
        let mut observer = ();
        let (mut session, answer) = Session::ask(self, request, controller, &mut observer)?;
        session.moved = answer.number;
        Ok(session.end(answer, false, Duration::ZERO))
    }
}

/// The controller's name for the server, where it has a receiver half.
fn half_of(controller: &Spec) -> String {
    if controller.needs(Ability::ReceiverHalf) { controller.to_string() } else { String::new() }
}

/// The file, its size, and what its upload is known by: the same as long as no one has written into it.
fn open(path: &Path) -> Result<(File, u64, [u8; NONCE]), ClientError> {
    let cannot = |source: io::Error| match source.kind() {
        ErrorKind::InvalidInput => ClientError::NotAFile(path.to_owned()),
        _ => ClientError::Unopened { path: path.to_owned(), source },
    };
    let file = followed(path).map_err(cannot)?;
    let about = file.metadata().map_err(cannot)?;
    let mut hash = Context::new(&SHA256);
    hash.update(b"paceline upload id 1");
    for number in [about.dev(), about.ino(), about.len(), about.mtime() as u64, about.mtime_nsec() as u64] {
        hash.update(&number.to_be_bytes());
    }
    hash.update(std::fs::canonicalize(path).map_err(cannot)?.as_os_str().as_encoded_bytes());
    let mut id = [0; NONCE];
    id.copy_from_slice(&hash.finish().as_ref()[..NONCE]);
    Ok((file, about.len(), id))
}

/// What has come of a file so far, and how much that is; `None` for what takes bytes in order alone.
fn part(to: &Path, of: &str) -> Result<(Option<Kept>, u64), ClientError> {
    if Draft::is_in_order(to)? {
        return Ok((None, 0));
    }
    let path = part_of(to);
    let cannot = |source: io::Error| match source.kind() {
        ErrorKind::WouldBlock => ClientError::PartHeld(path.clone()),
        _ => unwritten(&path, source),
    };
    let kept = Kept::beside(to, of).map_err(cannot)?;
    let held = kept.held().map_err(cannot)?;
    Ok((Some(kept), held))
}

fn unwritten(path: &Path, source: io::Error) -> ClientError {
    OutputError { path: path.to_owned(), source }.into()
}
