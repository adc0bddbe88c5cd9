//! `paceline emulate`: any program behind an emulated path.

mod check;
mod logs;
mod meter;
mod path;
mod report;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use paceline_cc::{Nanos, Rate};
use paceline_emulator::command::{Command, PASSED_ON, RunningProgram};
use paceline_emulator::meter::Meter;
use paceline_emulator::world::{Between, EmulatedWorld, Far, Site};
use paceline_linux::clock::{Clock, Lateness};
use paceline_linux::listening;
use paceline_linux::namespace::{self, Privilege};
use paceline_linux::signals::Signals;
use paceline_path::{Phy, QueueSpec, Reorder};
use rustix::process::Signal;

use super::udp::seconds;
use super::{count, share, span};
use crate::complaint;
use crate::exit::{Exit, unless_failed};
use meter::Rounds;
use path::Ways;
use report::{as_json, summary};

/// Run a program behind an emulated path: what it sends and receives passes the link, the queue and the distance.
///
/// As root, the program reaches this machine through the path, at $PACELINE_BASE. As an ordinary user it reaches what
/// --far runs, and nothing else.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Delivery trace (Mahimahi's format) of the link towards the program.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Delivery trace of the link from the program; without it that direction takes --rate, or has no limit.
    #[arg(long, value_name = "FILE")]
    up: Option<PathBuf>,
    /// Rate of the link in each direction that has no trace, such as 12Mbit/s; without it nothing limits.
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// A Wi-Fi link, both directions of which share the air: a rate of 802.11n or 802.11ac, such as vht80-2ss-mcs9.
    #[arg(long, value_name = "PHY", conflicts_with_all = ["trace", "up", "rate"])]
    wifi: Option<Phy>,
    /// With --wifi: stations on the same channel that always have something to send.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count::<u32>, requires = "wifi")]
    competitors: u32,
    /// One-way delay, in each direction.
    #[arg(long, value_name = "TIME", default_value = "0ms", allow_hyphen_values = true)]
    delay: Nanos,
    /// Share of packets lost at random, in each direction, such as 0.01 or 1%.
    #[arg(long, value_name = "SHARE", value_parser = share, allow_negative_numbers = true)]
    loss: Option<f64>,
    /// The queue at the link in each direction that has one, such as droptail:2MB or codel.
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueSpec>,
    /// Random delay on top, from 0 to this, in each direction; packets keep their order.
    #[arg(long, value_name = "TIME")]
    jitter: Option<Nanos>,
    /// Share of packets that arrive twice, in each direction.
    #[arg(long, value_name = "SHARE", value_parser = share, allow_negative_numbers = true)]
    duplicate: Option<f64>,
    /// Share of packets that are held back while others overtake them, and for how long, such as 1%,5ms; in each direction.
    #[arg(long, value_name = "SHARE,TIME", value_parser = path::reorder)]
    reorder: Option<Reorder>,
    /// Rate from the program, where it is another.
    #[arg(long, value_name = "RATE", conflicts_with = "up")]
    up_rate: Option<Rate>,
    /// One-way delay from the program, where it is another.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    up_delay: Option<Nanos>,
    /// Share lost from the program, where it is another.
    #[arg(long, value_name = "SHARE", value_parser = share, allow_negative_numbers = true)]
    up_loss: Option<f64>,
    /// The queue from the program, where it is another.
    #[arg(long, value_name = "QUEUE")]
    up_queue: Option<QueueSpec>,
    /// The path of a scenario file (its sections down and up, docs/guide/paths.md), with all that such a path may have.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "trace", "up", "rate", "wifi", "delay", "loss", "queue", "jitter", "duplicate", "reorder", "up_rate", "up_delay",
        "up_loss", "up_queue",
    ])]
    scenario: Option<PathBuf>,
    /// With --scenario: a value for one of its keys, such as down.delay=25ms; may be given again.
    #[arg(long, value_name = "KEY=VALUE", requires = "scenario")]
    set: Vec<String>,
    /// Seed of everything random; 1 unless this or the scenario says otherwise.
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// A line on standard error at this interval in seconds: what came through each direction, and how long it waited.
    #[arg(long, value_name = "S", value_parser = span, allow_negative_numbers = true)]
    interval: Option<f64>,
    /// Log of every packet in the pcapng format: the first 128 bytes of each.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Logs in the format of Mahimahi's mm-link: NAME.down and NAME.up.
    #[arg(long, value_name = "NAME")]
    mahimahi_log: Option<PathBuf>,
    /// What the emulator did and how late it was, or with --check what was measured, as JSON; - for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A shell command at the other end of the path, in a network namespace of its own; it ends with the program.
    #[arg(long, value_name = "COMMAND")]
    far: Option<String>,
    /// Measure what this machine allows, and how accurate an emulated path is on it, instead of running a program.
    #[arg(long)]
    check: bool,
    /// The program and its arguments, after --.
    #[arg(last = true, required_unless_present = "check", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How many paths there are around a program, this one included, in its environment.
