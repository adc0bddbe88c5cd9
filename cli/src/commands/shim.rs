//! `paceline shim`: any program's TCP connections under a controller of its choice.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow, bail};
use paceline_alcc::export::{self, Settings};
use paceline_alcc::filter::{self, Filter};
use paceline_alcc::options::{LOG, Lower, OPTIONS, OptionProblem, Options, OptionsError, Variable};
use paceline_cc::datapath::OPEN_WINDOW;
use paceline_emulator::command::{CommandError, NOT_RUNNABLE, find};
use paceline_emulator::machine::Fitness;
use paceline_preload::library::PRELOAD;
use paceline_preload::program::{ASAN, ORDER};
use paceline_preload::{Library, examine};
use serde_json::json;

use super::verdicts::words;
use crate::complaint;
use crate::exit::unless_failed;

/// Run a program whose TCP connections send as another congestion controller has it, without a change to the program, to
/// its clients or to the kernel.
///
/// The exit status is the program's. 127: there is no such program; 126: it cannot be run; 2: anything else, reported in one
/// line. Each option may also come from the environment: --cc from PACELINE_CC, and so on.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    given: Given,
    /// Say whether a program can be served, instead of running it: exit status 0 when it can, 1 when it cannot.
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["command", "cc"])]
    check: Option<OsString>,
    /// With --check: as one JSON object.
    #[arg(long, requires = "check")]
    json: bool,
    /// The program and its arguments, after --.
    #[arg(last = true, required_unless_present = "check", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What is given of the options that the environment may have as well, by the names of their variables.
