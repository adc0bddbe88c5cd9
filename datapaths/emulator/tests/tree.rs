//! Trees of processes: all of them end, each byte of output is taken, and what they used is known.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use paceline_cc::Nanos;
use paceline_emulator::command::tree::{KEPT, ProcessTree, TreeEnd, TreeSetting, started_by};
use paceline_emulator::command::{reentered, started_with};
use paceline_fixture::{PATIENCE, mark, until, with_mark, without_harness};
use paceline_linux::interface::{Interfaces, LOOPBACK};
use paceline_linux::namespace::{self, Namespace};
use paceline_linux::thread::process_cpu_time;
use rustix::process::Signal;

/// First arguments of this binary: uses so much processor time, and says how much it was; the same, and then waits; owns a tree; is what
/// starts trees.
const BURN: &str = "__burn";
const STAY: &str = "__stay";
const OWN: &str = "__own";
const OTHERWISE: &str = "__otherwise";
/// How much one burns, milliseconds.
const BURNT: u64 = 250;
/// Cycles of `kill -9`, of which every other comes this many milliseconds after the start.
const CYCLES: u64 = 20;

/// A folder that is gone with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("paceline-tree-{}", mark()));
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.0.join(name)).unwrap()).into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn setting(words: &[&str], folder: &Path) -> TreeSetting {
    TreeSetting {
        words: words.iter().map(Into::into).collect(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into()), ("SELF".into(), "/proc/self/exe".into())],
        folder: folder.to_owned(),
        outputs: ["out", "err"].map(|name| File::create(folder.join(name)).unwrap()),
        ready: Some("ready".to_owned()),
        user: None,
    }
}

fn start(script: &str, folder: &Folder) -> ProcessTree {
    let namespace = Namespace::create().unwrap();
    ProcessTree::start(setting(&["/bin/sh", "-c", script], &folder.0), &namespace).unwrap()
}

fn end(mut tree: ProcessTree) -> TreeEnd {
    tree.wait(PATIENCE).expect("it ends").clone()
}

/// What a script comes to by itself.
fn run(script: &str, folder: &Folder) -> TreeEnd {
    end(start(script, folder))
}

fn twenty_processes_that_ignore_term_end() {
    let (folder, mark) = (Folder::new(), mark());
    let one = format!("trap \"\" TERM; while :; do sleep {mark}; done");
    let script =
        format!("trap '' TERM; for i in $(seq 20); do sh -c '{one}' & done; echo ready; while :; do wait; done");
    let mut tree = start(&script, &folder);
    until("the script is ready", || tree.has_said());
    until("all have started", || with_mark(&mark).len() >= 20);
    tree.signal(Signal::TERM);
    assert_eq!(tree.wait(Duration::from_millis(200)), None, "it ignores the signal");
    assert!(!with_mark(&mark).is_empty());
    tree.signal(Signal::KILL);
    let end = end(tree);
    // Its end is said when all is collected: no process is waited for here.
    assert_eq!(with_mark(&mark), Vec::<String>::new());
    assert_eq!((end.status, end.signal), (None, Some(9)));
}

fn a_signal_reaches_the_group_and_the_programs_end_ends_what_left_the_group() {
    let (folder, mark) = (Folder::new(), mark());
    // A session of its own, a child whose parent has ended, and one of the shell's.
    let script = format!("setsid sleep {mark} & (setsid sleep {mark} &); sleep {mark} & echo ready; wait");
    let tree = start(&script, &folder);
    until("all have started", || {
        tree.has_said() && with_mark(&mark).iter().filter(|line| line.starts_with("sleep")).count() == 3
    });
    tree.signal(Signal::TERM);
    let end = end(tree);
    assert_eq!(with_mark(&mark), Vec::<String>::new());
    assert_eq!((end.status, end.signal), (None, Some(15)));
}

fn what_forks_away_does_not_outlive_the_program() {
    let (folder, mark) = (Folder::new(), mark());
    let script = format!("(setsid sleep {mark} >/dev/null 2>&1 </dev/null &); setsid sleep {mark} & exit 3");
    let end = run(&script, &folder);
    assert_eq!(with_mark(&mark), Vec::<String>::new());
    assert_eq!((end.status, end.signal, end.cut), (Some(3), None, false));
}

