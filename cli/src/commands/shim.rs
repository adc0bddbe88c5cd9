//! `paceline shim`: any program's TCP connections under a controller of its choice.

mod elf;
mod program;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow, bail};
use paceline_alcc::export::{self, Settings};
use paceline_alcc::filter::{self, Filter};
use paceline_alcc::options::{self, Lower, Options};
use paceline_emulator::command::{CommandError, NOT_RUNNABLE, find};
use paceline_emulator::machine::Verdict;

use crate::complaint;
use elf::Elf;

/// Run a program whose TCP connections send as another congestion controller has it, without a change to the program, to
/// its clients or to the kernel.
///
/// The exit status is the program's. 127: there is no such program; 126: it cannot be run; 2: anything else, reported in one
/// line. Each option may also come from the environment: --cc from PACELINE_CC, and so on.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The controller, such as copa or copa:delta=0.1; `paceline controllers` lists them. copa when not given.
    #[arg(long, value_name = "CONTROLLER")]
    cc: Option<String>,
    /// How bytes reach TCP: auto, queue (ours, in chunks that the controller permits) or inline (the program writes to the
    /// kernel, whose pacing the controller sets).
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// Where acknowledgements are read: auto, stamps (the socket's error queue) or info (TCP_INFO alone).
    #[arg(long, value_name = "SOURCE")]
    acks: Option<String>,
    /// Connections with these ports at either end, such as 80,443,8000-8999; all when not given.
    #[arg(long, value_name = "LIST")]
    ports: Option<String>,
    /// Connections with these peers, such as 10.0.0.0/8,2001:db8::/32; all when not given.
    #[arg(long, value_name = "LIST")]
    peers: Option<String>,
    /// The kernel's congestion control below: auto (with a queue the one that is best below this controller, where the kernel
    /// allows it), keep (the program's), or a name such as cubic, reno or bbr.
    #[arg(long, value_name = "NAME")]
    lower: Option<String>,
    /// How much a connection's queue holds, such as 1MB.
    #[arg(long, value_name = "SIZE")]
    queue: Option<String>,
    /// How much the queues of all connections hold together, such as 256MB.
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// How long a peer may take nothing, after a close or at the end of the program, before what is queued is dropped, such as 60s.
    #[arg(long, value_name = "TIME")]
    linger: Option<String>,
    /// Whether connections to one destination prefix share their smallest RTT: on or off.
    #[arg(long, value_name = "SWITCH")]
    share: Option<String>,
    /// Whether connections to one destination prefix share one window: on or off.
    #[arg(long, value_name = "SWITCH")]
    aggregate: Option<String>,
    /// Write the library's messages to this file instead of standard error.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write a log of each connection into this folder, in the qlog format.
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// Answer Prometheus here, such as 127.0.0.1:9464; a port alone is one of the loopback address.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
    /// Say whether a program can be served, instead of running it: exit status 0 when it can, 1 when it cannot.
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["command", "cc"])]
    check: Option<OsString>,
    /// The program and its arguments, after --.
    #[arg(last = true, required_unless_present = "check", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// File name of the preloaded library.
const LIBRARY: &str = "libpaceline_shim.so";
/// Names the preloaded library, instead of the places where it is looked for.
const PLACE: &str = "PACELINE_SHIM";
/// Where the preloaded library writes what it has to say.
const LOG: &str = "PACELINE_LOG";
/// What the dynamic linker loads first.
const PRELOAD: &str = "LD_PRELOAD";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(program) = &args.check {
        return check(program);
    }
    let variables = variables(args)?;
    let (name, words) = args.command.split_first().context("no program is given")?;
    let path = match find(name) {
        Ok(path) => path,
        Err(error) => return Ok(refuse(&error)),
    };
    let (library, elf) = library()?;
    let examined = match program::examine(&path, Some(&elf)) {
        Ok(examined) => examined,
        Err(error) => return Ok(refuse_script(name, &error)),
    };
    let line = examined.line(name);
    match &examined.verdict {
        Verdict::Works(_) => {}
        Verdict::FallsBack(_) => complaint::print(&line),
        Verdict::No(_) => bail!(line),
    }
    let error = Command::new(path).arg0(name).args(words).envs(variables).env(PRELOAD, preload(&library)?).exec();
    complaint::print(&format!("{}: it cannot be run ({error}); give an executable file", name.display()));
    Ok(ExitCode::from(NOT_RUNNABLE))
}

