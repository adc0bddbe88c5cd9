//! Files that others can have put there: opened without following a link, and without waiting for the other end of a FIFO.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::Unfit;

/// Opens a regular file for reading, by its own name.
///
/// # Errors
/// [`Unfit`] for a link and for what is not a regular file; else the system's.
pub fn regular(path: &Path) -> io::Result<File> {
    opened(path, File::options().read(true)).map(|(file, _)| file)
}

/// The same for a name that the user gave, which may be a link to it.
///
/// # Errors
/// As [`regular()`], but for links.
pub fn followed(path: &Path) -> io::Result<File> {
    fit(&fs::metadata(path)?)?;
    let file = File::options().read(true).custom_flags(WAITLESS.bits() as i32).open(path)?;
    fit(&file.metadata()?)?;
    Ok(file)
}

/// Opens a file that this user made, for reading and writing; `None` where there is nothing.
///
/// # Errors
/// As [`regular()`], and [`Unfit::Foreign`] for a file that another user owns, or that has another name, which others can give it.
pub fn own(path: &Path) -> io::Result<Option<File>> {
    match opened(path, File::options().read(true).write(true)) {
        Ok((_, found)) if found.uid() != geteuid().as_raw() || found.nlink() != 1 => Err(Unfit::Foreign.into()),
        Ok((file, _)) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a file for reading and writing, where nothing stands.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] where something does, a link as well; else the system's.
pub fn create_own(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).open(path)
}

fn opened(path: &Path, options: &mut OpenOptions) -> io::Result<(File, Metadata)> {
    // Before it is opened: of a device that alone may have an effect.
    fit(&fs::symlink_metadata(path)?)?;
    let flags = (WAITLESS | OFlags::NOFOLLOW).bits() as i32;
    let file = options.custom_flags(flags).open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => Unfit::Link.into(),
        _ => error,
    })?;
    let found = file.metadata()?;
    fit(&found)?;
    Ok((file, found))
}

/// Neither waits for the other end of a FIFO, nor takes a terminal.
const WAITLESS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

fn fit(found: &Metadata) -> io::Result<()> {
    match found {
        found if found.is_symlink() => Err(Unfit::Link.into()),
        found if found.is_file() => Ok(()),
        _ => Err(Unfit::NotAFile.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn links_pipes_and_folders_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "x").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("nothing", at("dangling")).unwrap();
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let refused = |name: &str| regular(&at(name)).map(drop).unwrap_err().to_string();
        assert_eq!(
            ["link", "dangling", "fifo", "."].map(refused),
            ["it is a link", "it is a link", "it is not a regular file", "it is not a regular file"]
        );
        regular(&at("file")).unwrap();
        followed(&at("link")).unwrap();
        for name in ["fifo", "."] {
            assert_eq!(followed(&at(name)).unwrap_err().to_string(), "it is not a regular file", "{name}");
        }
        assert_eq!(followed(&at("dangling")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(own(&at("nothing")).unwrap().is_none() && own(&at("file")).unwrap().is_some());
        fs::hard_link(at("file"), at("other")).unwrap();
        assert_eq!(own(&at("file")).unwrap_err().to_string(), "it is another user's, or has other names");
        for name in ["file", "link", "dangling", "fifo"] {
            assert_eq!(create_own(&at(name)).unwrap_err().kind(), io::ErrorKind::AlreadyExists, "{name}");
        }
    }
}
