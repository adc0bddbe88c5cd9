//! Content from one end to the other, whole and checked: what `paceline serve`, `send` and `fetch` do.
//!
//! A reliable stream under any controller. The sender ends it with the length and the SHA-256 of the content, the receiver
//! reads what it has written back, and answers whether it is the same.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use paceline_cc::datapath::UDP;
use paceline_cc::{Env, Nanos, Spec, Time};
use paceline_files::OutputError;
use paceline_remembered::{PathStore, PathStoreError};
use paceline_transport::{AckPolicy, PaceStyle, Sender, SenderConfig, stream};
use ring::digest::{Context, SHA256};

use super::channel::{Channel, Incoming};
use super::outcome::{EndReason, ReceiverOutcome, SenderOutcome, Trouble};
use super::run::{
    ContentSink, ContentSource, Discard, Look, ReceivingEnd, SenderTiming, SenderWatch, SendingEnd, Zeros,
};
use super::wire::control::{Close, Hello, SessionVerdict};
use super::wire::{DATA_HEADER, NOTE};
use paceline_linux::clock::Clock;

/// Wake-ups of a sender are at least so far apart: Linux lets 2^-10 s of paced data leave at once.
pub const BATCH: Nanos = Nanos::from_millis(1);
/// How often a sender looks whether it is to stop (our choice).
const SLICE: Nanos = Nanos::from_millis(100);
/// Until a closing word is said again.
const REPEAT: Nanos = Nanos::from_millis(100);
/// A receiver stays for this long after its last word, lest that was lost: two and a half repetitions (our choice).
const LINGER: Nanos = Nanos::from_millis(250);
/// A receiver reads its copy at this many bytes a second at least, when it is checked (our choice: a slow disk).
const CHECKED: u64 = 20_000_000;

/// How both ends speak.
#[derive(Clone, Debug)]
pub struct TransferPlan {
    /// The sender's controller.
    pub controller: Spec,
    /// Payload bytes of a full packet.
    pub mss: u16,
    /// Packets for one acknowledgement.
    pub ack_every: u8,
    /// Acknowledgements report when each packet arrived.
    pub arrivals: bool,
    /// Give up after a silence of this long.
    pub patience: Nanos,
    /// Where the sender keeps what it learns of the place that it sends to, and has what earlier ones learnt.
    pub store: Option<PathStore>,
}

/// Why a plan is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No such controller, or not with such parameters.
    #[error("{0}")]
    Controller(String),
    /// Packets of no sensible size.
    #[error("a payload of {0} bytes in a packet is not possible; give 200 to 1472")]
    Size(u16),
}

impl TransferPlan {
    /// What a client's words mean.
    ///
    /// # Errors
    /// [`PlanError`] when nothing.
    pub fn of(hello: &Hello, patience: Nanos) -> Result<Self, PlanError> {
        if !(200..=1472).contains(&hello.mss) {
            return Err(PlanError::Size(hello.mss));
        }
        let controller = hello.controller.parse().map_err(|error| PlanError::Controller(format!("{error}")))?;
        let (mss, arrivals) = (hello.mss, hello.arrivals);
        Ok(Self { controller, mss, ack_every: hello.ack_every.max(1), arrivals, patience, store: None })
    }

    fn env(&self) -> Env {
        Env::new(self.mss.into()).with_paced(true)
    }
}

/// Payload bytes that fit into a packet of `mtu` bytes; `overhead` is what sealing adds, `note` whether the controller has
/// a word for its receiver half.
pub fn room(mtu: u16, ipv4: bool, overhead: usize, note: bool) -> u16 {
    // IPv4 (RFC 791) or IPv6 (RFC 8200), and UDP.
    let below = if ipv4 { 20 } else { 40 } + 8;
    let headers = below + DATA_HEADER + overhead + if note { NOTE } else { 0 };
    mtu.saturating_sub(u16::try_from(headers).unwrap_or(u16::MAX))
}

/// What is sent.
#[derive(Debug)]
pub enum Content {
    /// Bytes that mean nothing, this many or without end.
    Zeros(Option<u64>),
    /// The first bytes of a file.
    File(File, u64),
}

/// Why content did not come through.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// An end could not go on.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// The receiver has something else.
    #[error("what arrived is not what was sent; did the file change meanwhile?")]
    Differs,
    /// The peer gave up.
    #[error("the peer gave up: its disk is full, its file cannot be read, or it was stopped")]
    PeerFailed,
    /// The content cannot be read to be checked.
    #[error("the content cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The content cannot be put in its place.
    #[error(transparent)]
    Unplaced(OutputError),
    /// The content's place was taken while it was on its way.
    #[error(
        "a file of this name appeared there meanwhile: it stays, and what was sent is not kept; choose another name"
    )]
    Taken,
    /// The peer said something that has no place.
    #[error("the peer closed before the end")]
    Cut,
    /// It was asked to stop.
    #[error("it was stopped")]
    Stopped,
}