/// One line, and the exit status that a shell would have.
fn refuse(error: &CommandError) -> ExitCode {
    complaint::print(&error.to_string());
    ExitCode::from(error.exit_status())
}

/// As [`refuse`], for a script whose interpreter cannot be had.
fn refuse_script(name: &OsStr, error: &CommandError) -> ExitCode {
    complaint::print(&format!("{}: its interpreter: {error}", name.display()));
    ExitCode::from(error.exit_status())
}

/// The variables that carry the options into the program.
fn variables(args: &Args) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let given = [
        (options::CONTROLLER, &args.cc),
        (options::MODE, &args.mode),
        (options::ACKS, &args.acks),
        (options::QUEUE, &args.queue),
        (options::MEMORY, &args.memory),
        (options::LINGER, &args.linger),
        (options::LOWER, &args.lower),
        (options::SHARE, &args.share),
        (options::AGGREGATE, &args.aggregate),
        (filter::PORTS, &args.ports),
        (filter::PEERS, &args.peers),
        (export::METRICS, &args.metrics),
    ];
    let value = |name: &str| {
        let option = given.iter().find(|(known, _)| *known == name).and_then(|(_, value)| (*value).clone());
        option.or_else(|| std::env::var(name).ok())
    };
    let options = Options::from_vars(value).map_err(|error| as_option(&error))?;
    servable(&options)?;
    let filter = Filter::from_vars(value).map_err(|error| as_option(&error))?;
    let mut settings = Settings::from_vars(value).map_err(|error| anyhow!("--{error}"))?;
    if let Some(folder) = &args.qlog {
        settings.qlog = Some(absolute("--qlog", folder)?);
    }
    if let Some(folder) = &settings.qlog {
        std::fs::create_dir_all(folder)
            .map_err(|error| anyhow!("--qlog: {}: {error}; name a folder you can write to", folder.display()))?;
    }
    if let Some(address) = settings.metrics {
        std::net::TcpListener::bind(address).map_err(|error| {
            let fix = match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "leave it out where a shim of this user has it, which answers for all of them, or give another"
                }
                _ => "give one of this machine, such as 127.0.0.1:9464",
            };
            anyhow!("--metrics: {address}: {error}; {fix}")
        })?;
    }
    let all = [options.to_env(), filter.to_env(), settings.to_env()].concat();
    let mut all: Vec<(&str, OsString)> = all.into_iter().map(|(name, value)| (name, value.into())).collect();
    if let Some(file) = &args.log {
        let file = absolute("--log", file)?;
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(&file);
        opened.map_err(|error| anyhow!("--log: {}: {error}; name a file you can write to", file.display()))?;
        all.push((LOG, file.into()));
    }
    Ok(all)
}

/// An error that names a variable, naming the option.
fn as_option(error: &dyn std::error::Error) -> anyhow::Error {
    let text = error.to_string();
    match text.strip_prefix("PACELINE_").and_then(|rest| rest.split_once(':')) {
        Some((name, rest)) => anyhow!("--{}:{rest}", name.to_lowercase()),
        None => anyhow!(text),
    }
}

/// The program may change its folder.
fn absolute(option: &str, path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).map_err(|error| anyhow!("{option}: {}: {error}", path.display()))
}

/// The peer is not part of paceline, so nothing can come back from a receiver half.
fn servable(options: &Options) -> anyhow::Result<()> {
    options.for_ordinary_clients().map_err(|error| as_option(&error))?;
    let there = paceline_testbed::tcp::available();
    if let Lower::Named(lower) = &options.lower
        && !there.contains(lower)
    {
        let fix = match lower.as_str() {
            "paceline_open" => "as root, keep it loaded with: paceline open-window".to_owned(),
            other => format!("as root: modprobe tcp_{other}"),
        };
        bail!("--lower: this kernel's TCP has no {lower}, it has {}; {fix}", there.join(", "));
    }
    Ok(())
}

