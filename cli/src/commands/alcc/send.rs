//! `paceline alcc send`: an upload, or filler bytes.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use paceline_alcc::Mode;
use paceline_alcc::transfer::{Answer, ENDLESS, Kind, NONCE, Request, Status};
use paceline_cc::{Ability, Spec};
use paceline_lab::input;
use ring::digest::{Context, SHA256};

use super::asking::{Asking, Done, Session, Told, bar};
use super::channel::Patience;
use crate::commands::{bytes, span, udp};

/// Bytes of one read of the file (our choice: some frames).
const PIECE: usize = 64 * 1024;

/// Upload a file to a paceline alcc serve, or send filler bytes, with any controller above TCP.
///
/// The same command again goes on where the one before stopped, whatever ended it.
#[derive(clap::Args)]
#[command(
    override_usage = "paceline alcc send [OPTIONS] FILE ADDR\n       paceline alcc send [OPTIONS] --bytes N ADDR\n       \
                            paceline alcc send [OPTIONS] --seconds S ADDR"
)]
pub(crate) struct Args {
    /// The file, unless --bytes or --seconds is given, and HOST or HOST:PORT.
    #[arg(value_name = "FILE ADDR", required = true, num_args = 1..=2)]
    what: Vec<OsString>,
    /// The controller (paceline controllers), such as copa:delta=0.1.
    #[arg(long, value_name = "CONTROLLER", default_value = "copa")]
    controller: String,
    /// The name that it has there; without it the file's.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Filler bytes (zeros) for S seconds.
    #[arg(long, value_name = "S", value_parser = span, allow_negative_numbers = true, conflicts_with = "bytes")]
    seconds: Option<f64>,
    /// So many filler bytes (zeros) instead of a file.
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true)]
    bytes: Option<u64>,
    #[command(flatten)]
    asking: Asking,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = &args.controller;
    let spec = input::controller(text).map_err(|error| anyhow!("--controller {text}: {error}"))?;
    Mode::Framed.datapath().carries(&spec).map_err(|misfit| anyhow!("--controller {text}: {misfit}"))?;
    let half = if spec.needs(Ability::ReceiverHalf) { spec.to_string() } else { String::new() };
    let measures = args.seconds.is_some() || args.bytes.is_some();
    match args.what.as_slice() {
        [to] if measures => {
            let time = args.seconds.map(|time| udp::seconds("--seconds", time)).transpose()?;
            let time = time.map(|time| Duration::from_nanos(time.as_nanos()));
            let size = args.bytes.unwrap_or(ENDLESS).min(ENDLESS);
            let request = Request { size, half, ..Request::new(Kind::Discard, "") };
            let (session, answer) = args.asking.ask(&to.to_string_lossy(), request, &spec)?;
            measure(session, answer, size, time, &spec, args.asking.json)
        }
        [argument] => Err(udp::nothing_to_send(argument)),
        [file, _] if measures => bail!("{}: a file is sent whole; leave --bytes and --seconds out", file.display()),
        [file, to] => {
            let (opened, size, id) = open(file.as_ref())?;
            let name = udp::name_of(args.name.as_deref(), file.as_ref())?;
            let file = file.to_string_lossy();
            let request = Request { size, id, half, ..Request::new(Kind::Put, &name) };
            let (session, answer) = args.asking.ask(&to.to_string_lossy(), request, &spec)?;
            upload(session, answer, (&file, opened, size), &spec, args.asking.json)
        }
        _ => bail!("give FILE ADDR, --bytes N ADDR or --seconds S ADDR"),
    }
}

/// The file, its size, and what its upload is known by: the same as long as no one has written into it.
fn open(file: &Path) -> anyhow::Result<(File, u64, [u8; NONCE])> {
    let (opened, about) = udp::file_to_send(file)?;
    let mut hash = Context::new(&SHA256);
    hash.update(b"paceline upload id 1");
    for number in [about.dev(), about.ino(), about.len(), about.mtime() as u64, about.mtime_nsec() as u64] {
        hash.update(&number.to_be_bytes());
    }
    hash.update(std::fs::canonicalize(file)?.as_os_str().as_encoded_bytes());
    let mut id = [0; NONCE];
    id.copy_from_slice(&hash.finish().as_ref()[..NONCE]);
    Ok((opened, about.len(), id))
}

