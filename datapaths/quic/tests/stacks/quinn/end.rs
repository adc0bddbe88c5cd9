//! A connection of quinn's in virtual time.

use bytes::BytesMut;
use quinn_proto::EndpointConfig;

use crate::fork;

fork::ends!(
    quinn_proto,
    tls: quinn,
    endpoint: |server, seed| Endpoint::new(Arc::new(EndpointConfig::default()), server, true, Some(seed)),
    handle: |endpoint: &mut Endpoint, now, (_, peer): (SocketAddr, SocketAddr), datagram: BytesMut, answer| {
        endpoint.handle(now, peer, None, None, datagram, answer)
    },
    // As its own runtime.
    most: 10
);