impl From<OutputError> for TransferError {
    fn from(error: OutputError) -> Self {
        match error.source.kind() {
            io::ErrorKind::AlreadyExists => Self::Taken,
            _ => Self::Unplaced(error),
        }
    }
}

/// A stretch of a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Where it begins, since the start.
    pub from: Nanos,
    /// Where it ends.
    pub to: Nanos,
    /// Payload bytes delivered in it.
    pub bytes: u64,
    /// What the sender knows; `None` at a receiver.
    pub sender: Option<SenderView>,
}

/// A sender at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderView {
    /// Smoothed RTT.
    pub srtt: Option<Nanos>,
    /// Window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Packets sent again in this interval.
    pub retransmits: u64,
}

/// What a transfer leaves behind.
#[derive(Clone, Debug)]
pub struct Transferred {
    /// Payload bytes that the receiver has.
    pub bytes: u64,
    /// From the first packet to the last byte's delivery.
    pub took: Nanos,
    /// The content's hash agreed at both ends (content that means nothing has none).
    pub verified: bool,
    /// CPU time of this end, user and system.
    pub cpu: Nanos,
    /// At the sending end.
    pub sender: Option<SenderOutcome>,
    /// At the receiving end.
    pub receiver: Option<ReceiverOutcome>,
    /// Why nothing was remembered, where it was to be: the transfer does not depend on it.
    pub forgot: Option<Arc<PathStoreError>>,
}

struct Bytes(Arc<File>);

impl ContentSource for Bytes {
    fn fill(&mut self, seq: u64, payload: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(payload, seq).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("the file has become shorter meanwhile"),
            _ => error,
        })
    }
}

struct Range {
    file: Arc<File>,
    bytes: u64,
}

impl ContentSink for Range {
    fn take(&mut self, seq: u64, payload: &[u8]) -> io::Result<()> {
        if seq.saturating_add(payload.len() as u64) > self.bytes {
            return Err(io::Error::other("the peer sends more than it said it would"));
        }
        self.file.write_all_at(payload, seq)
    }
}

/// Sends `content` through `channel`, for `time` at most, and waits until it arrived. `watch` is called each `every`.
///
/// # Errors
/// [`TransferError`] when it does not come through.
pub fn give(
    channel: Channel,
    clock: Clock,
    plan: &TransferPlan,
    content: Content,
    time: Option<Nanos>,
    every: Nanos,
    watch: &mut dyn FnMut(&Interval),
) -> Result<Transferred, TransferError> {
    give_until(channel, clock, plan, content, time, every, watch, &AtomicBool::new(false))
}

