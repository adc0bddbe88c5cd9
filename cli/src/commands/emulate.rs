//! `paceline emulate`: any program behind an emulated path.

mod check;
mod logs;
mod report;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use nix::sys::signal::Signal;
use paceline_cc::{Nanos, Rate};
use paceline_clock::{Clock, Lateness};
use paceline_emulator::command::{Command, CommandError, Running, Signals};
use paceline_emulator::frame::Frame;
use paceline_emulator::listening::listens;
use paceline_emulator::namespace::{self, Privilege};
use paceline_emulator::world::{Between, Far, Site, World};
use paceline_experiment::Direction as Towards;
use paceline_lab::input::{self, Bounds};
use paceline_lab::output;
use paceline_path::{
    Direction, Loss, Path as EmulatedPath, PathError, Phy, QueueSpec, Schedule, Trace, TraceError, Wifi, build_link,
};

use super::{count, share};
use crate::complaint;
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
    /// Share of packets lost at random, in each direction.
    #[arg(long, value_name = "SHARE", value_parser = share, allow_negative_numbers = true)]
    loss: Option<f64>,
    /// The queue at the link in each direction that has one, such as droptail:2MB or codel.
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueSpec>,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<u64>, allow_negative_numbers = true)]
    seed: u64,
    /// Log of every packet in the pcapng format: the first 128 bytes of each.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Logs in the format of Mahimahi's mm-link: NAME.down and NAME.up.
    #[arg(long, value_name = "NAME")]
    mahimahi_log: Option<PathBuf>,
    /// What the emulator did and how late it was, as JSON; - for standard output.
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

/// Exit status when paceline could not do its part.
const FAILED: u8 = 2;
/// Exit status when the program ended well and a log is lost.
const LOG_LOST: u8 = 1;
/// How long the command of --far may take until it listens, and to end when asked to.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often signals and the emulator are looked after.
const ROUND: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.check {
        return check::run();
    }
    let (down, up) = (Way::new(args, Towards::Down)?, Way::new(args, Towards::Up)?);
    let [down_path, up_path] = paths(&down, &up)?;
    let command = match Command::new(&args.command) {
        Ok(command) => command,
        Err(error) => return Ok(refuse(&error)),
    };
    if let Some(path) = args.json.as_deref().filter(|path| *path != Path::new("-")) {
        output::Draft::check(path)?;
    }
    let privilege = namespace::acquire()?;
    let signals = Signals::take().context("cannot take signals")?;
    let isolated = args.far.is_some() || privilege == Privilege::UserNamespace;
    let clock = Clock::new();
    let taps = logs::open(args, clock, &down, &up)?;
    let between = Between { down: down_path, up: up_path, taps, clock, bound: Lateness::BOUND };
    let world = World::build(if isolated { Far::Isolated } else { Far::Here }, between)?;
    let command = with_environment(command, world.far(), isolated);
    let far = args.far.as_ref().map(|text| serve(text, world.far())).transpose()?;
    let mut near = match command.start(&world.near().namespace) {
        Ok(near) => near,
        Err(error) => return Ok(refuse(&error)),
    };
    let status = attend(&mut near, &world, &signals);
    if let Some(far) = far {
        end(far);
    }
    let report = world.stop()?;
    complaint::print(&summary(&report));
    for trouble in &report.troubles {
        complaint::print(trouble);
    }
    if let Some(path) = &args.json {
        super::save("--json", path, |out| writeln!(out, "{}", as_json(&report)))?;
    }
    Ok(ExitCode::from(if status == 0 && !report.troubles.is_empty() { LOG_LOST } else { status }))
}

/// One direction of the path.
struct Way<'a> {
    /// The option of its trace.
    option: &'static str,
    direction: Direction,
    /// Each direction draws its own losses.
    seed: u64,
    args: &'a Args,
}

