//! The `paceline` command.
//!
//! What the exit status says: [`exit::Exit`].

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory, Parser, Subcommand};

mod commands;
mod complaint;
// Some commands are Linux's alone.
#[cfg(all(test, target_os = "linux"))]
#[path = "../tests/documented/mod.rs"]
mod documented;
mod exit;
mod print;
mod progress;
mod terminal;

use complaint::with_causes;
use exit::Exit;
use print::{heard, unprinted};

/// Version and commit.
static BUILD: LazyLock<String> = LazyLock::new(paceline_lab::version::build);

/// Race congestion controllers, alone or together, on real and made-up paths.
#[derive(Parser)]
#[command(name = "paceline", version, long_version = BUILD.as_str(), about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Race(Box<commands::race::Args>),
    Sweep(commands::sweep::Args),
    Controllers(commands::controllers::Args),
    #[command(subcommand)]
    Trace(commands::trace::Command),
    Validate(commands::validate::Args),
    Report(commands::report::Args),
    Plot(commands::plot::Args),
    Replay(commands::replay::Args),
    Conform(commands::conform::Args),
    Evaluate(commands::evaluate::Args),
    #[command(subcommand)]
    Mdi(commands::mdi::Command),
    Reproduce(commands::reproduce::Args),
    #[cfg(target_os = "linux")]
    Emulate(Box<commands::emulate::Args>),
    #[cfg(target_os = "linux")]
    Doctor(commands::doctor::Args),
    #[cfg(target_os = "linux")]
    Serve(Box<commands::serve::Args>),
    #[cfg(target_os = "linux")]
    Send(Box<commands::send::Args>),
    #[cfg(target_os = "linux")]
    Fetch(Box<commands::fetch::Args>),
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Alcc(commands::alcc::Command),
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Icn(Box<commands::icn::Command>),
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Int(Box<commands::int::Command>),
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Kernel(commands::kernel::Command),
    #[cfg(target_os = "linux")]
    Shim(Box<commands::shim::Args>),
    #[cfg(target_os = "linux")]
    Top(commands::top::Args),
    Completions(commands::completions::Args),
    Manual(commands::manual::Args),
}

impl Command {
    /// Whether it needs a process with a single thread, to move into namespaces or pass signals on, and handles signals.
    fn moves(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Emulate(_) | Self::Doctor(_) | Self::Serve(_) => true,
            #[cfg(target_os = "linux")]
            Self::Alcc(args) => args.moves(),
            #[cfg(target_os = "linux")]
            Self::Icn(args) => args.moves(),
            #[cfg(target_os = "linux")]
            Self::Int(args) => args.moves(),
            #[cfg(target_os = "linux")]
            Self::Kernel(args) => args.moves(),
            _ => false,
        }
    }
}

fn main() -> ExitCode {
    paceline_lab::version::built_from(paceline_commit::COMMIT);
    #[cfg(target_os = "linux")]
    if let Some(status) = paceline_emulator::command::reentered().or_else(commands::kernel::reentered) {
        return status;
    }
    std::panic::set_hook(Box::new(|panic| {
        complaint::print(&format!("a mistake in paceline: {panic}; please report it"));
    }));
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            return match heard(error.print().and_then(|()| std::io::stdout().flush())) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => refused(&unprinted(error)),
            };
        }
        Err(error) => {
            // What is not text names no command.
            let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
            complaint::print(&complaint::of_arguments(&error, &Cli::command(), arguments));
            return Exit::Refused.into();
        }
    };
    // While there is one thread: a process of several is refused a user namespace.
    let is_real = match &cli.command {
        Command::Race(args) => args.real,
        Command::Validate(args) => args.real,
        Command::Conform(args) => args.real,
        Command::Reproduce(args) => {
            args.acquire();
            false
        }
        _ => false,
    };
    if is_real && let Err(error) = paceline_lab::real::acquire() {
        return refused(&error);
    }
    // Without it an interrupt may leave a draft behind, nothing worse.
    if !cli.command.moves() {
        let _ = ctrlc::set_handler(|| {
            paceline_files::abandon();
            std::process::exit(Exit::Interrupted as i32);
        });
    }
    let result = match &cli.command {
        Command::Race(args) => commands::race::run(args),
        Command::Sweep(args) => commands::sweep::run(args),
        Command::Controllers(args) => commands::controllers::run(args),
        Command::Trace(args) => commands::trace::run(args),
        Command::Validate(args) => commands::validate::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::Plot(args) => commands::plot::run(args),
        Command::Replay(args) => commands::replay::run(args),
        Command::Conform(args) => commands::conform::run(args),
        Command::Evaluate(args) => commands::evaluate::run(args),
        Command::Mdi(args) => commands::mdi::run(args),
        Command::Reproduce(args) => commands::reproduce::run(args),
        #[cfg(target_os = "linux")]
        Command::Emulate(args) => commands::emulate::run(args),
        #[cfg(target_os = "linux")]
        Command::Doctor(args) => commands::doctor::run(args),
        #[cfg(target_os = "linux")]
        Command::Serve(args) => commands::serve::run(args),
        #[cfg(target_os = "linux")]
        Command::Send(args) => commands::send::run(args),
        #[cfg(target_os = "linux")]
        Command::Fetch(args) => commands::fetch::run(args),
        #[cfg(target_os = "linux")]
        Command::Alcc(args) => commands::alcc::run(args),
        #[cfg(target_os = "linux")]
        Command::Icn(args) => commands::icn::run(args),
        #[cfg(target_os = "linux")]
        Command::Int(args) => commands::int::run(args),
        #[cfg(target_os = "linux")]
        Command::Kernel(args) => commands::kernel::run(args),
        #[cfg(target_os = "linux")]
        Command::Shim(args) => commands::shim::run(args),
        #[cfg(target_os = "linux")]
        Command::Top(args) => commands::top::run(args),
        Command::Completions(args) => commands::completions::run(args, Cli::command()),
        Command::Manual(args) => commands::manual::run(args, Cli::command()),
    };
    result.unwrap_or_else(|error| refused(error.as_ref()))
}

/// Says why nothing was done.
fn refused(error: &(dyn Error + 'static)) -> ExitCode {
    complaint::print(&with_causes(error));
    exit::after(error)
}
