//! SHA-256 of what is in a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use paceline_alcc::transfer::HASH;
use ring::digest::{Context, SHA256};

/// Bytes that one read of a file asks for (our choice).
const PIECE: usize = 256 * 1024;

/// Of the first `size` bytes of a file.
pub(crate) fn hash_of(file: &File, size: u64) -> io::Result<[u8; HASH]> {
    let mut hash = Context::new(&SHA256);
    hash_into(&mut hash, file, size)?;
    let mut bytes = [0; HASH];
    bytes.copy_from_slice(hash.finish().as_ref());
    Ok(bytes)
}

/// Adds the first `size` bytes of a file.
pub(crate) fn hash_into(hash: &mut Context, file: &File, size: u64) -> io::Result<()> {
    let (mut at, mut piece) = (0, vec![0; PIECE]);
    while at < size {
        let wanted = (size - at).min(PIECE as u64) as usize;
        match file.read_at(&mut piece[..wanted], at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                hash.update(&piece[..count]);
                at += count as u64;
            }
        }
    }
    Ok(())
}
