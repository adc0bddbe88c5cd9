//! What the gateway knows of objects, and how it opens them.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use paceline_cc::Spec;
use paceline_icn::ndn::NdnName;
use paceline_icn::{Manifest, Name};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::places::{Client, Place, Places};
use super::{GatewayConfig, GatewayError};
use crate::client::{self, FetchError, Options, Reader};
use crate::kept::Kept;
use crate::ndn::{self, Forwarder, NdnError, NdnReader};
use crate::resolver::Whereabouts;
use crate::store::{COLLECTION, Collection};

/// Bytes of memory of the lists of files that are kept (our choice: the largest one, or thousands of usual ones).
const COLLECTIONS: usize = 128 << 20;

/// Bytes of memory of whatever else is kept of names, for each kind (our choice: some ten thousand names).
const KEPT: usize = 8 << 20;

/// Lists of files that are read at once (our choice: each takes up to 200 MB meanwhile).
const COLLECTING: usize = 2;

/// Longest collection: 64 MB (our choice: half a million files).
const LONGEST_COLLECTION: u64 = 64_000_000;

/// Places that were found are asked for again after this long (our choice: a router that came nearer is seen within it).
const PLACES_FOR: Duration = Duration::from_secs(30);

/// Fetches at once (our choice: each is a thread and up to [`BUFFER`] bytes).
const FETCHES: usize = 64;

/// Bytes of one fetch that may wait for a client (our choice: 100 ms at 320 Mbit/s; 256 MB for all fetches together).
const BUFFER: u64 = 4_000_000;

/// A fetch whose client took nothing for this long makes room for another's (our choice: longer than a browser is busy with what it has).
const SETTLED: Duration = Duration::from_secs(5);

/// And is ended after this long in any case (our choice: as long as a request may take; a player that was paused asks for the rest again).
const STALLED: Duration = Duration::from_secs(60);

/// All that the gateway knows.
#[derive(Debug)]
pub(super) struct Stock {
    whereabouts: Whereabouts,
    forwarder: Option<Forwarder>,
    controller: Spec,
    patience: Duration,
    fetches: Arc<Places>,
    collecting: Semaphore,
    manifests: Mutex<Kept<Manifest>>,
    collections: Mutex<Kept<Arc<Collection>>>,
    places: Mutex<Kept<(Instant, Vec<SocketAddr>)>>,
    /// Of signed names the largest version that was seen: none goes back while the gateway runs.
    versions: Mutex<Kept<u64>>,
}

/// Objects by their names, for one client.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    stock: Arc<Stock>,
    client: Client,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stock {
    pub(super) fn new(config: &GatewayConfig) -> Arc<Self> {
        Arc::new(Self {
            whereabouts: config.whereabouts.clone(),
            forwarder: config.ndn,
            controller: config.controller.clone(),
            patience: config.patience,
            fetches: Places::new(FETCHES, SETTLED),
            collecting: Semaphore::new(COLLECTING),
            manifests: Mutex::new(Kept::new(KEPT)),
            collections: Mutex::new(Kept::new(COLLECTIONS)),
            places: Mutex::new(Kept::new(KEPT)),
            versions: Mutex::new(Kept::new(KEPT)),
        })
    }

    /// Ends fetches whose clients take nothing.
    pub(super) fn end_stalled(&self) {
        self.fetches.end_idle(STALLED);
    }

    /// As one client uses it.
    pub(super) fn of(self: &Arc<Self>, client: Client) -> Objects {
        Objects { stock: Arc::clone(self), client }
    }
}

impl Objects {
    /// Where `name` is. What was not announced may be where the collection is that it belongs to.
    async fn places(&self, name: &Name, within: Option<&Name>) -> Result<Vec<SocketAddr>, GatewayError> {
        if let Some((since, places)) = locked(&self.stock.places).find(name)
            && since.elapsed() < PLACES_FOR
        {
            return Ok(places);
        }
        let (whereabouts, asked, patience) = (self.stock.whereabouts.clone(), *name, self.stock.patience);
        let found = spawn_blocking(move || whereabouts.places(&asked, patience)).await?;
        let places = match (found, within) {
            (Ok(places), _) => places,
            (Err(_), Some(within)) if within != name => Box::pin(self.places(within, None)).await?,
            (Err(error), _) => return Err(error.into()),
        };
        let bytes = size_of_val(places.as_slice());
        locked(&self.stock.places).keep(*name, (Instant::now(), places.clone()), bytes);
        Ok(places)
    }