/// The same, until `stop` is set, which is looked at ten times a second.
///
/// # Errors
/// As [`give`], and [`TransferError::Stopped`] when it was set.
#[expect(clippy::too_many_arguments, reason = "those of `give`, and one")]
pub fn give_until(
    channel: Channel,
    clock: Clock,
    plan: &TransferPlan,
    content: Content,
    time: Option<Nanos>,
    every: Nanos,
    watch: &mut dyn FnMut(&Interval),
    stop: &AtomicBool,
) -> Result<Transferred, TransferError> {
    // The handshake of the transport gives the controller an RTT before the first byte.
    let mut config = SenderConfig::new(plan.mss.into());
    config.pace = PaceStyle::Linux;
    config.handshake = true;
    let place = channel.place().map_err(Trouble::from)?;
    let lend = |store: &PathStore| store.lend(place, SystemTime::now()).map_err(Arc::new);
    let (remembered, mut forgot) = match plan.store.as_ref().map_or(Ok(None), lend) {
        Ok(remembered) => (remembered, None),
        Err(error) => (None, Some(error)),
    };
    let mut sender =
        stream::sender(&config, plan.controller.clone().over(&UDP).build(&plan.env().with_remembered(remembered)));
    let (bytes, source, file): (_, Box<dyn ContentSource>, _) = match content {
        Content::Zeros(bytes) => (bytes, Box::new(Zeros), None),
        Content::File(file, bytes) => {
            let file = Arc::new(file);
            (Some(bytes), Box::new(Bytes(Arc::clone(&file))), Some((file, bytes)))
        }
    };
    sender.write(bytes.unwrap_or(u64::MAX));
    let timing = SenderTiming { batch: BATCH, patience: plan.patience };
    let mut end = SendingEnd::new(channel, clock, sender, source, timing);
    let start = clock.now();
    let until = time.map_or(Time::NEVER, |time| start + time);
    let mut meter = Meter::new(start);
    let mut retransmits = 0;
    let mut sample = |at: Time, sender: &dyn Sender| {
        let stats = sender.stats();
        let again = stats.retransmits - std::mem::replace(&mut retransmits, stats.retransmits);
        let (window, in_flight) = (sender.window(), sender.in_flight());
        let view = SenderView { srtt: sender.srtt(), window, in_flight, retransmits: again };
        watch(&meter.interval(at, stats.bytes_delivered, Some(view)));
    };
    let ended = loop {
        let slice = until.min(clock.now() + SLICE);
        match end.run(slice, Some(SenderWatch { every, sample: &mut sample })) {
            Ok(EndReason::Deadline) if slice < until && !stop.load(Ordering::Relaxed) => {}
            ended => break ended,
        }
    };
    let now = clock.now();
    sample(now, end.sender());
    let (outcome, mut channel) = end.finish();
    if let (Some(store), Some(remembered), None) = (&plan.store, &outcome.remembered, &forgot) {
        forgot = store.keep(place, remembered, SystemTime::now()).map_err(Arc::new).err();
    }
    if stop.load(Ordering::Relaxed) {
        give_up(&mut channel);
        return Err(TransferError::Stopped);
    }
    match ended {
        Ok(EndReason::Idle | EndReason::Deadline) => {}
        Ok(EndReason::Closed(_)) => return Err(TransferError::PeerFailed),
        Err(trouble) => {
            give_up(&mut channel);
            return Err(trouble.into());
        }
    }
    let checked = file.as_ref().map_or(Ok([0; 32]), |(file, bytes)| digest(file, *bytes));
    let digest = checked.map_err(|error| {
        give_up(&mut channel);
        TransferError::Unreadable(error)
    })?;
    let bytes = outcome.stats.bytes_delivered;
    let close = Close { verdict: SessionVerdict::Done, bytes, digest };
    let patience = plan.patience + Nanos::from_secs(if file.is_some() { bytes / CHECKED } else { 0 });
    let answer = conclude(&mut channel, clock, &close, patience)?;
    let verified = match answer.verdict {
        SessionVerdict::Received => file.is_some(),
        SessionVerdict::Differs => return Err(TransferError::Differs),
        SessionVerdict::Taken => return Err(TransferError::Taken),
        SessionVerdict::Done | SessionVerdict::Failed => return Err(TransferError::PeerFailed),
    };
    let (cpu, took) = (outcome.cpu, now.since(start));
    Ok(Transferred { bytes: answer.bytes, took, verified, cpu, sender: Some(outcome), receiver: None, forgot })
}

/// Where content goes.
pub struct ContentPlace<'a> {
    /// It is written here.
    pub file: Arc<File>,
    /// This many bytes of it.
    pub bytes: u64,
    /// Puts it in its place, once it is whole and checked and before the sender is informed: else
    /// [`TransferError::Unplaced`] or [`TransferError::Taken`].
    pub keep: Box<dyn FnOnce() -> Result<(), TransferError> + 'a>,
}

/// Receives through `channel`; content that means something goes to `place`. `watch` is called each `every`.
///
/// # Errors
/// [`TransferError`] when it does not come through.
pub fn take(
    channel: Channel,
    clock: Clock,
    plan: &TransferPlan,
    place: Option<ContentPlace<'_>>,
    every: Nanos,
    watch: &mut dyn FnMut(&Interval),
) -> Result<Transferred, TransferError> {
    let policy = match plan.ack_every {
        0 | 1 => AckPolicy::immediate(),
        every => AckPolicy { every: every.into(), ..AckPolicy::default() },
    };
    let policy = AckPolicy { arrivals: plan.arrivals, ..policy };
    let receiver = stream::receiver(&policy, plan.controller.build_receiver(&plan.env()));
    let sink: Box<dyn ContentSink> = match &place {
        None => Box::new(Discard),
        Some(ContentPlace { file, bytes, .. }) => Box::new(Range { file: Arc::clone(file), bytes: *bytes }),
    };
    let mut end = ReceivingEnd::new(channel, clock, receiver, sink, plan.patience);
    let start = clock.now();
    let mut meter = Meter::new(start);
    let mut sample = |at: Time, ready: u64| watch(&meter.interval(at, ready, None));
    let ended = end.run(Time::NEVER, Some(Look { every, sample: &mut sample }));
    let now = clock.now();
    let (outcome, mut channel, _) = end.finish();
    sample(now, outcome.bytes_ready);
    let close = match ended {
        Ok(EndReason::Closed(close)) if close.verdict == SessionVerdict::Done => close,
        Ok(EndReason::Closed(_)) => return Err(TransferError::PeerFailed),
        Ok(EndReason::Idle | EndReason::Deadline) => return Err(TransferError::Cut),
        Err(trouble) => {
            give_up(&mut channel);
            return Err(trouble.into());
        }
    };
    let verified = place.is_some();
    let kept = place.map_or(Ok(()), |place| keep(place, outcome.bytes_ready, &close));
    let verdict = match &kept {
        Ok(()) => SessionVerdict::Received,
        Err(TransferError::Differs) => SessionVerdict::Differs,
        Err(TransferError::Taken) => SessionVerdict::Taken,
        Err(_) => SessionVerdict::Failed,
    };
    answer(&mut channel, clock, &Close { verdict, bytes: outcome.bytes_ready, digest: close.digest })?;
    kept?;
    let (bytes, cpu, took) = (outcome.bytes_ready, outcome.cpu, now.since(start));
    Ok(Transferred { bytes, took, verified, cpu, sender: None, receiver: Some(outcome), forgot: None })
}

