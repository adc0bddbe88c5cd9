//! What an earlier run left: data units that are taken as they are, and index units that are verified again.

use super::Fetch;
use crate::UNIT;
use crate::layout::UnitPlace;
use crate::name::NameKind;
use crate::tree::{UnitVerdict, Verifier};

/// Index units of an object, and its manifest, as an earlier run left them.
pub trait Saved: Send {
    /// Reads one into `buffer`; false where it is not there. It may be damaged: it is verified.
    fn read(&mut self, unit: u64, buffer: &mut [u8; UNIT]) -> bool;
}

/// The same beside the verifier.
pub(super) struct Shelved<'a> {
    pub(super) saved: &'a mut dyn Saved,
    pub(super) verifier: &'a mut Verifier,
}

impl Shelved<'_> {
    pub(super) fn is_index(&self, unit: u64) -> bool {
        let place = self.verifier.layout().and_then(|layout| layout.place(unit));
        matches!(place, Some(UnitPlace::Index { .. }))
    }

    /// Whether it is there and genuine. One whose own hash is still on its way is asked for.
    pub(super) fn has(&mut self, unit: u64) -> bool {
        let mut buffer = [0; UNIT];
        self.saved.read(unit, &mut buffer)
            && matches!(self.verifier.check(unit, &buffer), UnitVerdict::Genuine | UnitVerdict::Known)
    }
}

impl Fetch {
    /// Goes on where an earlier run stopped: the data units `had` (of the stored form's; others are passed over) were verified and are not
    /// asked for; of the index units those that are `saved` and genuine. What is needed of them is read when the fetch comes to it, so
    /// that little is done at the start. To be called before the first request.
    pub fn resume(&mut self, had: impl Iterator<Item = u64>, mut saved: Box<dyn Saved>) {
        self.map.have(had);
        let mut first = [0; UNIT];
        if self.name.kind() == NameKind::Object
            && saved.read(0, &mut first)
            && self.verifier.check(0, &first) == UnitVerdict::Genuine
        {
            self.map.has_manifest();
            self.begin();
            self.advance();
        }
        self.saved = Some(saved);
    }
}
