//! A control group (version 2) for one command, below the one that this process is in.
//!
//! Source: cgroups(7), Linux Documentation/admin-guide/cgroup-v2.rst.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;

/// What names begin with; the rest says whose it is.
const PREFIX: &str = "paceline-run-";

/// The processes of a group, and the file by which a process is moved into it.
const PROCESSES: &str = "cgroup.procs";

/// Why there is no group for a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// This process is in no mounted hierarchy of version 2.
    #[error(
        "no cgroup v2 is mounted that has this process in it; mount one: mount -t cgroup2 none /sys/fs/cgroup (or a folder of its own)"
    )]
    NotMounted,
    /// The system refused a step.
    #[error("{}: cannot {step} ({source})", place.display())]
    System {
        /// The group.
        place: PathBuf,
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// A group that was made for a command. Dropping it moves what still runs in it to the group above, and removes it. What a
/// process leaves behind that was killed is removed by the next one, once it is empty.
#[derive(Debug)]
pub struct Cgroup {
    above: PathBuf,
    place: PathBuf,
}

impl Cgroup {
    /// Makes one, and removes those that are empty and whose maker is gone.
    ///
    /// # Errors
    /// When no cgroup v2 is mounted, or this process may make no group.
    pub fn create() -> Result<Self, CgroupError> {
        let above = own().ok_or(CgroupError::NotMounted)?;
        remove_abandoned(&above);
        let maker = process::id();
        let since = started(maker).unwrap_or_default();
        let places = (0..).map(|count: u32| above.join(format!("{PREFIX}{maker}-{since}-{count}")));
        for place in places {
            match fs::create_dir(&place) {
                Ok(()) => return Ok(Self { above, place }),
                // This process has made one before.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(CgroupError::System { place, step: "make a cgroup", source }),
            }
        }
        Err(CgroupError::NotMounted)
    }

    /// Where it is.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Its folder, opened.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(&self) -> Result<File, CgroupError> {
        File::open(&self.place).map_err(|source| CgroupError::System {
            place: self.place.clone(),
            step: "open the cgroup",
            source,
        })
    }

    /// Runs `work` with this whole process in the group; what it starts stays there.
    ///
    /// # Errors
    /// When the process cannot be moved.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> Result<T, CgroupError> {
        join(&self.place)?;
        let result = work();
        join(&self.above)?;
        Ok(result)
    }

    /// The processes in it.
    pub fn processes(&self) -> Vec<String> {
        let list = fs::read_to_string(self.place.join(PROCESSES)).unwrap_or_default();
        list.lines().map(str::to_owned).collect()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Those that are moved may start others meanwhile: until there are none, or nothing helps.
        const ATTEMPTS: usize = 10;
        for _ in 0..ATTEMPTS {
            for process in self.processes() {
                let _ = fs::write(self.above.join(PROCESSES), process);
            }
            if fs::remove_dir(&self.place).is_ok() {
                return;
            }
        }
    }
}

/// Moves this process.
fn join(place: &Path) -> Result<(), CgroupError> {
    // Zero is the writer.
    fs::write(place.join(PROCESSES), "0").map_err(|source| CgroupError::System {
        place: place.to_owned(),
        step: "move into the cgroup",
        source,
    })
}

/// The group of this process, where it is mounted.
fn own() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    locate(&groups, &mounts).find(|place| place.join(PROCESSES).exists())
}

/// Where the process is by `/proc/self/cgroup` and `/proc/self/mountinfo` (proc(5)).
fn locate<'a>(groups: &'a str, mounts: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    // Version 2 has the number 0 and names no controllers.
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"));
    mounts.lines().filter_map(move |line| {
        let (place, rest) = line.split_once(" - ")?;
        rest.strip_prefix("cgroup2 ")?;
        let mut fields = place.split(' ').skip(3);
        let (root, mounted) = (fields.next()?, fields.next()?);
        // Spaces are written as \040.
        let mounted = PathBuf::from(mounted.replace("\\040", " "));
        Some(mounted.join(Path::new(group?).strip_prefix(root).ok()?))
    })
}

/// Removes groups in `above` that are empty and whose maker no longer runs.
fn remove_abandoned(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        if let Some(maker) = entry.file_name().to_str().and_then(maker)
            && !maker.runs()
        {
            // One that is not empty stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// A process: when it started distinguishes it from another that gets its id later.
#[derive(Debug, PartialEq, Eq)]
struct Maker {
    process: u32,
    started: u64,
}

impl Maker {
    fn runs(&self) -> bool {
        started(self.process) == Some(self.started)
    }
}

fn maker(name: &str) -> Option<Maker> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let maker = Maker { process: parts.next()?.parse().ok()?, started: parts.next()?.parse().ok()? };
    parts.next()?;
    Some(maker)
}

/// When a process was started, in clock ticks since the machine was (proc(5), stat, field 22).
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    // The name, in brackets, may hold anything.
    let fields = stat.rsplit_once(')')?.1;
    fields.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_on_any_mount() {
        let found = |groups: &str, mounts: &str| locate(groups, mounts).collect::<Vec<_>>();
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        assert_eq!(found("0::/user.slice/a b\n", unified), [Path::new("/sys/fs/cgroup/user.slice/a b")]);
        let hybrid = "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 23 0:27 / /sys/fs/cgroup/uni\\040fied rw - cgroup2 cgroup2 rw\n";
        assert_eq!(found("1:cpu:/x\n0::/\n", hybrid), [Path::new("/sys/fs/cgroup/uni fied/")]);
        // A part of the hierarchy, with the process in it and not.
        let part = "31 23 0:27 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(found("0::/pod/one\n", part), [Path::new("/sys/fs/cgroup/one")]);
        assert!(found("0::/other\n", part).is_empty());
        assert!(found("1:cpu:/x\n", unified).is_empty());
        assert!(found("0::/\n", "22 1 0:20 / /proc rw - proc proc rw\n").is_empty());
    }

    #[test]
    fn a_name_says_whether_its_maker_runs() {
        let us = process::id();
        let since = started(us).unwrap();
        assert!(maker(&format!("{PREFIX}{us}-{since}-0")).unwrap().runs());
        assert!(!maker(&format!("{PREFIX}{us}-{}-0", since + 1)).unwrap().runs());
        for other in ["", PREFIX, "paceline-run-1", "paceline-run-1-2", "paceline-run-x-2-3", "system.slice"] {
            assert_eq!(maker(other), None, "{other}");
        }
    }
}
