//! Where the Unix sockets of processes are.
//!
//! Most of these folders lie where others may write. So every one is opened without following a link, looked at by its
//! descriptor, and used by that descriptor: whatever is renamed meanwhile, nothing else is reached.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::process::{getpid, getuid};

use crate::descriptors::lift;

/// How a folder is opened: to be looked at and to be looked into, whichever users may read it.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// How a socket's file is opened: nothing can be read from it, but it can be connected to.
const SOCKET: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// End of a socket's name, behind the number of its process.
const END: &str = ".sock";

/// Device and number of a file.
pub(super) type Identity = (u64, u64);

/// Of an open file.
pub(super) fn identity(file: &File) -> io::Result<Identity> {
    file.metadata().map(|found| (found.dev(), found.ino()))
}

/// A folder for the sockets of one user.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// As this process names it, or below the root folder of another.
    path: PathBuf,
    /// The process below whose root folder it is, for one of another mount namespace.
    pub(super) through: Option<u32>,
    /// Whose it has to be.
    pub(super) user: u32,
}

impl Folder {
    /// A folder of this mount namespace.
    pub(super) fn here(path: impl Into<PathBuf>, user: u32) -> Self {
        Self { path: path.into(), through: None, user }
    }

    /// One that another process sees; `path` begins at its root folder.
    pub(super) fn through(process: u32, path: impl Into<PathBuf>, user: u32) -> Self {
        Self { path: path.into(), through: Some(process), user }
    }

    /// The same place as another process sees it.
    pub(super) fn as_seen_by(&self, process: u32) -> Self {
        Self { through: Some(process), ..self.clone() }
    }

    /// Opens it, and makes sure that it is its user's alone.
    ///
    /// # Errors
    /// `NotFound` when it is not there; `PermissionDenied`, in one line, when it is another user's.
    pub(super) fn open(&self) -> io::Result<File> {
        let opened = match self.through {
            None => openat(CWD, &self.path, FOLDER, Mode::empty()),
            Some(process) => self.open_below(process),
        };
        let path = self.path.display();
        let taken = |why: String| io::Error::new(io::ErrorKind::PermissionDenied, format!("{path} {why}"));
        let opened = match opened {
            Ok(opened) => File::from(opened),
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(taken("is not a folder".to_owned())),
            Err(error) => return Err(error.into()),
        };
        let found = opened.metadata()?;
        if found.uid() != self.user {
            return Err(taken(format!("belongs to uid {}", found.uid())));
        }
        if found.mode() & 0o077 != 0 {
            return Err(taken(format!("is open to others (mode {:04o})", found.mode() & 0o7777)));
        }
        Ok(opened)
    }

    /// No link on the way is followed: one that begins at the root would lead to this process's own.
    fn open_below(&self, process: u32) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, format!("/proc/{process}/root"), flags, Mode::empty())?;
        let relative = self.path.strip_prefix("/").unwrap_or(&self.path);
        relative.iter().try_fold(root, |folder, name| openat(&folder, name, FOLDER, Mode::empty()))
    }

    /// Its sockets, looking at no more than this many of its files, and whether there are more.
    pub(super) fn sockets(self: &Arc<Self>, most: usize) -> io::Result<(Vec<Place>, bool)> {
        let opened = self.open()?;
        let folder = identity(&opened)?;
        let readable = openat(&opened, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut entries = rustix::fs::Dir::new(readable)?.flatten();
        let mut places = Vec::new();
        // The folder itself and the one above are among them.
        for entry in entries.by_ref().take(most + 2) {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if number(name).is_some() {
                places.push(Place { folder: Arc::clone(self), identity: folder, name: name.to_owned() });
            }
        }
        Ok((places, entries.next().is_some()))
    }
}

/// The number of the process in a socket's name.
fn number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(END)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Where a process listens, if it still does.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) folder: Arc<Folder>,
    /// Of the folder, which may be seen in several ways.
    pub(super) identity: Identity,
    pub(super) name: String,
}

impl Place {
    /// Whether it is the same socket.
    pub(super) fn is(&self, other: &Self) -> bool {
        (self.identity, &self.name) == (other.identity, &other.name)
    }

    /// The number that its process gave itself.
    pub(super) fn process(&self) -> Option<u32> {
        number(&self.name)
    }

    /// The socket's file; only a socket of the folder's user.
    pub(super) fn open(&self) -> io::Result<File> {
        self.find().map(|(_, socket)| socket)
    }

