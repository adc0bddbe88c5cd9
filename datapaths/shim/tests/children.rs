//! Programs that a program under the library starts: those that can load it do, and of those that cannot the dynamic linker has nothing to
//! complain, on a standard error that may be a connection.

mod common;

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{folder, installed, is_root, shimmed_as_we_are, skip};

const WAYS: [&str; 14] = [
    "execve",
    "execv",
    "execvp",
    "execvpe",
    "execl",
    "execlp",
    "execle",
    "fexecve",
    "execveat",
    "place",
    "syscall",
    "posix_spawn",
    "posix_spawnp",
    "system",
];
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/start.c");

/// The program compiled so; `None` where that is not to be had.
fn compiled(compiler: &str, options: &[&str], to: PathBuf) -> Option<PathBuf> {
    let mut command = Command::new(installed(compiler)?);
    let output = command.args(["-O1", "-w"]).args(options).arg("-o").arg(&to).arg(SOURCE).output().unwrap();
    let runs = || Command::new(&to).arg("hello").output().is_ok_and(|output| output.stdout == b"hello without\n");
    (output.status.success() && runs()).then_some(to)
}

/// What a peer receives that has the standard output and errors of a program that starts another.
fn heard(starter: &Path, way: &str, program: &Path, root: Option<&Path>) -> String {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut command = shimmed_as_we_are(starter, &[]);
    let places = format!("{}:/bin:/usr/bin:/", program.parent().unwrap().display());
    command.arg(way).arg(program).args(root).env("PATH", places);
    command.stdout(OwnedFd::from(theirs.try_clone().unwrap())).stderr(OwnedFd::from(theirs));
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut said = String::new();
    ours.read_to_string(&mut said).unwrap();
    format!("{said}{}", child.wait().unwrap())
}

const WITH: &str = "hello with\nexit status: 0";
const WITHOUT: &str = "hello without\nexit status: 0";

#[test]
fn what_cannot_load_it_runs_without() {
    let name = "what_cannot_load_it_runs_without";
    let folder = folder(name);
    let Some(starter) = compiled("cc", &[], folder.path().join("starter")) else { return skip(name, "no C compiler") };
    for way in WAYS {
        assert_eq!(heard(&starter, way, &starter, None), WITH, "{way}");
    }
    let narrow = compiled("cc", &["-m32"], folder.path().join("narrow"));
    let musl = compiled("musl-gcc", &[], folder.path().join("musl"));
    let checked = compiled("cc", &["-fsanitize=address"], folder.path().join("checked"));
    for (program, reason) in
        [(narrow, "no C compiler for 32 bits"), (musl, "no C compiler for musl"), (checked, "no AddressSanitizer")]
    {
        let Some(program) = program else {
            skip(name, reason);
            continue;
        };
        for way in WAYS.into_iter().chain(["posix_spawn_elsewhere"]) {
            let said = heard(&starter, way, &program, None);
            assert_eq!(said, WITHOUT, "{way} {}", program.display());
        }
        let script = folder.path().join("script");
        fs::write(&script, format!("#! {}\n", program.display())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(heard(&starter, "execve", &script, None), WITHOUT, "a script for {}", program.display());
    }
}

/// A dynamic linker that a program runs as a program, as wrappers of bundled programs do.
#[test]
fn a_linker_of_another_c_library_runs_without() {
    let name = "a_linker_of_another_c_library_runs_without";
    let folder = folder(name);
    let Some(starter) = compiled("cc", &[], folder.path().join("starter")) else { return skip(name, "no C compiler") };
    let lines = [
        ("ld-linux-", Some(starter.clone()), WITH),
        ("ld-musl-", compiled("musl-gcc", &[], folder.path().join("musl")), WITHOUT),
    ];
    for (linker, program, due) in lines {
        let Some((linker, program)) = linker_called(linker).zip(program) else {
            skip(name, linker);
            continue;
        };
        let line = format!("{} {}", linker.display(), program.display());
        assert_eq!(heard(&starter, "system", Path::new(&line), None), due, "{line}");
    }
}

/// Where the dynamic linker is whose name begins so, for programs of this machine.
fn linker_called(start: &str) -> Option<PathBuf> {
    let mut files =
        ["/lib64", "/lib"].into_iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    files.find(|file| file.file_name().to_string_lossy().starts_with(start)).map(|file| file.path())
}

#[test]
fn where_it_cannot_be_reached_programs_run_without() {
    let name = "where_it_cannot_be_reached_programs_run_without";
    if !is_root() {
        return skip(name, "it needs root");
    }
    let folder = folder(name);
    let Some(starter) = compiled("cc", &[], folder.path().join("starter")) else { return skip(name, "no C compiler") };
    let Some(lister) = installed("ldd") else { return skip(name, "no ldd") };
    let root = folder.path().join("root");
    for program in [starter.as_path(), Path::new("/bin/sh")] {
        let listed = Command::new(&lister).arg(program).output().unwrap().stdout;
        let listed = String::from_utf8(listed).unwrap();
        let libraries = listed.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
        for file in libraries.chain([program]) {
            let place = root.join(if file == starter { Path::new("starter") } else { file.strip_prefix("/").unwrap() });
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::copy(file, place).unwrap();
        }
    }
    for way in WAYS {
        assert_eq!(heard(&starter, way, Path::new("/starter"), Some(&root)), WITHOUT, "{way}");
    }
}
