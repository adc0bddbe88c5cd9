//! What is handed to the application, in its order.

use bytes::Bytes;

use super::map::Slot;
use super::{Fetch, Output};
use crate::UNIT;
use crate::layout::UnitPlace;

impl Fetch {
    /// The next thing that there is for the user.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front()?;
        if let Output::Unit { bytes, .. } = &output
            && !self.config.bytes
        {
            self.unconsumed = self.unconsumed.saturating_sub(bytes.len() as u64);
        }
        Some(output)
    }

    /// A unit, for consumers of single units.
    pub(super) fn put_unit(&mut self, unit: u64, bytes: Bytes) {
        if !self.config.bytes {
            self.unconsumed += bytes.len() as u64;
        }
        self.outputs.push_back(Output::Unit { unit, bytes });
    }

    /// Puts out what is next and there. Answers whether anything was.
    pub(super) fn advance(&mut self) -> bool {
        let mut any = false;
        while let Some((unit, slot)) = self.map.pop() {
            any = true;
            match slot {
                Slot::Ready(bytes) if !bytes.is_empty() => self.put_bytes(unit, bytes),
                Slot::Had => {
                    self.verifier.have(unit);
                }
                Slot::Ready(_) | Slot::Free | Slot::Asked(_) | Slot::Raced(_) | Slot::Doubted(_) | Slot::Early(..) => {}
            }
        }
        if self.map.is_done() && self.failure.is_none() {
            self.finish();
        }
        any
    }

    pub(super) fn finish(&mut self) {
        if !self.done {
            self.done = true;
            self.outputs.push_back(Output::Done);
        }
    }

    /// What is wanted of a data unit.
    fn put_bytes(&mut self, unit: u64, mut bytes: Bytes) {
        let Some(UnitPlace::Data { index }) = self.map.layout().and_then(|layout| layout.place(unit)) else { return };
        let mut offset = index * UNIT as u64;
        let before = self.range.start.saturating_sub(offset).min(bytes.len() as u64);
        if before > 0 {
            bytes = bytes.slice(before as usize..);
            offset += before;
        }
        let wanted = self.range.end.saturating_sub(offset);
        if wanted < bytes.len() as u64 {
            bytes.truncate(wanted as usize);
        }
        self.unconsumed += bytes.len() as u64;
        self.outputs.push_back(Output::Bytes { offset, bytes });
    }
}
