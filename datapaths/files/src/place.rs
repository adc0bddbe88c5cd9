//! What stands where a file is to be.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

use crate::Unfit;

/// Whether a file's name stands for standard output.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// What stands there.
pub(crate) enum Place {
    /// Nothing.
    Free,
    /// A regular file: its owner and mode.
    File(Metadata),
    /// Something that takes bytes in order alone.
    InOrder,
}

impl Place {
    /// Of a path that the user named.
    ///
    /// # Errors
    /// For links, folders, sockets, and what cannot be looked at.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        if is_standard(path) || is_descriptor(path) {
            return Ok(Self::InOrder);
        }
        let found = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let bare = !path.as_os_str().as_encoded_bytes().ends_with(b"/");
                return if bare { Ok(Self::Free) } else { Err(Unfit::Folder.into()) };
            }
            found => found?,
        };
        match found {
            found if found.is_file() => Ok(Self::File(found)),
            found if found.is_dir() => Err(Unfit::Folder.into()),
            found if found.is_symlink() => Err(Unfit::Link.into()),
            found if is_in_order(&found) => Ok(Self::InOrder),
            _ => Err(Unfit::NotAFile.into()),
        }
    }

    /// Of a path that has to be a regular file's.
    ///
    /// # Errors
    /// As [`Place::of`], and for what takes bytes in order alone.
    pub(crate) fn of_file(path: &Path) -> io::Result<Option<Metadata>> {
        match Self::of(path)? {
            Self::Free => Ok(None),
            Self::File(found) => Ok(Some(found)),
            Self::InOrder => Err(Unfit::NotAFile.into()),
        }
    }
}

/// Gives a file another name of the same file system: in the place of a regular file, or of nothing.
///
/// # Errors
/// [`Unfit`] when something else has the name; else the system's. Then it has the name that it had.
pub fn replace(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(old) = Place::of_file(to)? {
        inherit(&File::open(from)?, &old);
    }
    fs::rename(from, to)
}

/// Gives a file the mode and the owner of the one in whose place it comes, as far as that is allowed.
#[cfg(unix)]
pub(crate) fn inherit(file: &File, old: &Metadata) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    /// What may be inherited: read, write, run; not the rights of a user or group.
    const PERMISSIONS: u32 = 0o777;
    let _ = fchown(file, Some(old.uid()), Some(old.gid()));
    let _ = file.set_permissions(fs::Permissions::from_mode(old.mode() & PERMISSIONS));
}

#[cfg(not(unix))]
pub(crate) fn inherit(_: &File, _: &Metadata) {}

/// Whether it names an open file of this process: `/dev/stdout`, `/dev/fd/63` of a shell's `>(...)`, `/proc/self/fd/1`. The links there are
/// the kernel's, and others cannot put one there.
#[cfg(target_os = "linux")]
fn is_descriptor(path: &Path) -> bool {
    let folder = |path: &Path| fs::canonicalize(crate::folder_of(path)).ok();
    let is_open =
        |path: &Path| folder(path).is_some_and(|folder| folder.ends_with("fd") && folder.starts_with("/proc"));
    is_open(path)
        || folder(path).is_some_and(|folder| folder == Path::new("/dev"))
            && fs::read_link(path).is_ok_and(|to| is_open(&to))
}

#[cfg(not(target_os = "linux"))]
fn is_descriptor(_: &Path) -> bool {
    false
}

#[cfg(unix)]
fn is_in_order(found: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let kind = found.file_type();
    kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
}

#[cfg(not(unix))]
fn is_in_order(_: &Metadata) -> bool {
    false
}

/// Fails if this, which takes bytes in order, would not take any; without opening it, for the reader of a FIFO would see the end.
#[cfg(target_os = "linux")]
pub(crate) fn check_in_order(path: &Path) -> io::Result<()> {
    if is_standard(path) { Ok(()) } else { Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn check_in_order(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Opens what takes bytes in order. A FIFO gets some seconds to be read from.
#[cfg(target_os = "linux")]
pub(crate) fn open_in_order(path: &Path) -> io::Result<File> {
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    use std::time::{Duration, Instant};

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    use rustix::io::Errno;

    /// How long a FIFO waits for its reader (our choice: it was started in the same breath, or it was forgotten).
    const READER: Duration = Duration::from_secs(2);

    let named = |name: &str| path.file_name().is_some_and(|last| last == name);
    let own = |fd: io::Result<OwnedFd>| fd.map(File::from);
    // A second opening of a file begins at its first byte again.
    if is_standard(path) || is_descriptor(path) && (named("stdout") || named("1")) {
        return own(io::stdout().as_fd().try_clone_to_owned());
    }
    if is_descriptor(path) && (named("stderr") || named("2")) {
        return own(io::stderr().as_fd().try_clone_to_owned());
    }
    if is_descriptor(path) {
        return File::options().append(true).open(path);
    }
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY).bits() as i32;
    let until = Instant::now() + READER;
    let file = loop {
        match File::options().write(true).custom_flags(flags).open(path) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {
                if !fs::symlink_metadata(path)?.file_type().is_fifo() {
                    return Err(error);
                }
                if Instant::now() >= until {
                    return Err(Unfit::Unread.into());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => return Err(Unfit::Link.into()),
            opened => break opened?,
        }
    };
    // A file that came there since we looked.
    if !is_in_order(&file.metadata()?) {
        return Err(Unfit::NotAFile.into());
    }
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_in_order(path: &Path) -> io::Result<File> {
    if is_standard(path) { Err(io::ErrorKind::Unsupported.into()) } else { File::options().write(true).open(path) }
}
