//! A connection of noq's in virtual time.

use std::num::NonZeroUsize;

use bytes::BytesMut;
use noq_proto::{EndpointConfig, FourTuple};
use paceline_quic::noq::Ticker;

use crate::fork;

/// What noq may send in one call: as much as its controller's quantum lets it.
const MOST: NonZeroUsize = NonZeroUsize::new(64).unwrap();

fork::ends!(
    noq_proto,
    tls: noq_proto,
    endpoint: |server, seed| {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some(seed));
        Endpoint::new(Arc::new(config), server, true)
    },
    handle: |endpoint: &mut Endpoint, now, (own, peer): (SocketAddr, SocketAddr), datagram: BytesMut, answer| {
        endpoint.handle(now, FourTuple::new(peer, Some(own.ip())), None, datagram, answer)
    },
    most: MOST
);

/// An end, and the clock of its controller.
struct Ticked {
    end: Box<dyn End>,
    ticker: Ticker,
}

pub(crate) fn ticked(factory: Factory, start: Instant) -> Ends {
    let ticker = Ticker::default();
    let (end, receiver) = ends(factory.ticked(&ticker), start);
    (Box::new(Ticked { end, ticker }), receiver)
}

impl End for Ticked {
    fn receive(&mut self, now: Instant, ecn: Codepoint, datagram: &[u8]) {
        self.end.receive(now, ecn, datagram);
    }

    fn work(&mut self, now: Instant, leave: &mut dyn FnMut(Codepoint, &[u8])) {
        self.ticker.tick(now);
        self.end.work(now, leave);
    }

    fn next(&mut self) -> Option<Instant> {
        self.end.next().into_iter().chain(self.ticker.next_tick()).min()
    }

    fn write(&mut self) {
        self.end.write();
    }

    fn read(&mut self) -> u64 {
        self.end.read()
    }
}
