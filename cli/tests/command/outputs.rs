//! Every command that writes a file, over whatever may stand in its place.
#![cfg(target_os = "linux")]

pub(crate) mod table;

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use crate::lab::Lab;
use crate::named::{published, start};
use crate::udp::Server;
use table::{ARGUMENTS, Needs, Run, Takes};

/// What commands need so that they can write: files, and one server.
struct Bench {
    lab: Lab,
    name: String,
    server: Option<Server>,
}

impl Bench {
    fn new(needs: Needs) -> Self {
        let lab = Lab::new();
        let at = |args: &[&str]| Some(Server::start(Command::new(env!("CARGO_BIN_EXE_paceline")).args(args), &lab));
        let mut name = String::new();
        fs::create_dir(lab.path("kept")).unwrap();
        fs::write(lab.path("kept/film"), "a film").unwrap();
        let server = match needs {
            Needs::Icn => {
                name = published(&lab, "film", b"a film");
                Some(start(&lab, &["serve", "--store", "store", "--listen", "127.0.0.1:0"]))
            }
            Needs::Alcc => at(&["alcc", "serve", "--listen", "127.0.0.1:0", "--dir", "kept"]),
            Needs::Udp => at(&["serve", "--listen", "127.0.0.1:0", "--dir", "kept"]),
            Needs::Recorder => at(&["trace", "record", "--listen", "127.0.0.1:0"]),
            _ => None,
        };
        fs::write(lab.path("lte.down"), (1..2000).map(|at| format!("{at}\n")).collect::<String>()).unwrap();
        let series = lab.run(&["race", "small.toml", "--runs", "1", "--seconds", "1", "--series", "series.csv"]);
        assert!(series.status.success());
        Self { lab, name, server }
    }

    /// The command with everything filled in.
    fn words(&self, run: Run, out: &str) -> Vec<String> {
        let address = self.server.as_ref().map(|server| server.address.clone()).unwrap_or_default();
        let filled = |word: &str| match word {
            word if word.starts_with(OUT) => out.to_owned(),
            "NAME" => self.name.clone(),
            "ADDR" => address.clone(),
            word => word.to_owned(),
        };
        run.line.split(' ').map(filled).collect()
    }

    fn run(&self, run: Run, out: &str) -> Output {
        let words = self.words(run, out);
        self.lab.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// An empty folder `d`, and in it the victim that links lead to.
    fn fresh(&self) -> PathBuf {
        let folder = self.lab.path("d");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("victim"), "of others").unwrap();
        folder
    }

