//! Processes that were started by programs under the shim and do not have its library: nothing serves them, and they would say so nowhere.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

/// How often they are looked for (our choice: some milliseconds where 100 processes run).
const EVERY: Duration = Duration::from_secs(5);
/// Names in the line (our choice: it is to fit).
const NAMED: usize = 3;
/// How the preloaded library is called in a list of what is mapped.
const LIBRARY: &str = "/libpaceline_shim.so";

/// What was found last.
#[derive(Debug, Default)]
pub struct Unserved {
    looked: Option<Instant>,
    note: Option<String>,
}

/// A process, as far as may be seen.
#[derive(Clone, Debug)]
struct Seen {
    parent: u32,
    name: String,
    /// [`None`] where it is not known: it has nothing mapped (it has ended, or is the kernel's), or is another user's.
    has_library: Option<bool>,
}

impl Unserved {
    /// One line, without a full stop, when there are some.
    pub fn note(&mut self) -> Option<String> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= EVERY) {
            self.note = line(&unserved(&all()));
            self.looked = Some(Instant::now());
        }
        self.note.clone()
    }
}

fn all() -> HashMap<u32, Seen> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten();
    let numbers = numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(|process| Some((process, look(process)?))).collect()
}

fn look(process: u32) -> Option<Seen> {
    // PID (NAME) STATE PARENT ...; a name may have parentheses (proc_pid_stat(5)).
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let parent = after.split_whitespace().nth(1)?.parse().ok()?;
    Some(Seen { parent, name, has_library: has_library(process) })
}

fn has_library(process: u32) -> Option<bool> {
    let maps = BufReader::new(File::open(format!("/proc/{process}/maps")).ok()?);
    let mut mapped = None;
    for line in maps.split(b'\n') {
        // A file that was replaced meanwhile is marked.
        let found = String::from_utf8_lossy(&line.ok()?).trim_end_matches(" (deleted)").ends_with(LIBRARY);
        mapped = Some(found);
        if found {
            break;
        }
    }
    mapped
}

/// Those that have a process with the library above them and do not have it, by name.
fn unserved(all: &HashMap<u32, Seen>) -> BTreeMap<&str, Vec<u32>> {
    let mut found: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (process, seen) in all.iter().filter(|(_, seen)| seen.has_library == Some(false)) {
        let mut above = all.get(&seen.parent);
        // No deeper than there are processes: a number may be used again meanwhile.
        for _ in 0..all.len() {
            let Some(parent) = above else { break };
            if parent.has_library == Some(true) {
                found.entry(&seen.name).or_default().push(*process);
                break;
            }
            above = all.get(&parent.parent);
        }
    }
    found.values_mut().for_each(|numbers| numbers.sort_unstable());
    found
}

fn line(found: &BTreeMap<&str, Vec<u32>>) -> Option<String> {
    let count: usize = found.values().map(Vec::len).sum();
    let first = |(name, numbers): (&&str, &Vec<u32>)| format!("{name} ({})", numbers[0]);
    let mut names: Vec<String> = found.iter().take(NAMED).map(first).collect();
    if found.len() > NAMED {
        names.push("others".to_owned());
    }
    let (programs, do_not) = match count {
        0 => return None,
        1 => ("1 program".to_owned(), "does not have it, and is"),
        count => (format!("{count} programs"), "do not have it, and are"),
    };
    Some(format!("{programs} below one with the library {do_not} not served: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_below_without_it_are_named() {
        let seen = |parent, name: &str, has_library| Seen { parent, name: name.to_owned(), has_library };
        let all = HashMap::from([
            (1, seen(0, "init", Some(false))),
            (10, seen(1, "dovecot", Some(true))),
            (11, seen(10, "anvil", Some(false))),
            (12, seen(10, "imap", Some(false))),
            (13, seen(12, "imap", Some(false))),
            (14, seen(10, "log", None)),
            (15, seen(14, "lmtp", Some(false))),
            (16, seen(10, "served", Some(true))),
            (20, seen(1, "other", Some(false))),
            (21, seen(22, "circle", Some(false))),
            (22, seen(21, "circle", Some(false))),
        ]);
        let found = unserved(&all);
        assert_eq!(found, BTreeMap::from([("anvil", vec![11]), ("imap", vec![12, 13]), ("lmtp", vec![15])]));
        let said = "4 programs below one with the library do not have it, and are not served: \
                    anvil (11), imap (12), lmtp (15)";
        assert_eq!(line(&found).as_deref(), Some(said));
        let one = BTreeMap::from([("imap", vec![12])]);
        let said = "1 program below one with the library does not have it, and is not served: imap (12)";
        assert_eq!(line(&one).as_deref(), Some(said));
        assert_eq!(line(&BTreeMap::new()), None);
    }
}