fn upload(
    mut session: Session,
    answer: Answer,
    (file, mut opened, size): (&str, File, u64),
    spec: &Spec,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let held = answer.number;
    let mut done = Done { bytes: 0, resumed: 0, controller: Some(spec.to_string()), answer, verified: false };
    if done.answer.status == Status::Go {
        done.resumed = held;
        let bar = bar(Some(size));
        let mut hash = Context::new(&SHA256);
        let mut piece = vec![0; PIECE];
        let mut next = |left: u64| {
            let wanted = left.min(PIECE as u64) as usize;
            let read = opened.read(&mut piece[..wanted]).with_context(|| format!("{file}: cannot be read"))?;
            if read == 0 && wanted > 0 {
                bail!("{file}: became shorter while it was sent; send it again");
            }
            hash.update(&piece[..read]);
            Ok(piece[..read].to_vec())
        };
        let mut at = 0;
        // What is there already counts for the hash.
        while at < held {
            at += next(held - at)?.len() as u64;
        }
        let early =
            send(&mut session, |sent| next(size - held - sent), &mut done.bytes, |sent| bar.set_position(held + sent))?;
        done.answer = match early {
            Some(answer) => answer,
            None => {
                session.channel.say(hash.finish().as_ref())?;
                session.last_word(size)?
            }
        };
        bar.finish_and_clear();
        done.verified = done.answer.status == Status::Go;
    }
    session.report(json, "sent", &done)?;
    session.channel.close(Duration::from_secs(1));
    Ok(ExitCode::SUCCESS)
}

fn measure(
    mut session: Session,
    answer: Answer,
    size: u64,
    time: Option<Duration>,
    spec: &Spec,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut done = Done { bytes: 0, resumed: 0, controller: Some(spec.to_string()), answer, verified: false };
    if done.answer.status == Status::Go {
        let bar = bar(time.is_none().then_some(size));
        let until = time.map(|time| Instant::now() + time);
        let zeros = |sent: u64| {
            let over = until.is_some_and(|until| Instant::now() >= until);
            let count = if over { 0 } else { (size - sent).min(PIECE as u64) };
            Ok(vec![0; count as usize])
        };
        let early = send(&mut session, zeros, &mut done.bytes, |sent| bar.set_position(sent))?;
        done.answer = match early {
            Some(answer) => answer,
            None => {
                if size == ENDLESS {
                    session.channel.socket.shutdown_write();
                }
                session.last_word(0)?
            }
        };
        bar.finish_and_clear();
        if done.answer.status == Status::Go {
            done.bytes = done.answer.number;
        }
    }
    session.report(json, "sent", &done)?;
    session.channel.close(Duration::from_secs(1));
    Ok(ExitCode::SUCCESS)
}

/// Sends pieces until there is an empty one; a last word of the server's ends it before.
fn send(
    session: &mut Session,
    mut next: impl FnMut(u64) -> anyhow::Result<Vec<u8>>,
    sent: &mut u64,
    progress: impl Fn(u64),
) -> anyhow::Result<Option<Answer>> {
    let mut patience = Patience::new(session.patience);
    let asked = session.channel.socket.stats().delivered;
    loop {
        let piece = next(*sent)?;
        if piece.is_empty() {
            return Ok(None);
        }
        let mut rest = piece.as_slice();
        while !rest.is_empty() {
            // A connection that broke may hold the reason.
            let taken = session.channel.offer(rest);
            if let Some(Told::End(answer)) = session.hear(Duration::ZERO, &mut |_| Ok(()))? {
                return Ok(Some(answer));
            }
            let taken = taken?;
            rest = &rest[taken..];
            *sent += taken as u64;
            let delivered = session.channel.socket.stats().delivered.saturating_sub(asked);
            progress(delivered);
            patience.moved(delivered)?;
        }
    }
}
