//! Places that sessions have, shared by those who ask: see [`Shares`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_icn::Shares;

/// Places of a server.
pub(crate) struct Sharing<K>(Mutex<Shares<K>>);

/// One place, until it is dropped.
pub(crate) struct Shared<K: Ord> {
    who: K,
    places: Arc<Sharing<K>>,
}

impl<K: Ord + Clone> Sharing<K> {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Shares::new(most))))
    }

    /// A place for `who`, where there is one.
    pub(crate) fn take(self: &Arc<Self>, who: &K) -> Option<Shared<K>> {
        let taken = self.lock().take(who.clone(), 1);
        taken.then(|| Shared { who: who.clone(), places: Arc::clone(self) })
    }
}

impl<K> Sharing<K> {
    fn lock(&self) -> MutexGuard<'_, Shares<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord> Drop for Shared<K> {
    fn drop(&mut self) {
        self.places.lock().give_back(&self.who, 1);
    }
}