fn a_tree_without_an_owner_ends() {
    let (folder, mark) = (Folder::new(), mark());
    let tree = start(&format!("trap '' TERM HUP; sleep {mark}; :"), &folder);
    until("it has started", || !with_mark(&mark).is_empty());
    drop(tree);
    until("it has ended", || with_mark(&mark).is_empty());
}

fn output_is_taken_to_its_end_and_kept_up_to_a_limit() {
    let folder = Folder::new();
    let end =
        run("head -c 40000000 /dev/zero; echo first >&2; echo last >&2; echo done >&2; echo >&2; exit 4", &folder);
    assert!(end.cut);
    assert_eq!(fs::metadata(folder.0.join("out")).unwrap().len(), KEPT);
    assert_eq!((end.status, &end.last_lines[..]), (Some(4), &["first", "last", "done"].map(str::to_owned)[..]));
    assert_eq!(folder.read("err"), "first\nlast\ndone\n\n");
}

fn an_end_at_once_is_an_end() {
    let folder = Folder::new();
    let of =
        |words: &[&str]| end(ProcessTree::start(setting(words, &folder.0), &Namespace::create().unwrap()).unwrap());
    assert_eq!(of(&["/bin/true"]).status, Some(0));
    assert_eq!(of(&["/bin/sh", "-c", "cat; pwd; kill -SEGV $$"]).signal, Some(11), "there is nothing to read");
    assert_eq!(folder.read("out").trim(), folder.0.to_str().unwrap());
    let missing = of(&["/nowhere/to/be/found"]);
    assert_eq!(missing.status, Some(127));
    assert!(missing.last_lines[0].contains("/nowhere/to/be/found: it cannot be run"), "{missing:?}");
}

fn the_environment_is_what_was_given_and_no_signal_is_blocked() {
    let folder = Folder::new();
    // As in a thread that keeps signals out.
    let end = paceline_linux::signals::kept_from(|| run("grep SigBlk /proc/self/status; env", &folder)).unwrap();
    assert_eq!(end.status, Some(0));
    let out = folder.read("out");
    assert!(out.contains("SigBlk:\t0000000000000000"), "{out}");
    let mut names: Vec<&str> = out.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    // PWD, OLDPWD, SHLVL and _ are a shell's own.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    assert_eq!(names, ["PATH", "SELF"]);
}

fn the_processor_time_is_that_of_the_whole_tree() {
    let folder = Folder::new();
    let this = std::env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    // One that is waited for, one whose parent has ended, one in a session of its own, and one that the end finds.
    let script = format!("(setsid {this} {STAY} &); setsid {this} {STAY} & {this} {BURN}; {this} {STAY} & wait");
    let tree = start(&script, &folder);
    until("all have said what they used", || folder.read("out").lines().count() == 4);
    let said = folder.read("out");
    tree.signal(Signal::TERM);
    let end = end(tree);
    assert_eq!(end.signal, Some(15));
    let used: u64 = said.lines().map(|line| line.parse::<u64>().unwrap()).sum();
    let share = end.cpu.as_nanos() as f64 / used as f64;
    // What a process uses before it asks is in both, what it uses after that and the shell in one.
    assert!((1.0..1.02).contains(&share), "{} of {used} ns", end.cpu.as_nanos());
}

/// Runs [`OWN`] until it is killed.
fn owner(mark: &str, name: &str, folder: &Folder) -> Child {
    let this = std::env::current_exe().unwrap();
    Command::new(this).args([OWN, mark, name]).arg(&folder.0).stdout(Stdio::piped()).spawn().unwrap()
}

