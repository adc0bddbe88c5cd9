//! Programs that are not ours in a race: what they find, how they end, what is said when they do not do their part, and that nothing of
//! them is left. The programs are shell commands, and this binary again, which sends and receives.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use paceline_cc::{Bytes, Nanos, Rate, Spec, Time};
use paceline_emulator::command::reentered;
use paceline_experiment::program::{Program, ProgramOutcome, ProgramPlaces};
use paceline_experiment::{Config, Cross, Flow, Hooks, Outcome, Seed, Topology, Via, Way, Workload};
use paceline_fixture::{mark, until, with_mark, without_harness};
use paceline_linux::namespace::{self, Privilege};
use paceline_path::Direction;
use paceline_testbed::race::programs::{prepare, version};
use paceline_testbed::race::{self, TestbedError};
use socket2::SockRef;

/// First arguments of this binary: listens and takes what comes, over TCP or UDP; sends, without end or so many bytes, over TCP or UDP;
/// runs a race until it is killed.
const TAKE: &str = "__take";
const TAKE_UDP: &str = "__take-udp";
const GIVE: &str = "__give";
const GIVE_UDP: &str = "__give-udp";
const RACE: &str = "__race";
/// Cycles of `kill -9`, and how much later than the one before each comes, milliseconds.
const CYCLES: u64 = 20;
const LATER: u64 = 40;

