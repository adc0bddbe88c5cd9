//! A connection in virtual time, without ECN. noq is a fork of quinn: the same text, over the types of one or the other.

/// `ends`, over a crate's types: which crate has its TLS, how it makes an endpoint with a seed, how an endpoint takes a datagram (own and
/// peer's address), and how many datagrams may leave in one call.
macro_rules! ends {
    ($proto:ident, tls: $tls:ident, endpoint: $endpoint:expr, handle: $handle:expr, most: $most:expr) => {
        use std::net::SocketAddr;
        use std::sync::Arc;
        use std::time::Instant;

        use $proto::{
            AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, ServerConfig,
            StreamId, TransportConfig,
        };
        use $tls::rustls::RootCertStore;
        use $tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

        use paceline_cc::Codepoint;
        use paceline_quic::{Factory, Identity, MTU};

        use crate::world::{ACK_DELAY, End, Ends, FAR, NEAR, WINDOW, address};

        struct Connected {
            endpoint: Endpoint,
            connection: Option<(ConnectionHandle, Connection)>,
            own: SocketAddr,
            peer: SocketAddr,
            stream: Option<StreamId>,
        }

        /// Sender and receiver.
        pub(crate) fn ends(factory: Factory, start: Instant) -> Ends {
            let identity = Identity::generate().unwrap();
            let certificate = CertificateDer::from(identity.certificate().to_vec());
            let key = PrivateKeyDer::Pkcs8(identity.key().to_vec().into());
            let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key).unwrap();
            server.transport_config(Arc::new(transport()));
            let mut roots = RootCertStore::empty();
            roots.add(certificate).unwrap();
            let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
            let mut settings = transport();
            settings.congestion_controller_factory(Arc::new(factory));
            client.transport_config(Arc::new(settings));

            let end = |server, seed: u8, own, peer| {
                let (own, peer) = (address(own), address(peer));
                Connected { endpoint: $endpoint(server, [seed; 32]), connection: None, own, peer, stream: None }
            };
            let (mut sender, receiver) = (end(None, 2, NEAR, FAR), end(Some(Arc::new(server)), 1, FAR, NEAR));
            sender.connection = Some(sender.endpoint.connect(start, client, sender.peer, "paceline").unwrap());
            (Box::new(sender), Box::new(receiver))
        }

        fn transport() -> TransportConfig {
            let mut acks = AckFrequencyConfig::default();
            acks.max_ack_delay(Some(ACK_DELAY));
            let mut config = TransportConfig::default();
            config
                .ack_frequency_config(Some(acks))
                .initial_mtu(MTU)
                .mtu_discovery_config(None)
                .stream_receive_window(WINDOW.into())
                .receive_window(WINDOW.into())
                .send_window(u64::from(WINDOW));
            config
        }

        impl End for Connected {
            fn receive(&mut self, now: Instant, _ecn: Codepoint, datagram: &[u8]) {
                let (datagram, mut answer) = (bytes::BytesMut::from(datagram), Vec::new());
                match $handle(&mut self.endpoint, now, (self.own, self.peer), datagram, &mut answer) {
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        self.connection = self.endpoint.accept(incoming, now, &mut answer, None).ok();
                    }
                    Some(DatagramEvent::ConnectionEvent(_, event)) => {
                        self.connection.as_mut().expect("an event of a connection").1.handle_event(event);
                    }
                    Some(DatagramEvent::Response(_)) | None => {}
                }
            }

            fn work(&mut self, now: Instant, leave: &mut dyn FnMut(Codepoint, &[u8])) {
                let Some((handle, connection)) = &mut self.connection else { return };
                if connection.poll_timeout().is_some_and(|due| due <= now) {
                    connection.handle_timeout(now);
                }
                while let Some(event) = connection.poll_endpoint_events() {
                    if let Some(event) = self.endpoint.handle_event(*handle, event) {
                        connection.handle_event(event);
                    }
                }
                while connection.poll().is_some() {}
                let mut buffer = Vec::new();
                while let Some(transmit) = connection.poll_transmit(now, $most, &mut buffer) {
                    let packet = transmit.segment_size.unwrap_or(transmit.size);
                    for datagram in buffer[..transmit.size].chunks(packet) {
                        leave(Codepoint::NotEct, datagram);
                    }
                    buffer.clear();
                }
            }

            fn next(&mut self) -> Option<Instant> {
                self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout())
            }

            fn write(&mut self) {
                let Some((_, connection)) = &mut self.connection else { return };
                self.stream = self.stream.or_else(|| connection.streams().open(Dir::Uni));
                let Some(id) = self.stream else { return };
                while connection.send_stream(id).write(&[0; 1 << 16]).is_ok() {}
            }

            fn read(&mut self) -> u64 {
                let Some((_, connection)) = &mut self.connection else { return 0 };
                self.stream = self.stream.or_else(|| connection.streams().accept(Dir::Uni));
                let Some(id) = self.stream else { return 0 };
                let mut stream = connection.recv_stream(id);
                let mut chunks = stream.read(true).unwrap();
                let mut bytes = 0;
                while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                    bytes += chunk.bytes.len() as u64;
                }
                let _ = chunks.finalize();
                bytes
            }
        }
    };
}

pub(crate) use ends;
