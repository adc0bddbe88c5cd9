//! An HTTP/1.1 gateway: named objects for programs that know nothing of names, such as a browser's video player.
//!
//! `GET` or `HEAD` of `/NAME`, and of `/NAME/FILE` where NAME is a published folder. Ranges (RFC 9110 section 14) of `GET`, one at a time;
//! the tag of an object is its name, and it has no date. Everything that is sent was verified before, but for `/ndn/NAME`, which a forwarder
//! of NDN gives: its headers say what of it was checked. At a loopback address only requests
//! by an address or `localhost` are answered, as exporters do ([`Names`]).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use paceline_cc::Spec;
use paceline_icn::CountedAddress;
use paceline_scrape::Names;

use crate::client::{FetchError, FetchFailed};
use crate::ndn::{Forwarder, NdnError};
use crate::resolver::{ResolveError, Whereabouts};
use crate::{CallFailed, failed};
use body::Served;
use places::{Client, Places};

mod answer;
mod body;
mod ndn;
mod objects;
mod places;
mod range;

/// Where a gateway listens when nothing is said (our choice).
pub const PORT: u16 = 8480;

/// Connections at once (our choice: some browsers' worth).
const CONNECTIONS: usize = 512;

/// A client has this long to send its request (our choice; it may keep a connection idle as long).
const REQUEST_WITHIN: Duration = Duration::from_secs(60);

/// A connection that has waited this long for a request makes room for another (our choice: more than a round trip of any network).
const SETTLED: Duration = Duration::from_secs(1);

/// So often it is looked which clients take or ask nothing any more (our choice).
const LOOK: Duration = Duration::from_secs(5);

/// What a gateway is made of.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where objects are.
    pub whereabouts: Whereabouts,
    /// Who gives names of NDN, under `/ndn/`.
    pub ndn: Option<Forwarder>,
    /// The controller of each fetch.
    pub controller: Spec,
    /// A client is refused when nothing came for this long.
    pub patience: Duration,
}

/// Why an object cannot be had; each has its status.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// 404.
    #[error("{0}")]
    NotFound(String),
    /// 502.
    #[error("the collection cannot be read: {0}")]
    Collection(String),
    /// 503.
    #[error("too many fetches at once; try again")]
    Busy,
    /// 404 or 504.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// 404, 416, 502 or 504.
    #[error(transparent)]
    Fetch(Box<FetchError>),
    /// 404, 502 or 504.
    #[error(transparent)]
    Ndn(Box<NdnError>),
    /// 500.
    #[error("a task of the gateway ended early")]
    Task(#[from] tokio::task::JoinError),
    /// A call of the system failed.
    #[error(transparent)]
    System(#[from] CallFailed),
}

impl GatewayError {
    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) | Self::Resolve(ResolveError::Unknown { .. }) => StatusCode::NOT_FOUND,
            Self::Collection(_) => StatusCode::BAD_GATEWAY,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Resolve(ResolveError::Silent { .. } | ResolveError::Nowhere { .. }) => StatusCode::GATEWAY_TIMEOUT,
            Self::Resolve(_) => StatusCode::BAD_GATEWAY,
            Self::Fetch(error) => match &**error {
                error if error.is_not_found() => StatusCode::NOT_FOUND,
                error if error.is_silence() => StatusCode::GATEWAY_TIMEOUT,
                FetchError::Failed { why: FetchFailed::Range { .. }, .. } => StatusCode::RANGE_NOT_SATISFIABLE,
                _ => StatusCode::BAD_GATEWAY,
            },
            Self::Ndn(error) if error.is_not_found() => StatusCode::NOT_FOUND,
            Self::Ndn(error) if error.is_silence() => StatusCode::GATEWAY_TIMEOUT,
            Self::Ndn(_) => StatusCode::BAD_GATEWAY,
            Self::Task(_) | Self::System(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// A bound gateway.
#[derive(Debug)]
pub struct Gateway {
    listener: TcpListener,
    stock: Arc<objects::Stock>,
}

impl Gateway {
    /// Binds the port.
    ///
    /// # Errors
    /// [`GatewayError::System`]: it is in use, say.
    pub fn bind(config: &GatewayConfig) -> Result<Self, GatewayError> {
        let what = || format!("--listen {}", config.listen);
        let bind = || {
            let listener = TcpListener::bind(config.listen)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = bind().map_err(failed(what()))?;
        let stock = objects::Stock::new(config);
        Ok(Self { listener, stock })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` is done. Within a tokio runtime.
    ///
    /// # Errors
    /// [`GatewayError::System`]: the listening socket failed.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), GatewayError> {
        let listener = tokio::net::TcpListener::from_std(self.listener).map_err(failed("the gateway's socket"))?;
        let connections = Places::new(CONNECTIONS, SETTLED);
        let mut look = tokio::time::interval(LOOK);
        tokio::pin!(stop);
        loop {
            let (stream, peer) = tokio::select! {
                () = &mut stop => return Ok(()),
                _ = look.tick() => {
                    connections.end_idle(REQUEST_WITHIN);
                    self.stock.end_stalled();
                    continue;
                }
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    // The host is out of descriptors, or the client has gone.
                    Err(_) => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
            };
            let _ = stream.set_nodelay(true);
            let names = stream.local_addr().map_or(Names::Local, Names::at);
            let client = Client { source: CountedAddress::of(peer), end: Arc::default() };
            let (end, objects) = (Arc::clone(&client.end), self.stock.of(client.clone()));
            // Others wait as well meanwhile: not for long, for one who may have more than its share.
            let place = tokio::select! {
                () = &mut stop => return Ok(()),
                place = connections.entered(&client, 2 * SETTLED) => place,
            };
            let Some(place) = place.map(Arc::new) else { continue };
            tokio::spawn(async move {
                let service = service_fn(|request: Request<hyper::body::Incoming>| {
                    let (objects, place) = (objects.clone(), Arc::clone(&place));
                    async move {
                        place.is_awaited();
                        let answer = answer::answer(&objects, &request, names).await;
                        Ok::<_, std::convert::Infallible>(answer.map(|content| Served::new(content, &place)))
                    }
                });
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(REQUEST_WITHIN);
                // A client that goes away in the middle is its own affair.
                tokio::select! {
                    _ = http.serve_connection(TokioIo::new(stream), service) => {}
                    () = end.notified() => {}
                }
            });
        }
    }
}