    fn options(&self) -> Options {
        let mut options = Options::new(self.stock.controller.clone());
        options.receive_buffer = BUFFER;
        options.patience = self.stock.patience;
        options
    }

    /// The object that a name stands for at the moment.
    pub(super) async fn target(&self, name: &Name) -> Result<Name, GatewayError> {
        if name.kind() == paceline_icn::name::NameKind::Object {
            return Ok(*name);
        }
        let places = self.places(name, None).await?;
        let known = locked(&self.stock.versions).find(name).unwrap_or(0);
        let record = client::record(name, &places, known, self.options()).await?;
        {
            let mut versions = locked(&self.stock.versions);
            let newest = versions.find(name).unwrap_or(0).max(record.version);
            versions.keep(*name, newest, 0);
        }
        let target = record.target;
        // A source of the record has what it names.
        self.places(&target, Some(name)).await?;
        Ok(target)
    }

    /// What an object is.
    pub(super) async fn manifest(&self, name: &Name, within: Option<&Name>) -> Result<Manifest, GatewayError> {
        if let Some(manifest) = locked(&self.stock.manifests).find(name) {
            return Ok(manifest);
        }
        let (reader, _) = self.open(name, within, 0..0).await?;
        Ok(reader.manifest().clone())
    }

    /// A place among the fetches.
    async fn place(&self) -> Result<Place, GatewayError> {
        let place = self.stock.fetches.entered(&self.client, self.stock.patience).await;
        let place = place.ok_or(GatewayError::Busy)?;
        place.is_awaited();
        Ok(place)
    }

    /// Begins to fetch an object of NDN.
    pub(super) async fn open_ndn(&self, name: &NdnName) -> Result<(NdnReader, Place), GatewayError> {
        let Some(forwarder) = self.stock.forwarder else {
            let why = "names of NDN are not served here; start the gateway with --ndn and the address of a forwarder";
            return Err(GatewayError::NotFound(why.to_owned()));
        };
        let place = self.place().await?;
        let reader = ndn::fetch(forwarder, name, self.options()).await?;
        Ok((reader, place))
    }

    /// Begins to fetch bytes of an object.
    pub(super) async fn open(
        &self,
        name: &Name,
        within: Option<&Name>,
        range: Range<u64>,
    ) -> Result<(Reader, Place), GatewayError> {
        let place = self.place().await?;
        let places = self.places(name, within).await?;
        let reader = client::fetch(name, &places, range, self.options()).await?;
        let manifest = reader.manifest().clone();
        let bytes = manifest.media_type.len();
        locked(&self.stock.manifests).keep(*name, manifest, bytes);
        Ok((reader, place))
    }

    /// The files of a collection.
    pub(super) async fn collection(&self, name: &Name) -> Result<Arc<Collection>, GatewayError> {
        let known = || locked(&self.stock.collections).find(name);
        if let Some(collection) = known() {
            return Ok(collection);
        }
        let turn = tokio::time::timeout(self.stock.patience, self.stock.collecting.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(GatewayError::Busy) };
        // Another request may have brought it meanwhile.
        if let Some(collection) = known() {
            return Ok(collection);
        }
        let (mut reader, _place) = self.open(name, None, 0..u64::MAX).await?;
        let manifest = reader.manifest();
        if manifest.media_type != COLLECTION {
            let is = if manifest.media_type.is_empty() { "a file" } else { manifest.media_type.as_str() };
            return Err(GatewayError::NotFound(format!("{name} is not a folder but {is}; ask for /{name}")));
        }
        if manifest.length > LONGEST_COLLECTION {
            return Err(GatewayError::NotFound(format!("{name}: a collection of more than 64 MB is not served")));
        }
        let mut json = Vec::with_capacity(manifest.length as usize);
        while let Some(bytes) = reader.chunk().await? {
            json.extend_from_slice(&bytes);
        }
        let collection = Collection::from_json(&json).map_err(|error| GatewayError::Collection(error.to_string()))?;
        let collection = Arc::new(collection);
        locked(&self.stock.collections).keep(*name, collection.clone(), collection.memory());
        Ok(collection)
    }
}

impl From<FetchError> for GatewayError {
    fn from(error: FetchError) -> Self {
        Self::Fetch(Box::new(error))
    }
}

impl From<NdnError> for GatewayError {
    fn from(error: NdnError) -> Self {
        Self::Ndn(Box::new(error))
    }
}
