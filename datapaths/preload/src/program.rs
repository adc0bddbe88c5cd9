//! Whether a program takes a preloaded library, found out before it runs.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use paceline_emulator::command::{self, CommandError};
use paceline_emulator::machine::Fitness;

use crate::Elf;

/// Most scripts one behind the other that the kernel follows (fs/exec.c: exec_binprm).
const SCRIPTS: usize = 5;
/// Bytes of a script's first line that the kernel reads (uapi/linux/binfmts.h: BINPRM_BUF_SIZE).
const FIRST_LINE: u64 = 256;

/// The variable with AddressSanitizer's options, of which [`ORDER`] lets another library be loaded before it.
pub const ASAN: &str = "ASAN_OPTIONS";
/// The option for that.
pub const ORDER: &str = "verify_asan_link_order=0";

/// Programs that clean the environment of those that serve for them, and the setting that keeps variables in it.
const MASTERS: [(&str, &str); 4] = [
    // doc.dovecot.org, core settings.
    ("dovecot", "import_environment = $import_environment LD_PRELOAD PACELINE_CC, in dovecot.conf"),
    // postconf(5).
    ("postfix", "import_environment = LD_PRELOAD PACELINE_CC and what postconf -d import_environment says, in main.cf"),
    // The specification of Exim, 14.
    ("exim", "keep_environment = LD_PRELOAD : ^PACELINE_"),
    ("exim4", "keep_environment = LD_PRELOAD : ^PACELINE_"),
];

/// What was found out about a program.
#[derive(Debug)]
pub struct Examined {
    /// The scripts on the way, then the program that runs in the end.
    pub chain: Vec<PathBuf>,
    /// How the shim does with it.
    pub verdict: Fitness,
    /// Its AddressSanitizer is to be told that another library comes first.
    pub wants_order: bool,
}

impl Examined {
    /// What was found out, in one line.
    pub fn line(&self, name: &OsStr) -> String {
        // A command such as python3 is a script where a version manager stands before it.
        let by: String = self.chain[1..].iter().map(|path| format!(", run by {}", path.display())).collect();
        let via = if by.is_empty() { by } else { format!(" (a script{by})") };
        let (verdict, detail) = match &self.verdict {
            Fitness::Works(detail) => ("works", detail),
            Fitness::FallsBack(detail) => ("works in part", detail),
            Fitness::No(detail) => ("cannot be served", detail),
        };
        format!("{}{via}: {verdict}: {detail}", name.display())
    }
}

/// Examines the file at `path`, to be preloaded with `library`.
///
/// # Errors
/// When the interpreter of a script is missing.
pub fn examine(path: &Path, library: Option<&Elf>) -> Result<Examined, CommandError> {
    let mut chain = vec![path.to_owned()];
    let mut wants_order = false;
    loop {
        let path = chain.last().expect("it starts with one").clone();
        let verdict = match look(&path) {
            Ok(_) if chain.len() > SCRIPTS + 1 => no("its scripts run scripts too deep; name the program itself"),
            Ok(Kind::Script { interpreter }) => {
                chain.push(command::find(&interpreter)?);
                continue;
            }
            Ok(Kind::WithoutEnvironment) => {
                no("its first line clears the environment, and LD_PRELOAD with it; name the program itself")
            }
            Ok(Kind::Program(elf)) => {
                wants_order = elf.wants_order();
                judge(&path, &elf, library)
            }
            Err(error) => Fitness::FallsBack(format!("it cannot be examined ({error}); it may or may not work")),
        };
        return Ok(Examined { chain, verdict, wants_order });
    }
}

enum Kind {
    Program(Elf),
    Script { interpreter: std::ffi::OsString },
    WithoutEnvironment,
}

fn look(path: &Path) -> io::Result<Kind> {
    if let Some(elf) = Elf::read(path)? {
        return Ok(Kind::Program(elf));
    }
    let mut start = Vec::new();
    File::open(path)?.take(FIRST_LINE).read_to_end(&mut start)?;
    Ok(interpreter(start.split(|byte| *byte == b'\n').next().unwrap_or_default()))
}