fn keep(place: ContentPlace<'_>, ready: u64, close: &Close) -> Result<(), TransferError> {
    let digest = digest(&place.file, place.bytes.min(ready)).map_err(TransferError::Unreadable)?;
    if ready != place.bytes || close.bytes != place.bytes || digest != close.digest {
        return Err(TransferError::Differs);
    }
    (place.keep)()
}

/// Cuts a transfer into intervals.
struct Meter {
    start: Time,
    last: Time,
    bytes: u64,
}

impl Meter {
    fn new(start: Time) -> Self {
        Self { start, last: start, bytes: 0 }
    }

    fn interval(&mut self, at: Time, bytes: u64, sender: Option<SenderView>) -> Interval {
        let (from, to) = (self.last.since(self.start), at.since(self.start));
        let more = bytes.saturating_sub(self.bytes);
        (self.last, self.bytes) = (at, bytes);
        Interval { from, to, bytes: more, sender }
    }
}

/// SHA-256 of the first `bytes` of a file.
fn digest(file: &File, bytes: u64) -> io::Result<[u8; 32]> {
    let mut hash = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    let mut at = 0;
    while at < bytes {
        let part = buffer.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
        file.read_exact_at(&mut buffer[..part], at)?;
        hash.update(&buffer[..part]);
        at += part as u64;
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(hash.finish().as_ref());
    Ok(digest)
}

/// Says that this end fails; no one waits for an answer.
pub(super) fn give_up(channel: &mut Channel) {
    let close = Close { verdict: SessionVerdict::Failed, bytes: 0, digest: [0; 32] };
    for _ in 0..3 {
        if channel.push_close(&close).is_ok() {
            channel.flush();
        }
    }
}

/// Says `close` until the peer has answered it.
pub(super) fn conclude(
    channel: &mut Channel,
    clock: Clock,
    close: &Close,
    patience: Nanos,
) -> Result<Close, TransferError> {
    let start = clock.now();
    let mut answer = None;
    while answer.is_none() {
        let now = clock.now();
        if now >= start + patience {
            let (peer, seconds) = (channel.peer(), patience.as_secs_f64());
            return Err(Trouble::Silent { peer, seconds }.into());
        }
        channel.push_close(close).map_err(Trouble::from)?;
        channel.flush();
        while answer.is_none() && clock.now() < now + REPEAT {
            if channel.wait(clock, now + REPEAT).map_err(Trouble::from)? {
                hear(channel, clock, &mut answer)?;
            }
        }
    }
    answer.ok_or(TransferError::Cut)
}

/// Says `close`, and again to a peer that did not receive it.
pub(super) fn answer(channel: &mut Channel, clock: Clock, close: &Close) -> Result<(), TransferError> {
    channel.push_close(close).map_err(Trouble::from)?;
    channel.flush();
    let mut until = clock.now() + LINGER;
    while clock.now() < until {
        let mut again = None;
        // A peer that has gone has received it.
        if channel.wait(clock, until).map_err(Trouble::from)? && hear(channel, clock, &mut again).is_err() {
            return Ok(());
        }
        if again.is_some() {
            channel.push_close(close).map_err(Trouble::from)?;
            channel.flush();
            until = clock.now() + LINGER;
        }
    }
    Ok(())
}

fn hear(channel: &mut Channel, clock: Clock, heard: &mut Option<Close>) -> Result<(), TransferError> {
    let peer = channel.peer();
    let got = channel.receive(clock, |_, incoming| {
        if let Incoming::Close(close) = incoming {
            *heard = Some(close);
        }
    });
    got.map(drop).map_err(|error| Trouble::hearing(peer, error).into())
}
