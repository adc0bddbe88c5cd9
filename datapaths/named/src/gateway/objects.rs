//! What the gateway knows of objects, and how it opens them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use paceline_cc::Spec;
use paceline_icn::{Manifest, Name};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use super::GatewayError;
use crate::client::{self, FetchError, Options, Reader};
use crate::resolver::Whereabouts;
use crate::store::{COLLECTION, Collection};

/// Objects of which something is kept (our choice: the segments of some hours of video).
const KEPT: usize = 4096;

/// Longest collection: 64 MB (our choice: half a million files).
const LONGEST_COLLECTION: u64 = 64_000_000;

/// Places that were found are asked for again after so long (our choice: a router that came nearer is seen within it).
const PLACES_FOR: Duration = Duration::from_secs(30);

/// Fetches at once (our choice: each is a thread and up to [`BUFFER`] bytes).
const FETCHES: usize = 64;

/// Bytes of one fetch that may wait for a client (our choice: 100 ms at 640 Mbit/s).
const BUFFER: u64 = 8_000_000;

/// A map that forgets what was put into it longest ago.
#[derive(Debug)]
struct Kept<T> {
    all: BTreeMap<Name, (u64, T)>,
    order: BTreeMap<u64, Name>,
    next: u64,
}

impl<T: Clone> Kept<T> {
    const fn new() -> Self {
        Self { all: BTreeMap::new(), order: BTreeMap::new(), next: 0 }
    }

    fn find(&self, name: &Name) -> Option<T> {
        self.all.get(name).map(|(_, value)| value.clone())
    }

    fn keep(&mut self, name: Name, value: T) {
        if let Some((before, _)) = self.all.insert(name, (self.next, value)) {
            self.order.remove(&before);
        }
        self.order.insert(self.next, name);
        self.next += 1;
        while self.all.len() > KEPT {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.all.remove(&oldest);
        }
    }
}

/// Objects by their names.
#[derive(Debug)]
pub(super) struct Objects {
    whereabouts: Whereabouts,
    controller: Spec,
    patience: Duration,
    fetches: Arc<Semaphore>,
    manifests: Mutex<Kept<Manifest>>,
    collections: Mutex<Kept<Arc<Collection>>>,
    places: Mutex<Kept<(Instant, Vec<SocketAddr>)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Objects {
    pub(super) fn new(whereabouts: Whereabouts, controller: Spec, patience: Duration) -> Self {
        Self {
            whereabouts,
            controller,
            patience,
            fetches: Arc::new(Semaphore::new(FETCHES)),
            manifests: Mutex::new(Kept::new()),
            collections: Mutex::new(Kept::new()),
            places: Mutex::new(Kept::new()),
        }
    }

    /// Where `name` is. What was not announced may be where the collection is that it belongs to.
    async fn places(&self, name: &Name, within: Option<&Name>) -> Result<Vec<SocketAddr>, GatewayError> {
        if let Some((since, places)) = locked(&self.places).find(name)
            && since.elapsed() < PLACES_FOR
        {
            return Ok(places);
        }
        let (whereabouts, asked, patience) = (self.whereabouts.clone(), *name, self.patience);
        let found = spawn_blocking(move || whereabouts.places(&asked, patience)).await?;
        let places = match (found, within) {
            (Ok(places), _) => places,
            (Err(_), Some(within)) if within != name => Box::pin(self.places(within, None)).await?,
            (Err(error), _) => return Err(error.into()),
        };
        locked(&self.places).keep(*name, (Instant::now(), places.clone()));
        Ok(places)
    }

    fn options(&self) -> Options {
        let mut options = Options::new(self.controller.clone());
        options.receive_buffer = BUFFER;
        options.patience = self.patience;
        options
    }

    /// The object that a name stands for at the moment.
    pub(super) async fn target(&self, name: &Name) -> Result<Name, GatewayError> {
        if name.kind() == paceline_icn::name::Kind::Object {
            return Ok(*name);
        }
        let places = self.places(name, None).await?;
        let target = client::target(name, &places, self.options()).await?;
        // Whoever has the record has what it names.
        self.places(&target, Some(name)).await?;
        Ok(target)
    }

    /// What an object is.
    pub(super) async fn manifest(&self, name: &Name, within: Option<&Name>) -> Result<Manifest, GatewayError> {
        if let Some(manifest) = locked(&self.manifests).find(name) {
            return Ok(manifest);
        }
        let (reader, _) = self.open(name, within, 0..0).await?;
        Ok(reader.manifest().clone())
    }

    /// Begins to fetch bytes of an object.
    pub(super) async fn open(
        &self,
        name: &Name,
        within: Option<&Name>,
        range: Range<u64>,
    ) -> Result<(Reader, OwnedSemaphorePermit), GatewayError> {
        let permit = tokio::time::timeout(self.patience, self.fetches.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Err(GatewayError::Busy) };
        let places = self.places(name, within).await?;
        let reader = client::fetch(name, &places, range, self.options()).await?;
        locked(&self.manifests).keep(*name, reader.manifest().clone());
        Ok((reader, permit))
    }

    /// The files of a collection.
    pub(super) async fn collection(&self, name: &Name) -> Result<Arc<Collection>, GatewayError> {
        if let Some(collection) = locked(&self.collections).find(name) {
            return Ok(collection);
        }
        let (mut reader, _permit) = self.open(name, None, 0..u64::MAX).await?;
        let manifest = reader.manifest();
        if manifest.media_type != COLLECTION {
            let is = if manifest.media_type.is_empty() { "a file" } else { manifest.media_type.as_str() };
            return Err(GatewayError::NotFound(format!("{name} is no folder but {is}; ask for /{name}")));
        }
        if manifest.length > LONGEST_COLLECTION {
            return Err(GatewayError::NotFound(format!("{name}: a collection of more than 64 MB is not served")));
        }
        let mut json = Vec::new();
        while let Some(bytes) = reader.chunk().await? {
            json.extend_from_slice(&bytes);
        }
        let collection = Collection::from_json(&json).map_err(|error| GatewayError::Collection(error.to_string()))?;
        let collection = Arc::new(collection);
        locked(&self.collections).keep(*name, collection.clone());
        Ok(collection)
    }
}

impl From<FetchError> for GatewayError {
    fn from(error: FetchError) -> Self {
        Self::Fetch(Box::new(error))
    }
}
