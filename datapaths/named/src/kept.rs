//! What is remembered of names: this many bytes of it, and what was not used for longest goes first.

use std::collections::BTreeMap;

use paceline_icn::Name;

/// Bytes of an entry besides what it points to, in both maps (our choice: their nodes are about half full).
const ENTRY: usize = 256;

/// A map of a bounded size in memory.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    /// When it was used last, the bytes that it takes, and it.
    all: BTreeMap<Name, (u64, usize, T)>,
    order: BTreeMap<u64, Name>,
    uses: u64,
    bytes: usize,
    most: usize,
}

impl<T: Clone> Kept<T> {
    /// An empty one, of at most `most` bytes.
    pub(crate) const fn new(most: usize) -> Self {
        Self { all: BTreeMap::new(), order: BTreeMap::new(), uses: 0, bytes: 0, most }
    }

    /// What is known of a name, which counts as a use.
    pub(crate) fn find(&mut self, name: &Name) -> Option<T> {
        let (used, _, value) = self.all.get_mut(name)?;
        self.order.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.order.insert(self.uses, *name);
        Some(value.clone())
    }

    /// Keeps what points to `bytes` bytes elsewhere. What is larger than all that there is room for is not kept.
    pub(crate) fn keep(&mut self, name: Name, value: T, bytes: usize) {
        self.forget(&name);
        let bytes = bytes.saturating_add(ENTRY);
        if bytes > self.most {
            return;
        }
        self.uses += 1;
        self.all.insert(name, (self.uses, bytes, value));
        self.order.insert(self.uses, name);
        self.bytes += bytes;
        while self.bytes > self.most
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = *oldest;
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, name: &Name) {
        if let Some((used, bytes, _)) = self.all.remove(name) {
            self.order.remove(&used);
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use paceline_icn::name::NameKind;

    use super::*;

    fn name(byte: u8) -> Name {
        Name::new(NameKind::Object, [byte; 32])
    }

    #[test]
    fn bytes_are_bounded_and_what_is_used_stays() {
        let mut kept = Kept::new(10_000);
        (0..10).for_each(|byte| kept.keep(name(byte), byte, 700));
        assert_eq!(kept.all.len(), 10);
        assert_eq!(kept.find(&name(0)), Some(0));
        kept.keep(name(10), 10, 1500);
        assert_eq!((kept.find(&name(0)), kept.find(&name(1)), kept.find(&name(2))), (Some(0), None, None));
        kept.keep(name(11), 11, 20_000);
        assert_eq!(kept.find(&name(11)), None, "one thing does not drive out everything else");
        assert_eq!(kept.find(&name(9)), Some(9));
        kept.keep(name(9), 99, 100);
        assert_eq!(kept.find(&name(9)), Some(99));
        assert_eq!(kept.bytes, kept.all.values().map(|(_, bytes, _)| bytes).sum::<usize>());
        assert_eq!(kept.order.len(), kept.all.len());
    }
}