fn kill_9_of_the_owner_leaves_no_process_and_no_namespace() {
    let (folder, mark) = (Folder::new(), mark());
    // Stands for the machine, so that nothing else makes interfaces there.
    let machine = Namespace::create().unwrap();
    let interfaces = || machine.enter(|| Interfaces::open().and_then(|open| open.names())).unwrap().unwrap();
    for cycle in 0..CYCLES {
        let mut owner = machine.enter(|| owner(&mark, &format!("prs{cycle}"), &folder)).unwrap();
        if cycle % 2 == 0 {
            let mut line = String::new();
            BufReader::new(owner.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            assert!(interfaces().contains(&format!("prs{cycle}")));
        } else {
            std::thread::sleep(Duration::from_millis(cycle));
        }
        owner.kill().unwrap();
        owner.wait().unwrap();
    }
    until("all processes have ended", || with_mark(&mark).iter().all(|line| !line.starts_with("sleep")));
    // The half here goes with the namespace of the other.
    until("all namespaces are gone", || interfaces() == [LOOPBACK]);
}

/// A tree that ignores signals and leaves its group, in a namespace that is joined to the caller's.
fn own(mark: &str, name: &str, folder: &Path) -> ExitCode {
    let namespace = Namespace::create().unwrap();
    Interfaces::open().unwrap().veth(name, None, "inside", &namespace).unwrap();
    let script =
        format!("trap '' TERM HUP INT; (setsid sleep {mark} &); sleep {mark} & echo ready; while :; do wait; done");
    let tree = ProcessTree::start(setting(&["/bin/sh", "-c", &script], folder), &namespace).unwrap();
    until("the tree is ready", || tree.has_said());
    println!("ready");
    std::thread::park();
    ExitCode::SUCCESS
}

/// The last of the tests: those after it would start theirs so as well.
fn what_starts_a_tree_is_another_command_where_that_was_said() {
    let (folder, mark) = (Folder::new(), mark());
    let this = std::env::current_exe().unwrap();
    started_by([this.as_os_str(), OTHERWISE.as_ref(), mark.as_ref()].map(Into::into).into());
    let tree = start("echo ready; kill -9 $$", &folder);
    until("it is ready", || tree.has_said());
    let end = end(tree);
    assert_eq!((end.status, end.signal), (None, Some(9)));
    let tree = start("echo ready; while :; do sleep 1; done", &folder);
    until("it is ready", || tree.has_said());
    let lines = with_mark(&mark);
    assert!(matches!(&lines[..], [line] if line.contains(OTHERWISE) && line.contains("__tend")), "{lines:?}");
    drop(tree);
    until("it has ended", || with_mark(&mark).is_empty());
}

fn burn() {
    while process_cpu_time() < Nanos::from_millis(BURNT) {
        std::hint::spin_loop();
    }
    let mut out = std::io::stdout();
    out.write_all(format!("{}\n", process_cpu_time().as_nanos()).as_bytes()).unwrap();
    out.flush().unwrap();
}

/// By name, as the test harness would have them.
const TESTS: [(&str, fn()); 10] = [
    ("twenty_processes_that_ignore_term_end", twenty_processes_that_ignore_term_end),
    (
        "a_signal_reaches_the_group_and_the_programs_end_ends_what_left_the_group",
        a_signal_reaches_the_group_and_the_programs_end_ends_what_left_the_group,
    ),
    ("what_forks_away_does_not_outlive_the_program", what_forks_away_does_not_outlive_the_program),
    ("a_tree_without_an_owner_ends", a_tree_without_an_owner_ends),
    ("output_is_taken_to_its_end_and_kept_up_to_a_limit", output_is_taken_to_its_end_and_kept_up_to_a_limit),
    ("an_end_at_once_is_an_end", an_end_at_once_is_an_end),
    (
        "the_environment_is_what_was_given_and_no_signal_is_blocked",
        the_environment_is_what_was_given_and_no_signal_is_blocked,
    ),
    ("the_processor_time_is_that_of_the_whole_tree", the_processor_time_is_that_of_the_whole_tree),
    ("kill_9_of_the_owner_leaves_no_process_and_no_namespace", kill_9_of_the_owner_leaves_no_process_and_no_namespace),
    (
        "what_starts_a_tree_is_another_command_where_that_was_said",
        what_starts_a_tree_is_another_command_where_that_was_said,
    ),
];

fn main() -> ExitCode {
    if let Some(status) = reentered() {
        return status;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [BURN] => burn(),
        [STAY] => {
            burn();
            std::thread::park();
        }
        [OTHERWISE, ..] => return started_with(std::env::args_os().skip(3)).unwrap().into(),
        [OWN, mark, name, folder] => return own(mark, name, Path::new(folder)),
        _ => {
            let refused = namespace::acquire().err().map(|reason| reason.to_string());
            return without_harness(&TESTS, refused.as_deref());
        }
    }
    ExitCode::SUCCESS
}
