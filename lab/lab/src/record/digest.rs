//! A digest of a record: two runs of one scenario and seed, on any machine and any number of threads, have the same.

use std::io::{self, Write};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::Record;

impl Record {
    /// The first 64 bits of SHA-256 of the record's JSON, in hexadecimal. Left out is what scenario and seed do not determine: the version
    /// and commit of paceline, and what the run cost; and the shares of flows, which follow from the rest.
    pub fn digest(&self) -> String {
        let mut determined =
            Self { version: String::new(), commit: None, cpu_s: None, wall_s: None, peak_mb: None, ..self.clone() };
        determined.flows.iter_mut().for_each(|flow| flow.share = None);
        // Numbers, texts, and maps whose keys are texts: nothing that JSON lacks.
        let json = serde_json::to_vec(&determined).unwrap_or_default();
        HEXLOWER.encode(&Sha256::digest(&json)[..8])
    }
}

/// Writes a line for each record: its digest, its contestant, the number of its run.
///
/// # Errors
/// When writing fails.
pub fn write_digests<'a>(records: impl IntoIterator<Item = &'a Record>, out: &mut dyn Write) -> io::Result<()> {
    for record in records {
        writeln!(out, "{} {} {}", record.digest(), record.contestant(), record.run)?;
    }
    Ok(())
}
