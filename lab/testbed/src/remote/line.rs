//! A connection of a race: how it is opened, and who listens on it while flows run.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use paceline_udp::random;

use super::wire::{
    CHALLENGE, OPENING, RaceBreach, RaceChallenge, RaceEnd, RaceKey, RaceMessage, RaceOpening, RacePurpose, behind,
};

/// How often an end says that it is there.
const ALIVE: Duration = Duration::from_secs(1);
/// After so long without a word the other end is gone: ten of them, since a flow may fill the path (our choice).
const SILENCE: Duration = Duration::from_secs(10);
/// How long an opening may take (our choice: several round trips with losses).
pub(super) const OPENS_WITHIN: Duration = Duration::from_secs(5);
/// Messages that may wait to be heard: more than those of a run (our choice).
const UNHEARD: usize = 16;
/// How often to look whether this end has been stopped.
const LOOK: Duration = Duration::from_millis(100);

/// Why the other end of a race does not answer.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It closed the connection.
    #[error("it closed the connection; it was stopped, or it ended")]
    Closed,
    /// Nothing comes.
    #[error("it has been silent for {0} s; it or the path to it is gone")]
    Silent(u64),
    /// It says what no race says.
    #[error(transparent)]
    Breach(#[from] RaceBreach),
    /// The system failed.
    #[error("the connection failed: {0}")]
    System(#[from] io::Error),
    /// This end was stopped.
    #[error("this end was stopped")]
    Stopped,
}

/// What the connection says and hears next.
pub(super) struct Keys {
    pub(super) says: RaceKey,
    pub(super) hears: RaceKey,
}

/// The client's side of an opening.
///
/// # Errors
/// [`LineError`].
pub(super) fn open(stream: &TcpStream, secret: &[u8; 32], purpose: RacePurpose) -> Result<Keys, LineError> {
    let until = Instant::now() + OPENS_WITHIN;
    let mut bytes = [0; CHALLENGE];
    // Another service may say less, another version more.
    let (head, rest) = bytes.split_at_mut(8);
    read_exact(stream, head, until, None)?;
    if let Err(breach @ (RaceBreach::Magic | RaceBreach::Version(_))) = RaceChallenge::read(head) {
        return Err(breach.into());
    }
    read_exact(stream, rest, until, None)?;
    let challenge = RaceChallenge::read(&bytes)?;
    let opening = RaceOpening::new(purpose, random()?, secret, &challenge);
    (&mut &*stream).write_all(&opening.bytes())?;
    let key = |end| RaceKey::new(secret, end, &challenge, &opening);
    Ok(Keys { says: key(RaceEnd::Client), hears: key(RaceEnd::Server) })
}

/// The server's side; nothing for who does not hold the key.
///
/// # Errors
/// [`LineError`].
pub(super) fn admit(
    stream: &TcpStream,
    secret: &[u8; 32],
    stop: &AtomicBool,
) -> Result<(RaceOpening, Keys, bool), LineError> {
    let until = Instant::now() + OPENS_WITHIN;
    stream.set_write_timeout(Some(OPENS_WITHIN))?;
    let challenge = RaceChallenge { server: random()? };
    (&mut &*stream).write_all(&challenge.bytes())?;
    let mut bytes = [0; OPENING];
    read_exact(stream, &mut bytes, until, Some(stop))?;
    let opening = RaceOpening::read(&bytes)?;
    let key = |end| RaceKey::new(secret, end, &challenge, &opening);
    let keys = Keys { says: key(RaceEnd::Server), hears: key(RaceEnd::Client) };
    Ok((opening, keys, opening.holds(secret, &challenge)))
}

/// Reads the next message, and not a byte behind it.
///
/// # Errors
/// [`LineError`].
pub(super) fn hear(stream: &TcpStream, key: &mut RaceKey, until: Instant) -> Result<RaceMessage, LineError> {
    let mut length = [0; 2];
    read_exact(stream, &mut length, until, None)?;
    let mut framed = vec![0; behind(length)?];
    read_exact(stream, &mut framed, until, None)?;
    Ok(key.open(&framed)?)
}

/// Fills `bytes`.
fn read_exact(
    mut stream: &TcpStream,
    mut bytes: &mut [u8],
    until: Instant,
    stop: Option<&AtomicBool>,
) -> Result<(), LineError> {
    while !bytes.is_empty() {
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(LineError::Stopped);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LineError::Silent(OPENS_WITHIN.as_secs()));
        }
        stream.set_read_timeout(Some(left.min(LOOK).max(Duration::from_millis(1))))?;
        match stream.read(bytes) {
            Ok(0) => return Err(LineError::Closed),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) => retried(error)?,
        }
    }
    Ok(())
}

/// Whether there is only nothing yet.
fn retried(error: io::Error) -> Result<(), LineError> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => Err(LineError::Closed),
        _ => Err(error.into()),
    }
}