/// Finds the preloaded library: named by `PACELINE_SHIM`, beside this executable, or in `../lib/paceline` from there.
///
/// # Errors
/// When there is none, or it cannot be preloaded.
pub(crate) fn library() -> anyhow::Result<(PathBuf, Elf)> {
    let place = match std::env::var_os(PLACE).filter(|place| !place.is_empty()) {
        Some(place) => absolute(PLACE, Path::new(&place))?,
        None => {
            let executable = std::env::current_exe().context("the path of this executable cannot be found")?;
            let folder = executable.parent().unwrap_or(Path::new("/"));
            let places = [folder.join(LIBRARY), folder.join("../lib/paceline").join(LIBRARY)];
            let found = places.iter().find(|place| place.exists()).with_context(|| {
                format!("{LIBRARY}: it is not in {}; build it (make build) or name it in {PLACE}", folder.display())
            })?;
            found.canonicalize().unwrap_or_else(|_| found.clone())
        }
    };
    let shown = place.display().to_string();
    if shown.contains([' ', ':', '\n', '\t']) {
        bail!("{shown}: LD_PRELOAD takes no path with a space or a colon; move the library and name it in {PLACE}");
    }
    let elf = Elf::read(&place).map_err(|error| anyhow!("{shown}: {error}; name the library {LIBRARY} in {PLACE}"))?;
    let elf = elf.filter(|elf| elf.linker.is_none() && !elf.needed.is_empty());
    Ok((place, elf.ok_or_else(|| anyhow!("{shown}: it is not a shared library; name {LIBRARY} in {PLACE}"))?))
}

/// The library before those that are preloaded already, and once.
fn preload(library: &Path) -> anyhow::Result<OsString> {
    let present = std::env::var(PRELOAD).unwrap_or_default();
    let others = present.split([' ', ':']).filter(|path| !path.is_empty());
    let others = others.filter(|path| Path::new(path).file_name() != Some(OsStr::new(LIBRARY)));
    let library = library.to_str().context("the path of the library is not text")?;
    Ok(std::iter::once(library).chain(others).collect::<Vec<_>>().join(":").into())
}

/// Reports on a program without running it.
fn check(name: &OsStr) -> anyhow::Result<ExitCode> {
    let path = match find(name) {
        Ok(path) => path,
        Err(error) => return Ok(refuse(&error)),
    };
    let library = library();
    let elf = library.as_ref().ok().map(|(_, elf)| elf);
    let examined = match program::examine(&path, elf) {
        Ok(examined) => examined,
        Err(error) => return Ok(refuse_script(name, &error)),
    };
    let mut text = examined.line(name) + "\n";
    let capable = !matches!(examined.verdict, Verdict::No(_));
    let served = capable && library.is_ok();
    if capable {
        text += "not knowable before it runs: a seccomp filter (what has one is left to the kernel), own system calls, io_uring\n";
    }
    match library {
        Ok((path, _)) => text += &format!("library: {}\n", path.display()),
        Err(error) => text += &format!("library: {}\n", complaint::of_error(&error)),
    }
    crate::print(&text)?;
    Ok(ExitCode::from(u8::from(!served)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(change: impl FnOnce(&mut Args)) -> String {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let mut args = <Line as clap::Parser>::parse_from(["shim", "--", "true"]).args;
        change(&mut args);
        variables(&args).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_option() {
        let text = |text: &str| Some(text.to_owned());
        assert!(wrong(|args| args.cc = text("copper")).starts_with("--cc: unknown controller 'copper'"));
        assert!(wrong(|args| args.mode = text("fast")).starts_with("--mode: 'fast' is not one of auto"));
        assert!(wrong(|args| args.ports = text("http")).starts_with("--ports: 'http' is not a port;"));
        assert!(wrong(|args| args.peers = text("host")).starts_with("--peers: 'host' is not an address;"));
        assert!(wrong(|args| args.metrics = text("0")).starts_with("--metrics: '0' is not an address;"));
        assert!(wrong(|args| args.lower = text("copper")).starts_with("--lower: this kernel's TCP has no copper"));
        assert!(wrong(|args| args.cc = text("sprout")).contains("needs its receiver half"));
        assert!(wrong(|args| args.mode = text("framed")).contains("needs paceline at the other end"));
    }
}
