//! The newest record of a signed name that was seen, in a file beside what is fetched: no source makes a later fetch go back.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use paceline_files::write_regular;
use paceline_icn::fetch::FetchFailed;
use paceline_icn::name::NameKind;
use paceline_icn::{BadRecord, Name, SignedRecord, UNIT};

use super::{FetchError, Options, record_blocking};
use crate::store::{Links, StoreError, open_file};

/// What `name` stands for, for a fetch into the file `out`, whether it is there or not. The record of a signed name is kept in `OUT.record`,
/// and none of a smaller version than that one's is taken. Nothing is kept where `out` is there and is not a regular file. Blocks.
///
/// # Errors
/// [`FetchError`]; [`FetchError::WentBack`] where the sources have an older record only.
pub fn target_beside(name: &Name, sources: &[SocketAddr], out: &Path, options: Options) -> Result<Name, FetchError> {
    if name.kind() == NameKind::Object {
        return Ok(*name);
    }
    if out.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return record_blocking(name, sources, 0, options).map(|record| record.target);
    }
    let path = beside(out);
    let seen = read(&path)?.filter(|record| record.name() == *name);
    let known = seen.as_ref().map_or(0, |record| record.version);
    let record = record_blocking(name, sources, known, options).map_err(|error| match error {
        FetchError::Failed { why: FetchFailed::Record(BadRecord::Older { version, known }), name } => {
            FetchError::WentBack { name, version, known, path: path.display().to_string() }
        }
        error => error,
    })?;
    if seen.as_ref() != Some(&record) {
        write_regular(&path, |draft| draft.write_all(&record.encode())).map_err(StoreError::from)?;
    }
    Ok(record.target)
}

fn beside(out: &Path) -> PathBuf {
    let mut path = out.as_os_str().to_owned();
    path.push(".record");
    path.into()
}

/// What stands there, if anything does: a record with its publisher's signature, of whatever name.
fn read(path: &Path) -> Result<Option<SignedRecord>, FetchError> {
    let Some((file, found)) = open_file(path, Links::Refused)? else { return Ok(None) };
    let mut bytes = [0; UNIT];
    let record = (found.len() == UNIT as u64)
        .then(|| file.read_exact_at(&mut bytes, 0).ok())
        .flatten()
        .and_then(|()| SignedRecord::decode(&bytes).ok())
        .filter(|record| record.verify(&record.name(), 0).is_ok());
    // It may be a user's own file.
    let why = "is not the record of a signed name, which is to be kept there; move it away, or give another file";
    record.map(Some).ok_or_else(|| FetchError::File { path: path.display().to_string(), why: why.to_owned() })
}