/// The control connection of a race, with a thread that says that this end is there and hears whether the other is.
pub(super) struct Line {
    out: Arc<Mutex<Out>>,
    news: Receiver<Result<RaceMessage, LineError>>,
    gone: Arc<AtomicBool>,
    abort: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Out {
    stream: TcpStream,
    key: RaceKey,
}

impl Out {
    fn say(&mut self, message: &RaceMessage) -> Result<(), LineError> {
        let frame = self.key.frame(message);
        match self.stream.write_all(&frame) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(LineError::Silent(SILENCE.as_secs()))
            }
            Err(error) => retried(error).and(Err(LineError::Closed)),
            Ok(()) => Ok(()),
        }
    }
}

impl Line {
    /// Over a connection that was opened.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(stream: TcpStream, keys: Keys) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SILENCE))?;
        let (tell, news) = sync_channel(UNHEARD);
        let (gone, abort) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let input = stream.try_clone()?;
        let out = Arc::new(Mutex::new(Out { stream, key: keys.says }));
        let (theirs, lost, failed) = (Arc::clone(&out), Arc::clone(&gone), Arc::clone(&abort));
        let listen = move || {
            let Err(end) = listen(&input, keys.hears, &theirs, &tell, &failed) else { return };
            // In this order: see `calm`. And before it is told: who waits for a flow looks there.
            lost.store(true, Ordering::SeqCst);
            failed.store(true, Ordering::SeqCst);
            // Nothing listens when this end has no more questions; and where that many wait, `gone` tells it.
            let _ = tell.try_send(Err(end));
        };
        let thread = thread::Builder::new().name("race control".to_owned()).spawn(listen)?;
        Ok(Self { out, news, gone, abort, thread: Some(thread) })
    }

    /// Says something.
    ///
    /// # Errors
    /// [`LineError`].
    pub(super) fn say(&self, message: &RaceMessage) -> Result<(), LineError> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner).say(message)
    }

    /// What the other end says next; nothing when it says nothing for this long.
    ///
    /// # Errors
    /// [`LineError`], after which there is nothing more to hear.
    pub(super) fn hear(&self, longest: Duration) -> Result<Option<RaceMessage>, LineError> {
        match self.news.recv_timeout(longest) {
            Ok(heard) => heard.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(LineError::Closed),
        }
    }

    /// Is set when the other end is gone, or the run has failed there.
    pub(super) fn abort(&self) -> &Arc<AtomicBool> {
        &self.abort
    }

    /// Nothing will come any more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Another run begins, whether the one before has failed or not.
    pub(super) fn calm(&self) {
        self.abort.store(false, Ordering::SeqCst);
        self.abort.fetch_or(self.gone.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = self.out.lock().unwrap_or_else(PoisonError::into_inner).stream.shutdown(Shutdown::Both);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The thread of a line, until the other end is gone or this one listens no more.
fn listen(
    mut stream: &TcpStream,
    mut key: RaceKey,
    out: &Mutex<Out>,
    tell: &SyncSender<Result<RaceMessage, LineError>>,
    abort: &AtomicBool,
) -> Result<(), LineError> {
    let (mut heard_at, mut said_at, mut buffer) = (Instant::now(), Instant::now(), Vec::new());
    let mut chunk = [0; 2048];
    stream.set_read_timeout(Some(LOOK))?;
    loop {
        if said_at.elapsed() >= ALIVE {
            out.lock().unwrap_or_else(PoisonError::into_inner).say(&RaceMessage::Alive)?;
            said_at = Instant::now();
        }
        if heard_at.elapsed() >= SILENCE {
            return Err(LineError::Silent(SILENCE.as_secs()));
        }
        match stream.read(&mut chunk) {
            Ok(0) => return Err(LineError::Closed),
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
            Err(error) => retried(error)?,
        }
        while let Some((length, rest)) = buffer.split_first_chunk() {
            let Some(framed) = rest.get(..behind(*length)?) else { break };
            let (message, taken) = (key.open(framed)?, 2 + framed.len());
            buffer.drain(..taken);
            heard_at = Instant::now();
            if matches!(message, RaceMessage::Failed(_)) {
                abort.store(true, Ordering::SeqCst);
            }
            if message == RaceMessage::Alive {
                continue;
            }
            match tell.try_send(Ok(message)) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => return Err(RaceBreach::Flood.into()),
                Err(TrySendError::Disconnected(_)) => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_says_more_than_a_race_has_is_cut_off() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (challenge, secret) = (RaceChallenge { server: [1; 16] }, [7; 32]);
        let opening = RaceOpening::new(RacePurpose::Control, [2; 16], &secret, &challenge);
        let key = |end| RaceKey::new(&secret, end, &challenge, &opening);
        let keys = Keys { says: key(RaceEnd::Server), hears: key(RaceEnd::Client) };
        let line = Line::new(listener.accept().unwrap().0, keys).unwrap();

        let mut says = key(RaceEnd::Client);
        for _ in 0..=UNHEARD {
            (&peer).write_all(&says.frame(&RaceMessage::Ready)).unwrap();
        }
        let until = Instant::now() + Duration::from_secs(60);
        while !line.is_gone() {
            assert!(Instant::now() < until, "it goes on listening");
            thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..UNHEARD {
            assert_eq!(line.hear(Duration::ZERO).unwrap(), Some(RaceMessage::Ready));
        }
        assert!(matches!(line.hear(Duration::from_secs(60)), Err(LineError::Closed)));
    }
}
