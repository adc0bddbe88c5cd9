//! Files that strangers name: what a service takes into a folder, and gives from it.

use std::fs::File;
use std::io;
use std::path::{Component, Path};

use crate::regular;

/// A name that may lead out of a folder, or to a file in the making.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a plain name of a file", .0.escape_debug())]
pub struct NotPlain(pub String);

/// The name of a file in a folder: one component without control characters, and not that of a draft or a part.
///
/// # Errors
/// [`NotPlain`] for any other text.
pub fn plain(name: &str) -> Result<&str, NotPlain> {
    let mut parts = Path::new(name).components();
    let single = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
    if single && !name.chars().any(char::is_control) && !name.starts_with('.') {
        Ok(name)
    } else {
        Err(NotPlain(name.to_owned()))
    }
}

/// Opens a file to give it to a stranger: the file, and its length in bytes. `None` where nothing stands, and for a link, which may lead out
/// of the folder, and whatever else is not a regular file.
///
/// # Errors
/// The system's.
pub fn given(path: &Path) -> io::Result<Option<(File, u64)>> {
    match regular(path).and_then(|file| Ok((file.metadata()?.len(), file))) {
        Ok((bytes, file)) => Ok(Some((file, bytes))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_plain_name_leads_nowhere_else() {
        for name in ["movie", "a b", "ü", "x.paceline-part"] {
            assert_eq!(plain(name), Ok(name));
        }
        for name in ["", ".", "..", "../x", "/x", "a/b", "a/", ".hidden", "a\nb"] {
            assert!(plain(name).is_err(), "{name:?}");
        }
        assert_eq!(plain("a\nb").unwrap_err().to_string(), "'a\\nb' is not a plain name of a file");
    }

    #[test]
    fn regular_files_alone_are_given() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "four").unwrap();
        symlink("file", at("link")).unwrap();
        assert_eq!(given(&at("file")).unwrap().map(|(_, bytes)| bytes), Some(4));
        for name in ["link", "nothing", "."] {
            assert!(given(&at(name)).unwrap().is_none(), "{name}");
        }
        assert!(given(&at("file/under")).is_err());
    }
}
