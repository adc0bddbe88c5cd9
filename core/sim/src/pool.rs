//! Boxes that are used again, so that a packet's body costs no allocation.

/// Boxes out of use. One that is never given back is freed where it is dropped.
pub(crate) struct Pool<T> {
    unused: Vec<Box<T>>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { unused: Vec::new() }
    }
}

impl<T> Pool<T> {
    /// A box with this in it.
    pub(crate) fn fill(&mut self, value: T) -> Box<T> {
        match self.unused.pop() {
            Some(mut old) => {
                *old = value;
                old
            }
            None => Box::new(value),
        }
    }

    /// The box, whose content nobody needs any more, may be filled again.
    pub(crate) fn empty(&mut self, used: Box<T>) {
        self.unused.push(used);
    }
}