/// A folder that is gone with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("paceline-race-{}", mark()));
        fs::create_dir(&folder).unwrap();
        fs::create_dir(folder.join("shared")).unwrap();
        Self(folder)
    }

    fn places(&self) -> ProgramPlaces {
        ProgramPlaces {
            shared: self.0.join("shared"),
            outputs: self.0.join("own-1"),
            run: 3,
            versions: [("own".to_owned(), "own 1.2".to_owned())].into(),
        }
    }

    /// What a flow's file has in it.
    fn read(&self, flow: usize, name: &str) -> String {
        fs::read_to_string(self.places().of_flow(flow).join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Variables that a command finds in any case, or that a shell makes.
const OFTEN: [&str; 8] = ["PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "ROLE"];

/// Another one that this process has, and its value.
fn another() -> Option<(String, String)> {
    let is_plain =
        |text: &str| !text.is_empty() && text.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_');
    std::env::vars().find(|(name, value)| is_plain(name) && is_plain(value) && !OFTEN.contains(&name.as_str()))
}

/// This binary with these arguments, as a command of a shell.
fn this(arguments: &str) -> String {
    format!("exec {} {arguments}", std::env::current_exe().unwrap().display())
}

/// A program that sends over TCP from the side that is not the server, with these keys instead of its own.
fn program(keys: serde_json::Value) -> Program {
    let mut table = serde_json::json!({
        "sender": this(&format!("{GIVE} $PACELINE_PEER $PACELINE_PORT ${{PACELINE_BYTES:-}}")),
        "receiver": this(&format!("{TAKE} $PACELINE_PORT")),
        "linger": "200ms",
        "grace": "500ms",
    });
    let serde_json::Value::Object(keys) = keys else { panic!("keys are a table") };
    for (key, value) in keys {
        table[key] = value;
    }
    Program { name: "own".to_owned(), ..serde_json::from_value(table).unwrap() }
}

fn flow(program: Program) -> Flow {
    Flow::bulk(Spec::elsewhere("own"), Via::of_program(Some(Arc::new(program))))
}

/// These flows over 12 Mbit/s and 10 ms each way, for so many milliseconds.
fn config(flows: Vec<Flow>, cross: Vec<Cross>, milliseconds: u64) -> Config<paceline_emulator::Frame> {
    let path = |rate: Option<Rate>| {
        let way = Direction { rate, delay: Nanos::from_millis(10), ..Direction::default() };
        way.build(7, Nanos::from_millis(20), &|_| Err("no trace")).unwrap()
    };
    Config {
        seed: Seed(9),
        duration: Nanos::from_millis(milliseconds),
        topology: Topology::dumbbell(path(Some(Rate::from_mbps(12.0))), path(None)),
        flows,
        cross,
        sample_every: None,
    }
}

fn race(flows: Vec<Flow>, cross: Vec<Cross>, milliseconds: u64, folder: &Folder) -> Result<Outcome, TestbedError> {
    let hooks = Hooks { programs: Some(folder.places()), ..Hooks::default() };
    race::run_with(config(flows, cross, milliseconds), None, hooks).map(|finished| finished.outcome)
}

/// What came of a single flow of a program in a second and a half.
fn alone(keys: serde_json::Value, folder: &Folder) -> Result<(Outcome, ProgramOutcome), TestbedError> {
    let outcome = race(vec![flow(program(keys))], Vec::new(), 1500, folder)?;
    let program = outcome.flows[0].program.clone().expect("a program ran the flow");
    Ok((outcome, program))
}

/// The one line of a failure, and what the program said before.
fn failure(keys: serde_json::Value) -> String {
    let folder = Folder::new();
    alone(keys, &folder).map(drop).expect_err("it fails").to_string()
}

fn a_program_sends_over_the_path_and_is_asked_to_end() {
    let folder = Folder::new();
    let (outcome, program) = alone(serde_json::json!({}), &folder).unwrap();
    let flow = &outcome.flows[0];
    assert!(flow.packets_arrived > 200, "{} packets", flow.packets_arrived);
    assert!(flow.delay.quantile_ms(0.5).unwrap() >= 10.0);
    // It would go on without end, and so would the server.
    assert_eq!([program.sender.signal, program.receiver.signal], [Some(15); 2]);
    assert!(program.sender.ended >= Time::from_millis(1500) && program.receiver.ended >= program.sender.ended);
    assert!(program.sender.cpu > Nanos::ZERO && program.receiver.cpu > Nanos::ZERO);
    assert!(program.start < Time::from_millis(500));
}

fn a_command_finds_its_variables_and_leaves_figures_and_logs() {
    let folder = Folder::new();
    let (inherited, has) = another().unwrap_or_default();
    let server =
        "env >env; echo '{\"a\": {\"b\": 12.5}}' >result.json; touch $QLOGDIR/one.sqlog; echo \"$PACELINE_SELF\"; ";
    let keys = serde_json::json!({
        "server": "sender",
        "sender": server.to_owned() + &this(&format!("{TAKE} $PACELINE_PORT give")),
        "receiver": "env >env; ".to_owned() + &this(&format!("{GIVE} $PACELINE_PEER $PACELINE_PORT 0 take")),
        "port": 4433,
        "options": { "cc": "bbr", "pkt-size": "1200" },
        "env": { "OWN": "a b" },
        "inherit": [inherited, "PACELINE_TEST_NOT_THERE"],
        "figures": { "b": "sender/result.json#/a/b", "none": "sender/result.json#/c" },
    });
    let flow = Flow { workload: Workload::Bytes(Bytes(200_000)), start: Time::from_millis(300), ..flow(program(keys)) };
    let outcome = race(vec![flow], Vec::new(), 1500, &folder).unwrap();
    let outcome = outcome.flows[0].program.clone().unwrap();
    assert_eq!(outcome.figures, [("b".to_owned(), 12.5)].into());
    assert_eq!(outcome.qlog, [folder.places().of_flow(0).join("sender/one.sqlog")]);
    assert!(outcome.start >= Time::from_millis(300));
    assert_eq!(outcome.version.as_deref(), Some("own 1.2"));
    let variables = |side: &str| -> Vec<(String, String)> {
        let text = folder.read(0, &format!("{side}/env"));
        let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        text.lines().filter_map(pair).collect()
    };
    let value = |side: &str, name: &str| {
        let found = variables(side).into_iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    };
    let out = folder.places().of_flow(0);
    for (name, expected) in [
        ("PACELINE_ROLE", "sender"),
        ("ROLE", "server"),
        ("PACELINE_PORT", "4433"),
        ("PACELINE_SECONDS", "2"),
        ("PACELINE_BYTES", "200000"),
        ("PACELINE_RUN", "3"),
        ("PACELINE_SEED", "9"),
        ("PACELINE_FLOW", "0"),
        ("CC", "bbr"),
        ("PKT_SIZE", "1200"),
        ("OWN", "a b"),
        ("LANG", "C.UTF-8"),
        (&inherited, &has),
        ("PACELINE_OUT", out.join("sender").to_str().unwrap()),
        ("HOME", out.join("sender").to_str().unwrap()),
        ("QLOGDIR", out.join("sender").to_str().unwrap()),
        ("PACELINE_SHARED", folder.places().shared.to_str().unwrap()),
    ] {
        let there = value("sender", name).unwrap_or_default();
        assert_eq!(there, expected, "{name}");
    }
    assert_eq!(value("receiver", "ROLE").as_deref(), Some("client"));
    assert_eq!(value("receiver", "PACELINE_PEER"), value("sender", "PACELINE_SELF"));
    assert_eq!(value("receiver", "PACELINE_SELF"), value("sender", "PACELINE_PEER"));
    assert_eq!(folder.read(0, "sender.out").trim(), value("sender", "PACELINE_SELF").unwrap());
    let ours: BTreeSet<String> = std::env::vars().map(|(name, _)| name).collect();
    let taken: Vec<String> = variables("sender").into_iter().map(|(name, _)| name).collect();
    let taken = taken.iter().filter(|name| ours.contains(*name) && !OFTEN.contains(&name.as_str()));
    assert!(taken.eq([&inherited].into_iter().filter(|name| !name.is_empty())));
}

fn programs_run_beside_each_other_and_beside_ours() {
    let folder = Folder::new();
    let udp = serde_json::json!({
        "sender": this(&format!("{GIVE_UDP} $PACELINE_PEER $PACELINE_PORT")),
        "receiver": this(&format!("{TAKE_UDP} $PACELINE_PORT")),
    });
    let flows = vec![
        flow(program(serde_json::json!({}))),
        Flow::bulk("copa".parse().unwrap(), Via::udp()),
        Flow { way: Way::UP, extra_delay: Nanos::from_millis(3), ..flow(program(udp)) },
    ];
    let cross = Cross {
        way: Way::DOWN,
        rate: Rate::from_mbps(1.0),
        packet: 1000,
        burst: 1,
        poisson: false,
        start: Time::ZERO,
        stop: None,
    };
    let outcome = race(flows, vec![cross], 2000, &folder).unwrap();
    for flow in &outcome.flows {
        assert!(flow.packets_arrived > 50, "flow {}: {} packets", flow.index, flow.packets_arrived);
        assert_eq!(flow.program.is_some(), flow.index != 1);
    }
    // Its own delay is in the path's.
    assert!(outcome.flows[2].delay.quantile_ms(0.01).unwrap() >= 12.9);
}

fn tcp_has_the_congestion_control_of_the_program_and_its_kernel_the_settings() {
    let folder = Folder::new();
    for congestion in ["reno", "cubic"] {
        if !paceline_linux::tcp::controllers().iter().any(|known| known == congestion) {
            continue;
        }
        let keys = serde_json::json!({ "congestion": congestion, "sysctl": { "net.ipv4.tcp_ecn": "0" },
            "receiver": "cat /proc/sys/net/ipv4/tcp_ecn; ".to_owned() + &this(&format!("{TAKE} $PACELINE_PORT")) });
        alone(keys, &folder).unwrap();
        assert_eq!(folder.read(0, "receiver.out"), format!("0\n{congestion}\n"));
        assert_eq!(folder.read(0, "sender.out"), format!("{congestion}\n"));
    }
    let text = failure(serde_json::json!({ "congestion": "nosuch" }));
    assert!(text.contains("with the congestion control nosuch"), "{text}");
    let text = failure(serde_json::json!({ "sysctl": { "net.ipv4.nosuch": "1" } }));
    assert!(text.contains("cannot set net.ipv4.nosuch = 1"), "{text}");
}

fn a_server_is_ready_when_it_says_so_or_after_a_while() {
    let folder = Folder::new();
    let says = "echo 'not yet' >&2; sleep 0.2; echo 'now ready, really' >&2; ".to_owned();
    let keys = serde_json::json!({
        "ready": { "line": "now ready" },
        "receiver": says + &this(&format!("{TAKE} $PACELINE_PORT")),
        // It begins as soon as the server has said so, and tries until the server listens.
        "sender": this(&format!("{GIVE} $PACELINE_PEER $PACELINE_PORT")),
    });
    assert!(alone(keys, &folder).unwrap().0.flows[0].packets_arrived > 200);
    assert!(alone(serde_json::json!({ "ready": { "after": "300ms" } }), &folder).is_ok());
    let text = failure(serde_json::json!({ "ready": { "line": "ready" }, "ready_within": "300ms",
        "receiver": "echo one >&2; echo two >&2; sleep 3000" }));
    assert_eq!(text, "own@program: receiver: did not say 'ready' within 0.3 s\n  | one\n  | two");
}

fn a_server_that_does_not_get_ready_is_named() {
    let mark = mark();
    let text = failure(serde_json::json!({ "ready_within": "300ms", "receiver": format!("sleep {mark}") }));
    assert_eq!(text, "own@program: receiver: did not listen on port 20000 within 0.3 s");
    let text = failure(serde_json::json!({ "receiver": "echo 'no such file' >&2; exit 1" }));
    assert_eq!(text, "own@program: receiver: ended with status 1 before it was ready\n  | no such file");
    // A daemon: what was started ends, and what it started goes with it.
    let away = format!("(setsid sleep {mark} >/dev/null 2>&1 &); exit 0");
    let text = failure(serde_json::json!({ "receiver": away }));
    assert_eq!(text, "own@program: receiver: ended with status 0 before it was ready");
    let text = failure(serde_json::json!({ "receiver": "exec /nowhere/to/be/found" }));
    assert!(text.starts_with("own@program: receiver: ended with status 127 before it was ready\n  | "), "{text}");
    assert_eq!(with_mark(&mark), Vec::<String>::new());
}

fn a_side_that_ends_by_itself_is_judged() {
    let mark = mark();
    let crash = format!("sleep {mark} & echo one >&2; echo two >&2; echo three >&2; echo four >&2; exit 7");
    let text = failure(serde_json::json!({ "sender": crash }));
    assert!(text.starts_with("own@program: sender: ended with status 7 at "), "{text}");
    assert!(text.ends_with(" s of 1.5 s\n  | two\n  | three\n  | four"), "{text}");
    let text = failure(serde_json::json!({ "sender": "kill -SEGV $$" }));
    assert!(text.starts_with("own@program: sender: ended by signal 11 at "), "{text}");
    let text = failure(serde_json::json!({ "receiver": this(&format!("{TAKE} $PACELINE_PORT crash")) }));
    assert!(text.starts_with("own@program: receiver: ended with status 9 at "), "{text}");
    // Of 1.5 s it may lack one.
    let folder = Folder::new();
    let soon = |early: bool| serde_json::json!({ "early": early, "sender": this(&format!("{GIVE} $PACELINE_PEER $PACELINE_PORT 20000")) });
    let text = alone(soon(false), &folder).map(drop).unwrap_err().to_string();
    assert!(text.contains("ended with status 0 at 0.") && text.ends_with("; write early = true if it may"), "{text}");
    let (_, program) = alone(soon(true), &folder).unwrap();
    assert_eq!((program.sender.status, program.receiver.signal), (Some(0), Some(15)));
    let accepted = serde_json::json!({ "exit": [0, 7], "early": true,
        "sender": this(&format!("{GIVE} $PACELINE_PEER $PACELINE_PORT 20000")).replace("exec ", "") + "; exit 7" });
    assert_eq!(alone(accepted, &folder).unwrap().1.sender.status, Some(7));
    assert_eq!(with_mark(&mark), Vec::<String>::new());
}

fn a_program_that_sends_nothing_is_named() {
    let mark = mark();
    let text = failure(serde_json::json!({ "sender": format!("echo waiting >&2; sleep {mark}") }));
    assert_eq!(text, "own@program: no data packet passed the path\n  | waiting");
    assert_eq!(with_mark(&mark), Vec::<String>::new());
}

fn one_that_ignores_the_signal_or_fills_its_output_is_no_failure() {
    let (folder, mark) = (Folder::new(), mark());
    let ignores = format!("trap '' TERM; sleep {mark} & {}", this(&format!("{GIVE} $PACELINE_PEER $PACELINE_PORT")));
    let fills = "head -c 40000000 /dev/zero; ".to_owned() + &this(&format!("{TAKE} $PACELINE_PORT"));
    let (outcome, program) = alone(serde_json::json!({ "sender": ignores, "receiver": fills }), &folder).unwrap();
    assert!(outcome.flows[0].packets_arrived > 200);
    assert_eq!((program.sender.signal, program.receiver.signal), (Some(9), Some(15)));
    assert_eq!([program.sender.cut, program.receiver.cut], [false, true]);
    assert_eq!(with_mark(&mark), Vec::<String>::new());
}

fn versions_are_asked_and_what_is_prepared_is_there() {
    let folder = Folder::new();
    let shared = folder.places().shared;
    let of = |command: &str| version(&program(serde_json::json!({ "version": command })), &shared);
    assert_eq!(of("echo; echo ' own 1.2 '; echo more").unwrap().as_deref(), Some("own 1.2"));
    assert_eq!(of("echo own 1.3 >&2").unwrap().as_deref(), Some("own 1.3"));
    assert_eq!(version(&program(serde_json::json!({})), &shared).unwrap(), None);
    let text = of("nosuchprogram --version").unwrap_err().to_string();
    assert!(
        text.starts_with(
            "own@program: version: 'nosuchprogram --version' ended with status 127; install it, or leave the contestant out\n"
        ),
        "{text}"
    );
    let prepared = |command: &str| {
        let keys = serde_json::json!({ "prepare": command, "options": { "cc": "reno" } });
        prepare(&program(keys), Some(12), &shared)
    };
    prepared("echo $CC $PACELINE_BYTES $PACELINE_PORT >made").unwrap();
    assert_eq!(fs::read_to_string(shared.join("made")).unwrap(), "reno 12 20000\n");
    let text = prepared("echo wrong >&2; exit 2").unwrap_err().to_string();
    assert_eq!(text, "own@program: prepare: 'echo wrong >&2; exit 2' ended with status 2; fix the command\n  | wrong");
}

fn commands_run_only_where_that_was_permitted() {
    let folder = Folder::new();
    let made = folder.0.join("made");
    let keys = serde_json::json!({ "receiver": format!("touch {}", made.display()) });
    let config = config(vec![flow(program(keys))], Vec::new(), 1000);
    let error = race::run_with(config, None, Hooks::default()).map(drop).unwrap_err().to_string();
    assert_eq!(error, "--real: own@program: the scenario's commands are not run; read them, and add --run-programs");
    assert!(!made.exists());
}

/// A user of this machine that is not root.
fn another_user() -> Option<&'static str> {
    ["daemon", "bin", "games"].into_iter().find(|name| paceline_linux::user::find(name).is_some())
}

fn another_user_runs_the_commands_where_this_is_root() {
    let name = "another_user_runs_the_commands_where_this_is_root";
    let (true, Some(user)) = (namespace::privilege() == Privilege::Root, another_user()) else {
        eprintln!("skipped: {name}: it needs root, and another user");
        return;
    };
    let folder = Folder::new();
    // Where the other user finds it.
    let binary = folder.0.join("binary");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let binary = binary.display();
    let writes = "id -un >who; touch $PACELINE_OUT/$PACELINE_ROLE; ";
    let keys = serde_json::json!({
        "user": user,
        "version": "id -un",
        "prepare": "id -un >prepared",
        "sender": format!("{writes} exec {binary} {GIVE} $PACELINE_PEER $PACELINE_PORT"),
        "receiver": format!("cat $PACELINE_SHARED/prepared; {writes} exec {binary} {TAKE} $PACELINE_PORT"),
    });
    let shared = folder.places().shared;
    assert_eq!(version(&program(keys.clone()), &shared).unwrap().as_deref(), Some(user));
    prepare(&program(keys.clone()), None, &shared).unwrap();
    let (outcome, program_outcome) = alone(keys, &folder).unwrap();
    assert!(outcome.flows[0].packets_arrived > 200);
    // A signal of ours reaches another user's processes too.
    assert_eq!([program_outcome.sender.signal, program_outcome.receiver.signal], [Some(15); 2]);
    for side in ["sender", "receiver"] {
        assert_eq!(folder.read(0, &format!("{side}/who")), format!("{user}\n"));
        assert!(folder.places().of_flow(0).join(side).join(side).exists());
    }
    assert!(folder.read(0, "receiver.out").starts_with(user));
    let unknown = config(vec![flow(program(serde_json::json!({ "user": "no such user" })))], Vec::new(), 1);
    let text = race::check(unknown.topology.graph(), &unknown.flows, &[]).unwrap_err().to_string();
    assert_eq!(text, "--real: own@program: user: this machine has no user 'no such user'; name one that it has");
}

fn sixty_four_programs_race_and_more_are_refused() {
    let flows = |count: usize| vec![flow(program(serde_json::json!({}))); count];
    let graph = config(Vec::new(), Vec::new(), 1).topology.graph().clone();
    race::check(&graph, &flows(64), &[]).unwrap();
    let error = race::check(&graph, &flows(65), &[]).unwrap_err().to_string();
    assert_eq!(error, "--real: more than 64 flows of programs; run fewer");
    let folder = Folder::new();
    let udp = serde_json::json!({
        "ready_within": "2min",
        "sender": this(&format!("{GIVE_UDP} $PACELINE_PEER $PACELINE_PORT")),
        "receiver": this(&format!("{TAKE_UDP} $PACELINE_PORT")),
    });
    let outcome = race(vec![flow(program(udp)); 64], Vec::new(), 1000, &folder).unwrap();
    let arrived = |flow: &&paceline_experiment::FlowOutcome| flow.packets_arrived > 0;
    assert_eq!(outcome.flows.iter().filter(arrived).count(), 64);
}

/// Every process of this machine.
fn processes() -> impl Iterator<Item = PathBuf> {
    fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(|path| path.join("ns").exists())
}

/// Whether a process comes of this one.
fn comes_of(process: &Path, ancestor: u32) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
    parent.is_some_and(|parent| {
        parent == ancestor || parent > 1 && comes_of(&Path::new("/proc").join(parent.to_string()), ancestor)
    })
}

/// The network namespaces of what comes of a race, and of what has its mark. Held, so that their numbers stay theirs.
fn namespaces(race: u32, mark: &str) -> Vec<File> {
    let is_marked = |process: &Path| fs::read_to_string(process.join("cmdline")).is_ok_and(|line| line.contains(mark));
    let of_race = processes().filter(|process| comes_of(process, race) || is_marked(process));
    of_race.filter_map(|process| File::open(process.join("ns/net")).ok()).collect()
}

fn kill_9_of_the_race_leaves_nothing() {
    let (folder, mark) = (Folder::new(), mark());
    let mut held = Vec::new();
    for cycle in 0..CYCLES {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([RACE, &mark])
            .arg(&folder.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_line(&mut child);
        // Some while a server gets ready, some while both sides run.
        thread::sleep(Duration::from_millis(cycle * LATER));
        held.extend(namespaces(child.id(), &mark));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    until("all processes have ended", || with_mark(&mark).is_empty());
    let number = |metadata: fs::Metadata| metadata.ino();
    let own = fs::metadata("/proc/self/ns/net").map(number).unwrap();
    let mut theirs: BTreeSet<u64> = held.iter().map(|namespace| number(namespace.metadata().unwrap())).collect();
    theirs.remove(&own);
    assert!(!theirs.is_empty());
    let is_within =
        |process: PathBuf| fs::metadata(process.join("ns/net")).is_ok_and(|one| theirs.contains(&number(one)));
    until("all namespaces are empty", || !processes().any(is_within));
}

fn wait_for_line(child: &mut Child) {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "racing\n");
}

/// A race that lasts until it is killed, of two programs that ignore signals and leave their groups.
fn race_on(mark: &str, folder: &Path) -> ExitCode {
    let stubborn = format!("trap '' TERM HUP INT; (setsid sleep {mark} >/dev/null &); sleep {mark} & ");
    let keys = serde_json::json!({
        "receiver": stubborn.clone() + &this(&format!("{TAKE} $PACELINE_PORT {mark}")),
        "sender": stubborn + &this(&format!("{GIVE} $PACELINE_PEER $PACELINE_PORT")),
    });
    println!("racing");
    let (shared, outputs) = (folder.join("shared"), folder.join("on"));
    let places = ProgramPlaces { shared, outputs, run: 1, versions: BTreeMap::new() };
    let hooks = Hooks { programs: Some(places), ..Hooks::default() };
    let flows = vec![flow(program(keys.clone())), flow(program(keys))];
    match race::run_with(config(flows, Vec::new(), 600_000), None, hooks) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Takes connections, and what comes over them; says their congestion control. With `give` it sends zeros instead, with `crash` it ends
/// in the middle.
fn take(port: &str, how: Option<&str>) -> ExitCode {
    let listener = TcpListener::bind(("0.0.0.0", port.parse().unwrap())).unwrap();
    loop {
        let (mut stream, _) = listener.accept().unwrap();
        if how == Some("give") {
            let bytes: u64 = std::env::var("PACELINE_BYTES").unwrap().parse().unwrap();
            stream.write_all(&vec![0; bytes as usize]).unwrap();
            continue;
        }
        say_congestion(&stream);
        let mut buffer = vec![0; 65_536];
        let mut taken = 0;
        while let Ok(length) = stream.read(&mut buffer)
            && length > 0
        {
            taken += length;
            if how == Some("crash") && taken > 20_000 {
                return ExitCode::from(9);
            }
        }
    }
}

/// Sends zeros, so many or without end; with `take` it reads what comes instead.
fn give(host: &str, port: &str, bytes: Option<&str>, how: Option<&str>) -> ExitCode {
    let bytes: u64 = bytes.map_or(u64::MAX, |bytes| bytes.parse().unwrap());
    let at = (host, port.parse::<u16>().unwrap());
    let mut tried = 0;
    let mut stream = loop {
        match TcpStream::connect(at) {
            Ok(stream) => break stream,
            Err(error) if tried == 100 => panic!("{error}"),
            Err(_) => tried += 1,
        }
        thread::sleep(Duration::from_millis(20));
    };
    if how == Some("take") {
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
        return ExitCode::SUCCESS;
    }
    say_congestion(&stream);
    let chunk = [0; 10_000];
    let mut sent = 0;
    while sent < bytes && stream.write_all(&chunk).is_ok() {
        sent += chunk.len() as u64;
    }
    ExitCode::from(u8::from(sent < bytes))
}

fn say_congestion(stream: &TcpStream) {
    let name = SockRef::from(stream).tcp_congestion().unwrap();
    println!("{}", String::from_utf8_lossy(&name).trim_end_matches('\0'));
}

fn take_udp(port: &str) -> ExitCode {
    let socket = UdpSocket::bind(("0.0.0.0", port.parse().unwrap())).unwrap();
    let mut buffer = [0; 2000];
    while socket.recv(&mut buffer).is_ok() {}
    ExitCode::FAILURE
}

fn give_udp(host: &str, port: &str) -> ExitCode {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    loop {
        socket.send_to(&[0; 1000], (host, port.parse().unwrap())).unwrap();
        thread::sleep(Duration::from_millis(10));
    }
}

/// By name, as the test harness would have them.
const TESTS: [(&str, fn()); 14] = [
    ("a_program_sends_over_the_path_and_is_asked_to_end", a_program_sends_over_the_path_and_is_asked_to_end),
    (
        "a_command_finds_its_variables_and_leaves_figures_and_logs",
        a_command_finds_its_variables_and_leaves_figures_and_logs,
    ),
    ("programs_run_beside_each_other_and_beside_ours", programs_run_beside_each_other_and_beside_ours),
    (
        "tcp_has_the_congestion_control_of_the_program_and_its_kernel_the_settings",
        tcp_has_the_congestion_control_of_the_program_and_its_kernel_the_settings,
    ),
    ("a_server_is_ready_when_it_says_so_or_after_a_while", a_server_is_ready_when_it_says_so_or_after_a_while),
    ("a_server_that_does_not_get_ready_is_named", a_server_that_does_not_get_ready_is_named),
    ("a_side_that_ends_by_itself_is_judged", a_side_that_ends_by_itself_is_judged),
    ("a_program_that_sends_nothing_is_named", a_program_that_sends_nothing_is_named),
    (
        "one_that_ignores_the_signal_or_fills_its_output_is_no_failure",
        one_that_ignores_the_signal_or_fills_its_output_is_no_failure,
    ),
    ("versions_are_asked_and_what_is_prepared_is_there", versions_are_asked_and_what_is_prepared_is_there),
    ("commands_run_only_where_that_was_permitted", commands_run_only_where_that_was_permitted),
    ("another_user_runs_the_commands_where_this_is_root", another_user_runs_the_commands_where_this_is_root),
    ("sixty_four_programs_race_and_more_are_refused", sixty_four_programs_race_and_more_are_refused),
    ("kill_9_of_the_race_leaves_nothing", kill_9_of_the_race_leaves_nothing),
];

fn main() -> ExitCode {
    if let Some(status) = reentered() {
        return status;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [TAKE, port] => take(port, None),
        [TAKE, port, how] => take(port, Some(how)),
        [TAKE_UDP, port] => take_udp(port),
        [GIVE, host, port] => give(host, port, None, None),
        [GIVE, host, port, bytes] => give(host, port, Some(bytes), None),
        [GIVE, host, port, bytes, how] => give(host, port, Some(bytes), Some(how)),
        [GIVE_UDP, host, port] => give_udp(host, port),
        [RACE, mark, folder] => {
            namespace::acquire().unwrap();
            race_on(mark, Path::new(folder))
        }
        _ => {
            let refused = namespace::acquire().err().map(|reason| reason.to_string());
            without_harness(&TESTS, refused.as_deref())
        }
    }
}
