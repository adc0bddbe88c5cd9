//! Where the Unix sockets of processes are.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::{getpid, getuid};

/// The folder of this user's sockets below `base`, made where it is missing.
fn folder(base: &Path) -> io::Result<PathBuf> {
    let folder = base.join(format!("paceline-{}", outer_user().unwrap_or(getuid().as_raw())));
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Anybody may have made it in /tmp before.
    let found = fs::symlink_metadata(&folder)?;
    if !found.is_dir() || found.uid() != getuid().as_raw() || found.mode() & 0o077 != 0 {
        let text = format!("{} is not a folder of this user alone; remove it", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(folder)
}

/// This user's number outside of the user namespace: root of one is not the machine's, whose folder it may not have.
fn outer_user() -> Option<u32> {
    let (user, map) = (getuid().as_raw(), fs::read_to_string("/proc/self/uid_map").ok()?);
    map.lines().find_map(|row| {
        let mut numbers = row.split_whitespace().filter_map(|number| number.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let index = user.checked_sub(inside).filter(|index| *index < count)?;
        outside.checked_add(index)
    })
}

/// Where this process listens: in the first folder that it can have.
pub(super) fn own() -> io::Result<PathBuf> {
    let name = format!("{}.sock", getpid().as_raw_nonzero());
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    if let Some(folder) = runtime.and_then(|base| folder(Path::new(&base)).ok()) {
        return Ok(folder.join(name));
    }
    folder(Path::new("/tmp")).map(|folder| folder.join(name))
}

/// Where a process listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Device and number of the socket's file: a folder may be seen in several ways.
    file: (u64, u64),
    pub(super) path: PathBuf,
    /// Of this user, who may remove it.
    pub(super) own: bool,
}

impl Place {
    /// `None` when it is no socket, or not of the folder's user.
    pub(super) fn of(path: PathBuf) -> Option<Self> {
        let (file, folder) = (fs::symlink_metadata(&path).ok()?, fs::symlink_metadata(path.parent()?).ok()?);
        let is_socket = file.file_type().is_socket() && folder.is_dir() && file.uid() == folder.uid();
        let own = file.uid() == getuid().as_raw();
        is_socket.then(|| Self { file: (file.dev(), file.ino()), path, own })
    }

    /// Whether it is the same socket.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.file == other.file
    }
}

/// Every socket that this user may find. Root finds those of all users, and those in containers and private temporary
/// folders, whose processes have a mount namespace of their own.
pub(super) fn all() -> Vec<Place> {
    let mut bases = vec![PathBuf::from("/tmp")];
    bases.extend(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    if getuid().is_root() {
        bases.extend(children(Path::new("/run/user")));
        bases.extend(other_roots().into_iter().flat_map(|root| {
            let mut bases = children(&root.join("run/user"));
            bases.push(root.join("tmp"));
            bases
        }));
    }
    let folders = bases.iter().flat_map(|base| children(base));
    let folders = folders.filter(|path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"paceline-")));
    let mut sockets: Vec<Place> = folders.flat_map(|folder| inside(&folder)).collect();
    sockets.sort();
    sockets.dedup_by(|a, b| a.is(b));
    sockets
}

/// The sockets of a folder.
pub(super) fn inside(folder: &Path) -> Vec<Place> {
    children(folder).into_iter().filter_map(Place::of).collect()
}

fn children(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

/// The root folder of one process in each mount namespace but this one's.
fn other_roots() -> Vec<PathBuf> {
    let own = fs::read_link("/proc/self/ns/mnt").ok();
    let mut seen: Vec<PathBuf> = own.into_iter().collect();
    let mut roots = Vec::new();
    for process in children(Path::new("/proc")) {
        let Ok(namespace) = fs::read_link(process.join("ns/mnt")) else { continue };
        if !seen.contains(&namespace) {
            seen.push(namespace);
            roots.push(process.join("root"));
        }
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_others_may_use_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let made = folder(base.path()).unwrap();
        assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(folder(base.path()).unwrap(), made);
        fs::set_permissions(&made, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(
            folder(base.path()).unwrap_err().to_string().ends_with("is not a folder of this user alone; remove it")
        );
        fs::remove_dir(&made).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &made).unwrap();
        assert!(folder(base.path()).is_err(), "a link that somebody made");
    }

    #[test]
    fn only_sockets_of_the_folders_user_are_asked() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("1.sock");
        fs::write(&path, "no socket").unwrap();
        assert!(inside(base.path()).is_empty());
        fs::remove_file(&path).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(inside(base.path()).len(), 1);
        let link = base.path().join("2.sock");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(inside(base.path()).len(), 1, "the link is not followed");
    }
}
