//! `paceline alcc fetch`: a file, or filler bytes, from a `paceline alcc serve`.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use paceline_alcc::transfer::{Answer, HASH, Kind, Request, Status};
use paceline_cc::Spec;
use paceline_files::{Draft, Kept, OutputError, is_standard, part_of};
use ring::digest::{Context, SHA256};

use super::asking::{Asking, Done, Session, Told, bar};
use super::channel::Patience;
use crate::commands::bytes;

/// The controller of what this end says, which is short: it decides nothing.
const CONTROLLER: &str = "copa";

/// Fetch a file, or filler bytes, from a paceline alcc serve, which chooses the controller.
///
/// The file appears when it is whole; until then its bytes are in FILE.paceline-part, and the same command goes on from there. To a device
/// or a pipe they go in order.
#[derive(clap::Args)]
#[command(
    override_usage = "paceline alcc fetch [OPTIONS] NAME ADDR\n       paceline alcc fetch [OPTIONS] --bytes N ADDR"
)]
pub(crate) struct Args {
    /// The file's name there, unless --bytes is given, and HOST or HOST:PORT.
    #[arg(value_name = "NAME ADDR", required = true, num_args = 1..=2)]
    what: Vec<String>,
    /// The file to write, - for standard output; without it NAME, in this folder.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Say how large it is, and fetch nothing.
    #[arg(long, conflicts_with_all = ["output", "bytes"])]
    stat: bool,
    /// So many filler bytes (zeros) instead of a file.
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true)]
    bytes: Option<u64>,
    #[command(flatten)]
    asking: Asking,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let spec: Spec = CONTROLLER.parse()?;
    let (asking, json) = (&args.asking, args.asking.json);
    match (args.what.as_slice(), args.bytes) {
        ([from], Some(size)) => {
            let request = Request { size, ..Request::new(Kind::Generate, "") };
            let (session, answer) = asking.ask(from, request, &spec)?;
            generate(session, answer, size, json)
        }
        ([_], None) => bail!("nothing to fetch: give NAME ADDR or --bytes N ADDR"),
        ([name, _], Some(_)) => bail!("{name}: a file is fetched whole; leave --bytes out"),
        ([name, from], None) if args.stat => {
            let (mut session, answer) = asking.ask(from, Request::new(Kind::Stat, name), &spec)?;
            let line = format!("{}: {} bytes\n", name, answer.number);
            let found = answer.status == Status::Go;
            let done = Done { bytes: answer.number, resumed: 0, controller: None, answer, verified: false };
            if found && !json {
                crate::print::out(&line)?;
            } else {
                session.report(json, "found", &done)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        ([name, from], None) => {
            let to = match &args.output {
                Some(path) => path.clone(),
                None => {
                    let base = Path::new(name).file_name();
                    base.ok_or_else(|| anyhow!("{name}: is not a name of a file; give one by --output"))?.into()
                }
            };
            crate::commands::alone(json, &to)?;
            fetch(asking, name, from, &to, &spec)
        }
        _ => bail!("give NAME ADDR or --bytes N ADDR"),
    }
}

fn fetch(asking: &Asking, name: &str, from: &str, to: &Path, spec: &Spec) -> anyhow::Result<ExitCode> {
    let (kept, held) = part(to, &format!("{name} of {from}"))?;
    let asked = asking.ask(from, Request { offset: held, ..Request::new(Kind::Get, name) }, spec);
    let (mut session, answer) = match asked {
        Ok((session, answer)) if answer.status == Status::Go => (session, answer),
        refused => {
            // Nothing came, and nothing was there.
            if held == 0 {
                kept.into_iter().for_each(Kept::remove);
            }
            let (mut session, answer) = refused?;
            let done = Done { bytes: 0, resumed: 0, controller: None, answer, verified: false };
            session.report(asking.json, "received", &done)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let bar = bar(Some(answer.number));
    let mut done = Done { bytes: 0, resumed: held, controller: None, answer, verified: false };
    let mut hash = Context::new(&SHA256);
    let wrong = format!("{name}: what came is not what {from} has");
    let Some(kept) = kept else {
        let mut draft = Draft::create(to)?;
        let said = receive(&mut session, &mut done.bytes, &mut |at, bytes| {
            draft.write_all(bytes).map_err(|source| unwritten(to, source))?;
            hash.update(bytes);
            bar.set_position(at);
            Ok(())
        })?;
        bar.finish_and_clear();
        draft.finish()?;
        if said.is_none_or(|said| hash.finish().as_ref() != said) {
            bail!("{wrong}; do not use what was written to {}, fetch it again", to.display());
        }
        return end(session, &mut done, asking.json, is_standard(to));
    };
    hash_into(&mut hash, kept.file(), held).map_err(|source| unwritten(kept.path(), source))?;
    let said = receive(&mut session, &mut done.bytes, &mut |at, bytes| {
        kept.file().write_all_at(bytes, held + at).map_err(|source| unwritten(to, source))?;
        hash.update(bytes);
        bar.set_position(held + at);
        Ok(())
    })?;
    bar.finish_and_clear();
    if said.is_none_or(|said| hash.finish().as_ref() != said) {
        kept.remove();
        bail!("{wrong}; the part was removed, fetch it again");
    }
    kept.place(to).map_err(|unplaced| unwritten(to, unplaced.source))?;
    end(session, &mut done, asking.json, false)
}

/// What has come of a file so far, and how much that is; `None` for what takes bytes in order alone.
fn part(to: &Path, of: &str) -> anyhow::Result<(Option<Kept>, u64)> {
    if Draft::is_in_order(to)? {
        return Ok((None, 0));
    }
    let path = part_of(to);
    let cannot = |source: std::io::Error| match source.kind() {
        ErrorKind::WouldBlock => anyhow!("{}: another fetch writes it; wait for its end", path.display()),
        _ => unwritten(&path, source),
    };
    let kept = Kept::beside(to, of).map_err(cannot)?;
    let held = kept.held().map_err(cannot)?;
    Ok((Some(kept), held))
}

fn unwritten(path: &Path, source: std::io::Error) -> anyhow::Error {
    OutputError { path: path.to_owned(), source }.into()
}

/// Every byte is there and right.
fn end(mut session: Session, done: &mut Done, json: bool, silent: bool) -> anyhow::Result<ExitCode> {
    done.verified = true;
    if !silent {
        session.report(json, "received", done)?;
    }
    session.channel.close(Duration::ZERO);
    Ok(ExitCode::SUCCESS)
}

fn generate(mut session: Session, answer: Answer, size: u64, json: bool) -> anyhow::Result<ExitCode> {
    let mut done = Done { bytes: 0, resumed: 0, controller: None, answer, verified: false };
    if done.answer.status == Status::Go {
        let bar = bar(Some(size));
        receive(&mut session, &mut done.bytes, &mut |at, _| {
            bar.set_position(at);
            Ok(())
        })?;
        bar.finish_and_clear();
    }
    session.report(json, "received", &done)?;
    session.channel.close(Duration::ZERO);
    Ok(ExitCode::SUCCESS)
}

/// Takes what comes, with where it stands; answers the hash.
fn receive(
    session: &mut Session,
    bytes: &mut u64,
    take: &mut dyn FnMut(u64, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<Option<[u8; HASH]>> {
    let mut patience = Patience::new(session.patience);
    loop {
        let told = session.hear(Duration::from_millis(200), &mut |piece| {
            take(*bytes, piece)?;
            *bytes += piece.len() as u64;
            Ok(())
        })?;
        if let Some(Told::Whole(hash)) = told {
            return Ok(hash);
        }
        patience.moved(*bytes)?;
    }
}

fn hash_into(hash: &mut Context, file: &File, bytes: u64) -> std::io::Result<()> {
    let (mut at, mut piece) = (0, vec![0; 256 * 1024]);
    while at < bytes {
        let wanted = (bytes - at).min(piece.len() as u64) as usize;
        match file.read_at(&mut piece[..wanted], at)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => {
                hash.update(&piece[..count]);
                at += count as u64;
            }
        }
    }
    Ok(())
}