    /// Runs it in a mount namespace in which `d` is a disk of its own, after `before`; `None` where that cannot be had. What `d/out` has
    /// afterwards.
    fn on_disk(&self, run: Run, before: &str) -> Option<(Output, String)> {
        self.fresh();
        let _ = fs::remove_file(self.lab.path("after"));
        let out = place(run);
        let script = format!(
            "mount -t tmpfs -o size=64k tmpfs d && printf old > {out} && {{ {before}; }} || exit\n\
             \"$@\"; status=$?; cat {out} > after; exit $status"
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_paceline")]);
        let output = command.args(self.words(run, &out)).current_dir(self.lab.folder.path()).output().ok()?;
        // It is not there where that is not permitted.
        let after = fs::read_to_string(self.lab.path("after")).ok()?;
        Some((output, after))
    }
}

/// How the place to be written stands in the line of a command.
const OUT: &str = "OUT";

/// The place that a command writes in these tests.
fn place(run: Run) -> String {
    let ending = run.line.split(' ').find_map(|word| word.strip_prefix(OUT)).unwrap_or_default();
    format!("d/out{ending}")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn succeeds(output: &Output, what: &str) {
    assert_eq!(output.status.code(), Some(0), "{what}: {}", said(output));
}

fn refused(output: &Output, why: &str, what: &str) {
    let text = said(output);
    assert_eq!(output.status.code(), Some(2), "{what}: {text}");
    assert!(text.lines().count() == 1 && text.contains(why), "{what}: {text}");
}

fn skipped(what: &str, why: &str) {
    // Not by a macro, whose output is not shown for tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
}

/// A device of our own with this number (null(4)); `None` where that is not permitted.
fn device(path: &Path, minor: &str) -> Option<()> {
    let made = Command::new("mknod").arg(path).args(["c", "1", minor]).stderr(Stdio::null()).status();
    made.is_ok_and(|made| made.success()).then_some(())
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// One command over everything that may stand there.
fn walk(bench: &Bench, run: Run, in_order: bool) {
    let line = run.line;
    let what = |place: &str| format!("{line}, OUT is {place}");
    let folder = bench.fresh();
    let place = place(run);
    let (out, part) = (bench.lab.path(&place), bench.lab.path(&format!("{place}.part")));

    fs::write(&out, "old").unwrap();
    fs::set_permissions(&out, Permissions::from_mode(0o640)).unwrap();
    fs::write(&part, "of others").unwrap();
    succeeds(&bench.run(run, &place), &what("a file"));
    assert_ne!(fs::read(&out).unwrap(), b"old", "{line}");
    assert_eq!(out.metadata().unwrap().permissions().mode() & 0o777, 0o640, "{line}");
    assert_eq!(fs::read(&part).unwrap(), b"of others", "{line}");
    let mut names = crate::lab::names(&folder);
    names.retain(|name| ![&out, &part, &folder.join("victim")].contains(&&folder.join(name)));
    assert!(names.is_empty(), "{line} left {names:?}");

    for (target, left) in [("victim", "of others"), ("nothing", "")] {
        let folder = bench.fresh();
        symlink(target, &out).unwrap();
        refused(&bench.run(run, &place), "it is a link", &what("a link"));
        assert_eq!(fs::read_to_string(folder.join(target)).unwrap_or_default(), left, "{line}");
        assert!(out.is_symlink(), "{line}");
    }

    bench.fresh();
    fs::create_dir(&out).unwrap();
    refused(&bench.run(run, &place), &place, &what("a folder"));

    bench.fresh();
    fifo(&out);
    let reader = {
        let out = out.clone();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            File::open(out).and_then(|mut file| file.read_to_end(&mut bytes)).unwrap();
            bytes
        })
    };
    let output = bench.run(run, &place);
    if in_order {
        succeeds(&output, &what("a FIFO"));
        assert!(!reader.join().unwrap().is_empty(), "{line}");
    } else {
        refused(&output, "it is not a regular file", &what("a FIFO"));
        drop(File::options().write(true).open(&out));
        reader.join().unwrap();
    }
    assert!(fs::symlink_metadata(&out).unwrap().file_type().is_fifo(), "{line}");

    for (minor, why) in [("3", None), ("7", Some("the disk is full"))] {
        bench.fresh();
        if device(&out, minor).is_none() {
            skipped("devices", "it takes root to make one");
            break;
        }
        let output = bench.run(run, &place);
        match (in_order, why) {
            (false, _) => refused(&output, "it is not a regular file", &what("a device")),
            (true, None) => succeeds(&output, &what("a device")),
            // Something may have been said before.
            (true, Some(why)) => {
                let text = said(&output);
                let named = text.contains(why) || text.contains("No space left");
                assert!(output.status.code() != Some(0) && named, "{line}: {text}");
            }
        }
        assert!(fs::symlink_metadata(&out).unwrap().file_type().is_char_device(), "{line}");
    }

    bench.fresh();
    let output = bench.run(run, "-");
    if output.status.success() {
        assert!(in_order && !output.stdout.is_empty(), "{line}");
    } else {
        refused(&output, "", &what("-"));
    }
    assert!(!bench.lab.path("-").exists(), "{line} made a file named -");

    for (before, why) in
        [("dd if=/dev/zero of=d/filler bs=512 2> log || true", "full"), ("mount -o remount,ro d", "read-only")]
    {
        let Some((output, after)) = bench.on_disk(run, before) else {
            skipped("full disks", "there is no mount namespace");
            break;
        };
        let text = said(&output).to_lowercase();
        let named = text.contains(why) || why == "full" && text.contains("no space left");
        assert!(output.status.code() != Some(0) && named, "{line} on a {why} disk: {text}");
        assert_eq!(after, "old", "{line} on a {why} disk");
    }
}

fn walk_all(chosen: impl Fn(Needs) -> bool) {
    let mut bench: Option<(Needs, Bench)> = None;
    for argument in ARGUMENTS {
        let (run, in_order) = match argument.takes {
            Takes::Written(run) => (run, true),
            Takes::Placed(run) => (run, false),
            _ => continue,
        };
        assert!(run.line.starts_with(argument.command), "the line of {} {}", argument.command, argument.name);
        if let Needs::Elsewhere(why) = run.needs {
            if chosen(run.needs) {
                skipped(run.line, why);
            }
            continue;
        }
        if !chosen(run.needs) {
            continue;
        }
        if bench.as_ref().is_none_or(|(needs, _)| *needs != run.needs) {
            bench = Some((run.needs, Bench::new(run.needs)));
        }
        if let Some((_, bench)) = &bench {
            walk(bench, run, in_order);
        }
    }
}

#[test]
fn what_is_no_file_is_written_in_order_or_left_alone() {
    walk_all(|needs| matches!(needs, Needs::Files | Needs::Elsewhere(_)));
    if cfg!(feature = "parquet") {
        walk_all(|needs| needs == Needs::Parquet);
    }
}

#[test]
fn what_is_fetched_replaces_files_alone() {
    walk_all(|needs| matches!(needs, Needs::Icn | Needs::Alcc | Needs::Udp));
}

#[test]
fn recordings_replace_files_alone() {
    walk_all(|needs| needs == Needs::Recorder);
}

#[test]
fn logs_of_the_emulator_replace_files_alone() {
    let lab = Lab::new();
    let tried = lab.run(&["emulate", "--delay", "1ms", "--", "true"]);
    if !tried.status.success() {
        return skipped("logs_of_the_emulator_replace_files_alone", said(&tried).trim());
    }
    walk_all(|needs| needs == Needs::Emulator);
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_else() {
    let lab = Lab::new();
    fs::create_dir(lab.path("d")).unwrap();
    fs::write(lab.path("file"), "old").unwrap();
    // What is asked for does not exist: it would be refused with the first run.
    for (line, why) in [
        ("evaluate reno --only none --json d", "--json: d: cannot be written (it is a folder)"),
        ("evaluate reno --only none --report file/page", "--report: file/page: cannot be written"),
        ("conform reno --as none --json d", "--json: d: cannot be written (it is a folder)"),
        ("conform reno --as none --report file/page", "--report: file/page: cannot be written"),
        ("mdi show none --html d", "--html: d: cannot be written (it is a folder)"),
        ("mdi train --cc reno none --out d", "--out: d: cannot be written (it is a folder)"),
        ("mdi train --cc reno none --out m --counts d", "--counts: d: cannot be written (it is a folder)"),
        ("reproduce int --figure none --json d", "--json: d: cannot be written (it is a folder)"),
        ("reproduce int --figure none --report file/page", "--report: file/page: cannot be written"),
        ("validate --only none --json d", "--json: d: cannot be written (it is a folder)"),
        ("validate --only none --out d", "--out: d: cannot be written (it is a folder)"),
        (
            "manual -",
            "-: cannot be written (it is standard output, and this is several files); name a folder, such as ./-",
        ),
        ("report none --out -", "-: cannot be written (it is standard output, and this is several files)"),
    ] {
        refused(&lab.run(&line.split(' ').collect::<Vec<_>>()), why, line);
    }
}

#[test]
fn a_part_that_is_not_ours_stays_as_it_is() {
    for (needs, line) in
        [(Needs::Icn, "icn fetch NAME --from ADDR --out OUT"), (Needs::Alcc, "alcc fetch film ADDR -o OUT")]
    {
        let (bench, run) = (Bench::new(needs), Run { needs, line });
        let folder = bench.fresh();
        let (part, victim) = (folder.join("out.paceline-part"), folder.join("victim"));
        symlink("victim", &part).unwrap();
        refused(&bench.run(run, "d/out"), "it is a link", line);
        assert!(part.is_symlink() && !folder.join("out").exists(), "{line}");
        assert_eq!(fs::read(&victim).unwrap(), b"of others", "{line}");
        fs::remove_file(&part).unwrap();
        fs::rename(&victim, &part).unwrap();
        refused(&bench.run(run, "d/out"), "it is not a part that paceline left", line);
        assert_eq!((fs::read(&part).unwrap(), folder.join("out").exists()), (b"of others".into(), false), "{line}");
    }
}

#[test]
fn what_is_printed_is_there_or_the_status_says_so() {
    let lab = Lab::new();
    let Some(()) = device(&lab.path("full"), "7") else {
        return skipped("what_is_printed_is_there_or_the_status_says_so", "it takes root to make a device");
    };
    for line in ["--help", "--version", "race --help", "completions bash", "controllers", "trace info lte.down"] {
        fs::write(lab.path("lte.down"), "1\n2\n").unwrap();
        let full = File::options().write(true).open(lab.path("full")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        let output = command.args(line.split(' ')).current_dir(lab.folder.path()).stdout(full).output().unwrap();
        refused(&output, "the disk is full", line);
        // A reader that has enough is not an error.
        let script = "\"$@\" | true; exit ${PIPESTATUS[0]}";
        let mut command = Command::new("bash");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_paceline")]).args(line.split(' '));
        succeeds(&command.current_dir(lab.folder.path()).output().unwrap(), line);
    }
}