#[derive(Debug, Default)]
struct Given(Vec<(&'static str, OsString)>);

/// Every option that the environment may have as well.
fn variables() -> impl Iterator<Item = Variable> {
    let of_engine = OPTIONS.iter().map(|option| option.variable);
    of_engine.chain(filter::VARIABLES).chain(export::VARIABLES).chain([LOG])
}

impl clap::Args for Given {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(variables().map(|variable| {
            let what = variable.what.trim_end_matches('.').replace('`', "");
            let help = format!("{what} [default: {}]", variable.default);
            let argument = clap::Arg::new(variable.option).long(variable.option).value_name(variable.value);
            argument.value_parser(clap::value_parser!(OsString)).help(help)
        }))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Given {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let value = |variable: Variable| Some((variable.name, matches.get_one::<OsString>(variable.option)?.clone()));
        Ok(Self(variables().filter_map(value).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Given {
    fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_os_str())
    }

    /// The first that must be text and is not.
    fn check_text(&self) -> anyhow::Result<()> {
        let paths = [export::QLOG, LOG.name];
        let wrong = self.0.iter().find(|(name, value)| !paths.contains(name) && value.to_str().is_none());
        wrong.map_or(Ok(()), |(name, _)| Err(as_option(&OptionProblem::NotText.of(name))))
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(program) = &args.check {
        return check(program, args.json);
    }
    let variables = environment(args)?;
    let (name, words) = args.command.split_first().context("no program is given")?;
    let path = find(name)?;
    let library = Library::find()?;
    let examined = match examine(&path, Some(&library.elf)) {
        Ok(examined) => examined,
        Err(error) => return Ok(refuse_script(name, &error)),
    };
    let line = examined.line(name);
    match &examined.verdict {
        Fitness::Works(_) => {}
        Fitness::FallsBack(_) => complaint::print(&line),
        Fitness::No(_) => bail!(line),
    }
    let mut command = Command::new(path);
    command.arg0(name).args(words).envs(variables).env(PRELOAD, library.preload()?);
    if examined.wants_order {
        let mut options = std::env::var(ASAN).unwrap_or_default();
        if !options.is_empty() {
            options.push(':');
        }
        command.env(ASAN, options + ORDER);
    }
    let error = command.exec();
    complaint::print(&format!("{}: it cannot be run ({error}); give an executable file", name.display()));
    Ok(ExitCode::from(NOT_RUNNABLE))
}

/// For a script whose interpreter cannot be had: the exit status that a shell would have.
fn refuse_script(name: &OsStr, error: &CommandError) -> ExitCode {
    let name = name.display();
    let line = match error {
        CommandError::NotFound { program } if program.ends_with('\r') => format!(
            "{name}: its interpreter: {}: there is no such program; the lines of the script end in CR LF, as on Windows: \
             convert it, such as with: sed -i 's/\\r$//' {name}",
            program.escape_debug()
        ),
        _ => format!("{name}: its interpreter: {error}"),
    };
    complaint::print(&line);
    ExitCode::from(error.exit_status())
}

/// The variables that carry the options into the program.
fn environment(args: &Args) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let given = &args.given;
    given.check_text()?;
    let value = |name: &str| {
        let option = given.get(name).and_then(OsStr::to_str).map(str::to_owned);
        option.or_else(|| std::env::var(name).ok())
    };
    let options = Options::from_vars(value).map_err(|error| as_option(&error))?;
    servable(&options)?;
    let filter = Filter::from_vars(value).map_err(|error| as_option(&error))?;
    let mut settings = Settings::from_vars(value).map_err(|error| anyhow!("--{error}"))?;
    if let Some(folder) = given.get(export::QLOG) {
        settings.qlog = Some(absolute("--qlog", Path::new(folder))?);
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
    if let Some(file) = given.get(LOG.name) {
        let file = absolute("--log", Path::new(file))?;
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(&file);
        opened.map_err(|error| anyhow!("--log: {}: {error}; name a file you can write to", file.display()))?;
        all.push((LOG.name, file.into()));
    }
    Ok(all)
}

/// An error of a variable, naming the option.
fn as_option(OptionsError { variable, problem }: &OptionsError) -> anyhow::Error {
    let option = variables().find(|known| known.name == *variable).map_or(*variable, |known| known.option);
    anyhow!("--{option}: {problem}")
}

/// The program may change its folder.
fn absolute(option: &str, path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).map_err(|error| anyhow!("{option}: {}: {error}", path.display()))
}

/// The peer is not part of paceline, so nothing can come back from a receiver half.
fn servable(options: &Options) -> anyhow::Result<()> {
    options.for_ordinary_clients().map_err(|error| as_option(&error))?;
    let there = paceline_linux::tcp::controllers();
    if let Lower::Named(lower) = &options.lower
        && !there.contains(lower)
    {
        let fix = match lower.as_str() {
            OPEN_WINDOW => format!("as root, keep it loaded with: paceline kernel load {OPEN_WINDOW}"),
            other => format!("as root: modprobe tcp_{other}"),
        };
        bail!("--lower: this kernel's TCP has no {lower}, it has {}; {fix}", there.join(", "));
    }
    Ok(())
}

/// Reports on a program without running it.
fn check(name: &OsStr, json: bool) -> anyhow::Result<ExitCode> {
    let path = find(name)?;
    let library = Library::find();
    let elf = library.as_ref().ok().map(|library| &library.elf);
    let examined = match examine(&path, elf) {
        Ok(examined) => examined,
        Err(error) => return Ok(refuse_script(name, &error)),
    };
    let capable = !matches!(examined.verdict, Fitness::No(_));
    let served = capable && library.is_ok();
    if json {
        let (verdict, detail) = words(&examined.verdict);
        let (library, problem) = match &library {
            Ok(library) => (Some(library.path.display().to_string()), None),
            Err(error) => (None, Some(complaint::with_causes(error))),
        };
        let object = json!({
            "program": path.display().to_string(),
            "served": served,
            "verdict": verdict,
            "detail": detail,
            "library": library,
            "library_problem": problem,
        });
        crate::print::out(&format!("{object}\n"))?;
        return Ok(unless_failed(!served));
    }
    let mut text = examined.line(name) + "\n";
    if capable {
        text += "not knowable before it runs: a seccomp filter (a program that makes one is left to the kernel), own system calls, io_uring\n";
    }
    match library {
        Ok(library) => text += &format!("library: {}\n", library.path.display()),
        Err(error) => text += &format!("library: {}\n", complaint::with_causes(&error)),
    }
    crate::print::out(&text)?;
    Ok(unless_failed(!served))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn wrong(option: &str, value: &str) -> String {
        let args = <Line as clap::Parser>::parse_from(["shim", option, value, "--", "true"]).args;
        environment(&args).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_option() {
        assert!(wrong("--cc", "copper").starts_with("--cc: unknown controller 'copper'"));
        assert!(wrong("--mode", "fast").starts_with("--mode: 'fast' is not one of auto"));
        assert!(wrong("--ports", "http").starts_with("--ports: 'http' is not a port;"));
        assert!(wrong("--peers", "host").starts_with("--peers: 'host' is not an address;"));
        assert!(wrong("--metrics", "0").starts_with("--metrics: '0' is not an address;"));
        assert!(wrong("--lower", "copper").starts_with("--lower: this kernel's TCP has no copper"));
        assert!(wrong("--cc", "sprout").contains("needs its receiver half"));
        assert!(wrong("--mode", "framed").contains("needs paceline at the other end"));
    }

    #[test]
    fn what_is_no_text_is_refused_unless_it_is_a_path() {
        use std::os::unix::ffi::OsStrExt;
        let bytes = OsStr::from_bytes(b"\xff").to_owned();
        let of = |name| Given(vec![(name, bytes.clone())]).check_text().map_err(|error| error.to_string());
        assert_eq!(of("PACELINE_CC"), Err("--cc: its value is not text".to_owned()));
        assert_eq!(of(LOG.name), Ok(()));
    }
}