/// Who runs a script, by its first line. Without `#!` that is the shell, as execvp(3) has it. `env` finds the interpreter in
/// PATH.
fn interpreter(line: &[u8]) -> Kind {
    let script = |word: &[u8]| Kind::Script { interpreter: OsStr::from_bytes(word).to_owned() };
    let Some(line) = line.strip_prefix(b"#!") else {
        return script(b"/bin/sh");
    };
    // Nothing else separates words for the kernel (fs/binfmt_script.c): a carriage return belongs to one.
    let mut words = line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let Some(first) = words.next() else {
        return script(b"/bin/sh");
    };
    if !first.ends_with(b"/env") {
        return script(first);
    }
    for word in words {
        match word {
            b"-i" | b"-" | b"--ignore-environment" => return Kind::WithoutEnvironment,
            b"-S" | b"--split-string" => {}
            assignment if assignment.contains(&b'=') => {}
            word => return script(word.strip_prefix(b"-S").unwrap_or(word)),
        }
    }
    script(first)
}

/// Why a program cannot be served, or what of it may not be.
fn judge(path: &Path, elf: &Elf, library: Option<&Elf>) -> Fitness {
    if elf.go {
        return no(
            "it is a Go program, which calls the kernel without the C library; put a proxy such as nginx in front of it",
        );
    }
    if elf.linker.is_none() {
        return no("it is statically linked, so nothing can be preloaded; install a dynamically linked build");
    }
    if let Some(library) = library {
        if !elf.is_like(library) {
            return no(&format!(
                "it is for {}, the library for {}; build the library for {0} and name it in PACELINE_SHIM",
                elf.architecture(),
                library.architecture()
            ));
        }
        if elf.is_musl() != library.is_musl() {
            let name = |elf: &Elf| if elf.is_musl() { "musl" } else { "glibc" };
            return no(&format!(
                "it runs on {}, the library on {}; build the library for {0} and name it in PACELINE_SHIM",
                name(elf),
                name(library)
            ));
        }
    }
    if let Some(reason) = more_rights(path) {
        return no(&format!(
            "{reason}, so the dynamic linker ignores LD_PRELOAD; run it as root, or a copy without it"
        ));
    }
    if let Some((_, setting)) = MASTERS.iter().find(|(name, _)| path.file_name() == Some(OsStr::new(name))) {
        return Fitness::FallsBack(format!(
            "what it starts gets a clean environment, without the library; keep LD_PRELOAD and the variables of paceline: {setting}"
        ));
    }
    if elf.uses_io_uring() {
        return Fitness::FallsBack("it links liburing: what it sends through io_uring is not shaped".to_owned());
    }
    let library = if elf.is_musl() { "musl" } else { "glibc" };
    let order = if elf.wants_order() { format!(", AddressSanitizer (with {ASAN}={ORDER})") } else { String::new() };
    Fitness::Works(format!("dynamically linked, {}, {library}{order}", elf.architecture()))
}

fn no(reason: &str) -> Fitness {
    Fitness::No(reason.to_owned())
}

/// What makes the kernel start a file in secure-execution mode (ld.so(8)), if anything does. Root gains nothing from it.
fn more_rights(path: &Path) -> Option<String> {
    const SET_USER: u32 = 0o4000;
    /// Without the right to execute for the group the bit means something else (inode(7)).
    const SET_GROUP: u32 = 0o2010;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let file = std::fs::metadata(path).ok()?;
    if file.mode() & SET_USER != 0 && file.uid() != user.as_raw() {
        return Some("it is set-user-ID".to_owned());
    }
    if file.mode() & SET_GROUP == SET_GROUP && file.gid() != group.as_raw() {
        return Some("it is set-group-ID".to_owned());
    }
    let mut value = [0; 64];
    let capabilities = rustix::fs::getxattr(path, c"security.capability", &mut value[..]).is_ok();
    (capabilities && !user.is_root()).then(|| "it has file capabilities".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(line: &str) -> Option<String> {
        match interpreter(line.as_bytes()) {
            Kind::Script { interpreter } => Some(interpreter.into_string().unwrap()),
            _ => None,
        }
    }

    #[test]
    fn the_first_line_names_the_interpreter() {
        for (line, program) in [
            ("#!/bin/sh", "/bin/sh"),
            ("#! /usr/bin/python3 -E", "/usr/bin/python3"),
            ("#!/usr/bin/env python3", "python3"),
            ("#!/usr/bin/env -S LANG=C perl -w", "perl"),
            ("#!/usr/bin/env -Sperl -w", "perl"),
            ("#!/usr/bin/env", "/usr/bin/env"),
            ("#!", "/bin/sh"),
            ("#!/bin/sh\r", "/bin/sh\r"),
            ("echo without a first line", "/bin/sh"),
        ] {
            assert_eq!(named(line).as_deref(), Some(program), "{line}");
        }
        assert_eq!(named("#!/usr/bin/env -i sh"), None);
    }
}