    /// The folder and the socket's file.
    fn find(&self) -> io::Result<(File, File)> {
        let folder = self.folder.open()?;
        let socket = File::from(openat(&folder, &self.name, SOCKET, Mode::empty())?);
        let found = socket.metadata()?;
        let is_ours = found.file_type().is_socket() && found.uid() == self.folder.user;
        if is_ours { Ok((folder, socket)) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Removes what this user left behind here, if it is still the same file. No other user writes into this folder.
    pub(super) fn remove(&self, socket: Identity) {
        let own = self.folder.through.is_none() && self.folder.user == getuid().as_raw();
        if own
            && let Ok((folder, found)) = self.find()
            && identity(&found).is_ok_and(|found| found == socket)
        {
            let _ = unlinkat(&folder, &self.name, AtFlags::empty());
        }
    }
}

/// Where a process of this user may listen, the best first.
fn candidates() -> Vec<Folder> {
    let user = getuid();
    let mut paths = Vec::new();
    if user.is_root() {
        paths.push("/run/paceline".to_owned());
    } else {
        paths.extend(runtime());
    }
    let outer = outer(user.as_raw()).unwrap_or(user.as_raw());
    paths.extend([format!("/tmp/paceline-{outer}"), format!("/run/user/{outer}/paceline-{outer}")]);
    paths.into_iter().map(|path| Folder::here(path, user.as_raw())).collect()
}

/// This user's folder in the one that is named for such things.
pub(super) fn runtime() -> Option<String> {
    let user = getuid().as_raw();
    let base = std::env::var("XDG_RUNTIME_DIR").ok().filter(|base| base.starts_with('/'))?;
    Some(format!("{base}/paceline-{}", outer(user).unwrap_or(user)))
}

/// A user's number outside of this user namespace: root of one is not the machine's, whose folder it may not have.
pub(super) fn outer(user: u32) -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    map.lines().find_map(|row| {
        let mut numbers = row.split_whitespace().filter_map(|number| number.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let index = user.checked_sub(inside).filter(|index| *index < count)?;
        outside.checked_add(index)
    })
}

/// Listens in the first folder that this process can have.
///
/// # Errors
/// One line on why there is none, and what to do.
pub(super) fn listen_in_own(backlog: i32) -> io::Result<(OwnedFd, Place)> {
    listen_in_first(candidates(), backlog)
}

fn listen_in_first(folders: Vec<Folder>, backlog: i32) -> io::Result<(OwnedFd, Place)> {
    let mut reasons = Vec::new();
    for folder in folders {
        let folder = Arc::new(folder);
        match listen_in(&folder, backlog) {
            Ok(listening) => return Ok(listening),
            // It says where.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() => {
                reasons.insert(0, error.to_string());
            }
            Err(error) => reasons.push(format!("{}: {error}", folder.path.display())),
        }
    }
    let reasons = reasons.join("; ");
    Err(io::Error::other(format!(
        "{reasons}; set XDG_RUNTIME_DIR to a folder of this user's, or remove what is in the way"
    )))
}

fn listen_in(folder: &Arc<Folder>, backlog: i32) -> io::Result<(OwnedFd, Place)> {
    match mkdirat(CWD, &folder.path, Mode::RWXU) {
        Err(error) if error != Errno::EXIST => return Err(error.into()),
        // Any user may have made it before.
        _ => {}
    }
    let opened = folder.open()?;
    let process = getpid().as_raw_nonzero();
    let (draft, name) = (format!("{process}.new"), format!("{process}{END}"));
    let _ = unlinkat(&opened, &draft, AtFlags::empty());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = lift(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)?;
    bind(&listener, &SocketAddrUnix::new(below(&opened, &draft))?)?;
    listen(&listener, backlog)?;
    // No process finds it before it listens and takes it for left behind. An earlier process's with the same number goes.
    renameat(&opened, &draft, &opened, &name)?;
    Ok((listener, Place { folder: Arc::clone(folder), identity: identity(&opened)?, name }))
}

/// A path to a file of an open folder.
fn below(folder: &File, name: &str) -> PathBuf {
    path_of(folder).join(name)
}

/// A path that leads to an open file, whatever its name is by now.
pub(super) fn path_of(file: &File) -> PathBuf {
    Path::new("/proc/thread-self/fd").join(file.as_raw_fd().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::{UnixListener, UnixStream};

    /// A folder of this user alone.
    fn private() -> (tempfile::TempDir, Arc<Folder>) {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let folder = Arc::new(Folder::here(base.path(), getuid().as_raw()));
        (base, folder)
    }

    fn folder_in(base: &tempfile::TempDir, name: &str) -> Folder {
        Folder::here(base.path().join(name), getuid().as_raw())
    }

    #[test]
    fn a_folder_that_others_may_use_is_refused_for_the_next() {
        let base = tempfile::tempdir().unwrap();
        let (first, second) = (folder_in(&base, "first"), folder_in(&base, "second"));
        let (_listener, place) = listen_in_first(vec![first.clone(), second.clone()], 1).unwrap();
        assert_eq!(place.folder.path, first.path);
        assert_eq!(fs::metadata(&first.path).unwrap().permissions().mode() & 0o777, 0o700);
        place.open().unwrap();
        let names: Vec<_> = fs::read_dir(&first.path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [format!("{}.sock", std::process::id()).as_str()]);

        fs::set_permissions(&first.path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(first.open().unwrap_err().to_string().ends_with("first is open to others (mode 0755)"));
        assert!(place.open().is_err());
        let (_listener, place) = listen_in_first(vec![first.clone(), second.clone()], 1).unwrap();
        assert_eq!(place.folder.path, second.path);

        fs::remove_dir_all(&first.path).unwrap();
        symlink(&second.path, &first.path).unwrap();
        assert!(
            first.open().unwrap_err().to_string().ends_with("first is not a folder"),
            "a link that another user made"
        );
        let strangers = Folder { user: second.user + 1, ..second };
        let missing = folder_in(&base, "no/such/folder");
        let error = listen_in_first(vec![missing, strangers], 1).unwrap_err().to_string();
        assert!(error.contains(&format!("second belongs to uid {}; ", getuid().as_raw())), "{error}");
        assert!(error.contains("folder: No such file") && error.contains("set XDG_RUNTIME_DIR"), "{error}");
    }

    #[test]
    fn only_sockets_of_the_folders_user_are_places() {
        let (base, folder) = private();
        let path = |name: &str| base.path().join(name);
        fs::write(path("1.sock"), "no socket").unwrap();
        symlink(path("3.sock"), path("2.sock")).unwrap();
        let listeners =
            ["3.sock", "admin.sock", "4.new", "+5.sock"].map(|name| UnixListener::bind(path(name)).unwrap());
        let (mut places, more) = folder.sockets(100).unwrap();
        places.sort_by_key(Place::process);
        assert_eq!(places.iter().filter_map(Place::process).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(!more);
        assert!(places[0].open().is_err() && places[1].open().is_err(), "no socket, and a link to one");
        let socket = places[2].open().unwrap();
        let connected = UnixStream::connect(path_of(&socket)).unwrap();
        assert!(listeners[0].accept().is_ok());
        drop(connected);
        let (few, more) = folder.sockets(2).unwrap();
        assert!(few.len() <= 2 && more);
    }

    #[test]
    fn what_has_changed_is_not_removed() {
        let (base, folder) = private();
        let path = base.path().join("1.sock");
        drop(UnixListener::bind(&path).unwrap());
        let place = folder.sockets(1).unwrap().0.remove(0);
        let old = place.open().unwrap();
        fs::remove_file(&path).unwrap();
        // The old one's number is not free while it is open.
        let _listener = UnixListener::bind(&path).unwrap();
        place.remove(identity(&old).unwrap());
        assert!(path.exists(), "it is another socket by now");
        let through = Place { folder: Arc::new(folder.as_seen_by(std::process::id())), ..place.clone() };
        let new = identity(&place.open().unwrap()).unwrap();
        through.remove(new);
        assert!(through.open().is_ok() && path.exists(), "found through a process");
        place.remove(new);
        assert!(!path.exists());
    }

    #[test]
    fn no_link_is_followed_below_the_root_of_another() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("real")).unwrap();
        fs::set_permissions(base.path().join("real"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink(base.path(), base.path().join("link")).unwrap();
        let open = |path: &str| Folder::through(std::process::id(), base.path().join(path), getuid().as_raw()).open();
        assert!(open("real").is_ok());
        assert!(open("link/real").is_err());
        assert!(Folder::here(base.path().join("link/real"), getuid().as_raw()).open().is_ok());
    }
}
