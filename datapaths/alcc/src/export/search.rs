//! Which sockets there are to ask.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::process::getuid;

use super::place::{self, Folder, Place};

/// Most sockets of one user that are asked (our choice: more workers than a server has; a user who makes more is alone in not
/// being shown).
pub(super) const OF_A_USER: usize = 1024;

/// What there is to ask.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// One after the other of each user in turn, so that many of one user do not keep the few of others waiting.
    pub(super) places: Vec<Place>,
    /// What may be missing, a line each.
    pub(super) missing: Vec<String>,
}

/// Every socket that this user may find. Root finds those of all users that have processes, and those in containers and
/// private temporary folders, whose processes have a mount namespace of their own.
pub(super) fn search(end: Instant) -> Found {
    let mut search = Search::default();
    let own = getuid().as_raw();
    search.here(own, place::runtime().into_iter().collect());
    if getuid().is_root() {
        let mut ended = false;
        let running = running(end, &mut ended);
        let users: BTreeSet<u32> = running.values().flatten().map(|(user, _)| *user).collect();
        for user in users.into_iter().filter(|user| *user != own) {
            search.here(user, Vec::new());
        }
        let this = mounts(std::process::id());
        let others = running.into_iter().filter(|(namespace, _)| Some(namespace) != this.as_ref());
        for (user, process) in in_turn(others.flat_map(|(_, users)| users).collect(), |(user, _)| *user) {
            if Instant::now() > end {
                ended = true;
                break;
            }
            search.through(process, user);
        }
        if ended {
            search.missing.push("there was no time to look at every container".to_owned());
        }
    }
    let mut missing = search.missing;
    for user in search.crowded {
        missing.push(format!("uid {user} has more than {OF_A_USER} sockets; the others were not asked"));
    }
    Found { places: in_turn(search.places, |place| place.folder.user), missing }
}

#[derive(Default)]
struct Search {
    places: Vec<Place>,
    /// Folders that were looked at: one may be seen in several ways.
    seen: BTreeSet<place::Identity>,
    /// Sockets of each user so far.
    sockets: BTreeMap<u32, usize>,
    /// Users with more sockets than are asked.
    crowded: BTreeSet<u32>,
    missing: Vec<String>,
}

impl Search {
    /// Looks where a user's processes listen in this mount namespace.
    fn here(&mut self, user: u32, mut paths: Vec<String>) {
        paths.extend(places_of(user).into_iter().map(|path| format!("/{path}")));
        // Of root alone.
        paths.extend((user == 0).then(|| "/run/paceline".to_owned()));
        let looked: Vec<io::Result<()>> = paths.into_iter().map(|path| self.look(Folder::here(path, user))).collect();
        // Root's processes have a place that no other user can take.
        if user == 0 || looked.iter().any(Result::is_ok) {
            return;
        }
        for error in looked.into_iter().filter_map(Result::err) {
            // Not there is usual; what another user made in its place is not.
            if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
                self.missing.push(format!("programs of uid {user} may be hidden: {error}"));
            }
        }
    }

    /// Looks where they listen in the mount namespace of a process.
    fn through(&mut self, process: u32, user: u32) {
        for path in places_of(user).into_iter().chain(["run/paceline".to_owned()]) {
            let _ = self.look(Folder::through(process, path, user));
        }
    }

    fn look(&mut self, folder: Folder) -> io::Result<()> {
        let user = folder.user;
        let sockets = self.sockets.entry(user).or_default();
        let (places, more) = Arc::new(folder).sockets(OF_A_USER - *sockets)?;
        let new = places.into_iter().filter(|place| !self.seen.contains(&place.identity)).collect::<Vec<_>>();
        self.seen.extend(new.first().map(|place| place.identity));
        *sockets += new.len();
        if more {
            self.crowded.insert(user);
        }
        self.places.extend(new);
        Ok(())
    }
}

/// Where a user's processes may listen, from the root folder on. Its number in the names is the one outside of the user
/// namespace in which its processes are: this one or one inside of it.
fn places_of(user: u32) -> Vec<String> {
    let numbers: BTreeSet<u32> = [Some(user), place::outer(user)].into_iter().flatten().collect();
    let paths = |number| [format!("tmp/paceline-{number}"), format!("run/user/{number}/paceline-{number}")];
    numbers.into_iter().flat_map(paths).collect()
}

/// For each mount namespace, its users and a process of each; `ended` when there was no time for all.
fn running(end: Instant, ended: &mut bool) -> BTreeMap<PathBuf, Vec<(u32, u32)>> {
    let mut found: BTreeMap<PathBuf, Vec<(u32, u32)>> = BTreeMap::new();
    let Ok(processes) = fs::read_dir("/proc") else { return found };
    for process in processes.flatten() {
        if Instant::now() > end {
            *ended = true;
            break;
        }
        let Some(number) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some((namespace, user)) = mounts(number).zip(user_of(&process.path())) else { continue };
        let users = found.entry(namespace).or_default();
        if users.iter().all(|(known, _)| *known != user) {
            users.push((user, number));
        }
    }
    found
}

/// The mount namespace of a process.
pub(super) fn mounts(process: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// The real user of a process, who need not own its files in /proc.
fn user_of(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let row = status.lines().find_map(|row| row.strip_prefix("Uid:"))?;
    row.split_whitespace().next()?.parse().ok()
}

/// The first of each user, the second of each, and so on.
fn in_turn<T>(items: Vec<T>, user: impl Fn(&T) -> u32) -> Vec<T> {
    let mut counts = BTreeMap::<u32, usize>::new();
    let mut ranked: Vec<(usize, T)> = items
        .into_iter()
        .map(|item| {
            let count = counts.entry(user(&item)).or_default();
            *count += 1;
            (*count, item)
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_waits_for_the_many_processes_of_another() {
        let items = [(7, 'a'), (7, 'b'), (7, 'c'), (9, 'd'), (9, 'e'), (1, 'f')];
        let order: String = in_turn(items.to_vec(), |item| item.0).into_iter().map(|item| item.1).collect();
        assert_eq!(order, "adfbec");
    }

    #[test]
    fn this_process_is_known_by_user_and_namespace() {
        assert_eq!(user_of(Path::new("/proc/self")), Some(getuid().as_raw()));
        assert_eq!(mounts(std::process::id()), fs::read_link("/proc/self/ns/mnt").ok());
        let mut ended = false;
        let all = running(Instant::now() + std::time::Duration::from_secs(60), &mut ended);
        let own = &all[&mounts(std::process::id()).unwrap()];
        assert!(!ended && own.iter().any(|(user, _)| *user == getuid().as_raw()), "{all:?}");
        assert!(running(Instant::now(), &mut ended).len() <= 1 && ended);
    }
}