const DEPTH: &str = "PACELINE_DEPTH";
/// How long the command of --far may take until it listens, and to end when asked to.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often signals and the emulator are looked after.
const ROUND: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.check {
        return check::run(args.json.as_deref());
    }
    let ways = Ways::new(args)?;
    let [down_path, up_path] = ways.paths()?;
    let every = args.interval.map(|every| seconds("--interval", every)).transpose()?;
    let command = Command::new(&args.command)?;
    if let Some(path) = &args.json {
        paceline_files::Draft::check(path)?;
    }
    let privilege = namespace::acquire()?;
    let signals = Signals::take(&PASSED_ON).context("cannot take signals")?;
    let isolated = args.far.is_some() || privilege == Privilege::UserNamespace;
    let clock = Clock::new();
    let mut taps = logs::open(args, clock, &ways)?;
    let (meter, mut rounds) = meter::new(every);
    taps.push(Box::new(meter));
    let between = Between { down: down_path, up: up_path, taps, clock, bound: Lateness::BOUND };
    let world = EmulatedWorld::build(if isolated { Far::Isolated } else { Far::Here }, between)?;
    let command = with_environment(command, world.far(), isolated);
    let depth = std::env::var(DEPTH).ok().and_then(|depth| depth.parse::<u32>().ok()).unwrap_or(0).saturating_add(1);
    let command = command.env(DEPTH, depth.to_string());
    let far = args.far.as_ref().map(|text| serve(text, world.far())).transpose()?;
    let mut near = command.start(&world.near().namespace)?;
    let status = attend(&mut near, &world, &signals, &mut rounds);
    if let Some(far) = far {
        end(far);
    }
    let mut report = world.stop()?;
    let waited = Meter::waited(&mut report);
    complaint::print(&(inside(depth) + &summary(&report, &waited)));
    for trouble in &report.troubles {
        complaint::print(&trouble.to_string());
    }
    if let Some(path) = &args.json {
        super::save("--json", path, |out| writeln!(out, "{}", as_json(&report, &waited)))?;
    }
    // A log is lost, and the program ended well.
    Ok(if status == 0 { unless_failed(!report.troubles.is_empty()) } else { status.into() })
}

/// The program learns where the other end is. Inside another path that is the outermost end, as Mahimahi has it.
fn with_environment(command: Command, far: &Site, isolated: bool) -> Command {
    let addresses = [
        ("PACELINE_BASE", Some(far.ipv4.to_string())),
        ("MAHIMAHI_BASE", Some(far.ipv4.to_string())),
        ("PACELINE_BASE6", far.ipv6.map(|address| address.to_string())),
    ];
    let wanted = addresses.into_iter().filter(|(name, _)| isolated || std::env::var_os(name).is_none());
    wanted.fold(command, |command, (name, address)| match address {
        Some(address) => command.env(name, address),
        None => command,
    })
}

/// Starts the command of --far and waits until it listens.
fn serve(text: &str, site: &Site) -> anyhow::Result<RunningProgram> {
    let mut far = Command::new(["/bin/sh", "-c", text])?.start(&site.namespace)?;
    let start = Instant::now();
    while start.elapsed() < PATIENCE && !site.namespace.enter(listening::any)? {
        match far.wait(ROUND) {
            Some(0) => break,
            Some(status) => bail!("--far: '{text}' ended with status {status} before anything ran; fix the command"),
            None => {}
        }
    }
    Ok(far)
}

/// Which of several paths a line is of.
fn inside(depth: u32) -> String {
    if depth > 1 { format!("path {depth}, inside {}: ", depth - 1) } else { String::new() }
}

/// Waits for the end of the program and answers its exit status; passes signals on; ends it when the emulator fails.
fn attend(near: &mut RunningProgram, world: &EmulatedWorld, signals: &Signals, rounds: &mut Rounds) -> u8 {
    loop {
        if let Some(status) = near.wait(ROUND) {
            return status;
        }
        for signal in signals.sent() {
            near.signal(signal);
        }
        rounds.pass();
        if !world.is_running() {
            near.signal(Signal::KILL);
            near.wait(PATIENCE);
            return Exit::Refused as u8;
        }
    }
}

/// Asks a program to end, then makes it.
fn end(mut far: RunningProgram) {
    far.signal(Signal::TERM);
    if far.wait(PATIENCE).is_none() {
        far.signal(Signal::KILL);
        far.wait(PATIENCE);
    }
}
