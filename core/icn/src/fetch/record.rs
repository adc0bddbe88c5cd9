//! The record of a signed name: of those that the sources have, the one of the largest version.

use paceline_cc::{Nanos, Time};

use super::{Dropped, Fetch, FetchFailed, Output, SourceId};
use crate::signed::{BadRecord, SignedRecord};

/// How long the first record that came waits for those of the other sources (our choice: a request that is lost is repeated after the first
/// timeout, which is one second, RFC 6298 section 2.1).
const OTHERS: Nanos = Nanos::from_millis(1500);

/// What the sources said.
#[derive(Debug, Default)]
pub(super) struct Records {
    newest: Option<SignedRecord>,
    /// When it is taken, whatever other sources have.
    due: Option<Time>,
    /// Why a source's record was refused.
    pub(super) refused: Option<FetchFailed>,
}

impl Records {
    pub(super) fn due(&self) -> Time {
        self.due.unwrap_or(Time::NEVER)
    }
}

impl Fetch {
    /// A source has this record.
    pub(super) fn take_record(&mut self, now: Time, id: SourceId, payload: &[u8]) -> Result<(), Dropped> {
        let (unix_s, known) = (self.config.unix_s, self.config.known_version);
        let record = SignedRecord::decode(payload)
            .and_then(|record| record.verify_since(&self.name, unix_s, known).map(|_| record));
        match record {
            Ok(record) => {
                self.stats.units += 1;
                self.stats.bytes += payload.len() as u64;
                self.sources[id.index()].said = true;
                if self.records.newest.as_ref().is_none_or(|newest| record.version > newest.version) {
                    self.records.newest = Some(record);
                }
                self.records.due.get_or_insert(now + OTHERS);
                self.settle_record(now);
                Ok(())
            }
            Err(old @ (BadRecord::Expired { .. } | BadRecord::Older { .. })) => {
                self.stats.corrupt += 1;
                self.sources[id.index()].corrupt += 1;
                self.drop_source(now, id, Some(FetchFailed::Record(old)));
                Err(Dropped::Corrupt(0))
            }
            Err(_) => Err(self.corrupt(now, id, 0)),
        }
    }

    /// Hands the newest record out when every source has said what it has, or there was time enough for it. Answers whether it did.
    pub(super) fn settle_record(&mut self, now: Time) -> bool {
        let open = self.sources.iter().any(|source| source.alive && !source.said);
        if self.done || (open && now < self.records.due()) {
            return false;
        }
        let Some(record) = self.records.newest.take() else { return false };
        self.outputs.push_back(Output::Record(record));
        self.finish();
        true
    }
}