impl<'a> Way<'a> {
    fn new(args: &'a Args, towards: Towards) -> anyhow::Result<Self> {
        let (option, trace, seed) = match towards {
            Towards::Down => ("--trace", &args.trace, args.seed.wrapping_mul(2)),
            Towards::Up => ("--up", &args.up, args.seed.wrapping_mul(2).wrapping_add(1)),
        };
        if args.trace.is_some() && args.up.is_some() && args.rate.is_some() {
            bail!("--rate: both directions have a trace; leave it out");
        }
        if args.queue.is_some()
            && args.trace.is_none()
            && args.up.is_none()
            && args.rate.is_none()
            && args.wifi.is_none()
        {
            bail!("--queue: there is no link for it to wait at; give --rate, --wifi, --trace or --up too");
        }
        let rate = args.rate.filter(|_| trace.is_none());
        let direction = Direction {
            rate,
            wifi: args.wifi.map(|phy| Wifi { competitors: args.competitors, ..Wifi::new(phy) }),
            queue: args.queue.filter(|_| trace.is_some() || rate.is_some() || args.wifi.is_some()),
            trace: trace.as_ref().map(|path| path.display().to_string()),
            loss: args.loss.map(Loss::Rate),
            delay: args.delay,
            ..Direction::default()
        };
        Ok(Self { option, direction, seed, args })
    }

    fn schedule(&self) -> anyhow::Result<Option<Schedule>> {
        self.direction.schedule(self.seed, &|name| load(self.option, name)).map_err(explain)
    }
}

/// The paths of both directions; a trace's errors name its option.
fn paths(down: &Way<'_>, up: &Way<'_>) -> anyhow::Result<[EmulatedPath<Frame>; 2]> {
    let base_rtt = down.args.delay + up.args.delay;
    let option = |name: &str| if down.direction.trace.as_deref() == Some(name) { down.option } else { up.option };
    let load = |name: &str| load(option(name), name);
    build_link([&down.direction, &up.direction], [down.seed, up.seed], base_rtt, &load).map_err(explain)
}

/// The fields of a direction are options here.
fn explain(error: PathError) -> anyhow::Error {
    match error {
        PathError::Trace { reason } => anyhow!(reason),
        other => anyhow!("--{other}"),
    }
}

fn load(option: &str, name: &str) -> anyhow::Result<Arc<Trace>> {
    let unreadable =
        |error: &std::io::Error| anyhow!("{option}: {name} cannot be read ({error}); name a trace file that exists");
    let file = input::open(Path::new(name), Bounds::TRACE).map_err(|error| unreadable(&error))?;
    match Trace::read(name, file) {
        Err(TraceError::Read { source, .. }) => Err(unreadable(&source)),
        other => Ok(Arc::new(other?)),
    }
}

/// One line, and the exit status that a shell would have.
fn refuse(error: &CommandError) -> ExitCode {
    complaint::print(&error.to_string());
    ExitCode::from(error.exit_status())
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
fn serve(text: &str, site: &Site) -> anyhow::Result<Running> {
    let mut far = Command::new(["/bin/sh", "-c", text])?.start(&site.namespace)?;
    let start = Instant::now();
    while start.elapsed() < PATIENCE && !listens(&site.namespace)? {
        match far.wait(ROUND) {
            Some(0) => break,
            Some(status) => bail!("--far: '{text}' ended with status {status} before anything ran; fix the command"),
            None => {}
        }
    }
    Ok(far)
}

/// Waits for the end of the program and answers its exit status; passes signals on; ends it when the emulator fails.
fn attend(near: &mut Running, world: &World, signals: &Signals) -> u8 {
    loop {
        if let Some(status) = near.wait(ROUND) {
            return status;
        }
        for signal in signals.sent() {
            near.signal(signal);
        }
        if !world.is_running() {
            near.signal(Signal::SIGKILL);
            near.wait(PATIENCE);
            return FAILED;
        }
    }
}

/// Asks a program to end, then makes it.
fn end(mut far: Running) {
    far.signal(Signal::SIGTERM);
    if far.wait(PATIENCE).is_none() {
        far.signal(Signal::SIGKILL);
        far.wait(PATIENCE);
    }
}
