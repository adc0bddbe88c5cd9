//! What a fetch has done.

use paceline_cc::Nanos;
use paceline_transport::SenderStats;

/// Counters of a fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchStats {
    /// Units that were verified.
    pub units: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of units that arrived, whatever they were.
    pub bytes_received: u64,
    /// Units that came again.
    pub duplicates: u64,
    /// Units that were corrupt.
    pub corrupt: u64,
    /// Units that came before what they are verified with.
    pub early: u64,
    /// Units that were not asked for.
    pub unsolicited: u64,
    /// Answers with a number that is not that of the source's requests.
    pub foreign_nonce: u64,
    /// Datagrams that are not answers.
    pub malformed: u64,
    /// Refusals.
    pub nacks: u64,
    /// Units taken from one source to be asked of another, or asked of a faster one as well.
    pub reassigned: u64,
    /// By source.
    pub sources: Vec<SourceStats>,
}

/// Counters of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceStats {
    /// It is asked.
    pub alive: bool,
    /// Of its flow: units asked for are packets sent.
    pub flow: SenderStats,
    /// Requests.
    pub requests: u64,
    /// Units of it that were corrupt.
    pub corrupt: u64,
    /// How long the newest request waited at the router.
    pub waited: Nanos,
    /// Smoothed RTT.
    pub srtt: Option<Nanos>,
}

impl FetchStats {
    /// Adds what a fetch did that came after this one.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in [
            (&mut self.units, other.units),
            (&mut self.bytes, other.bytes),
            (&mut self.bytes_received, other.bytes_received),
            (&mut self.duplicates, other.duplicates),
            (&mut self.corrupt, other.corrupt),
            (&mut self.early, other.early),
            (&mut self.unsolicited, other.unsolicited),
            (&mut self.foreign_nonce, other.foreign_nonce),
            (&mut self.malformed, other.malformed),
            (&mut self.nacks, other.nacks),
            (&mut self.reassigned, other.reassigned),
        ] {
            *ours += theirs;
        }
        self.sources.extend_from_slice(&other.sources);
    }
}
