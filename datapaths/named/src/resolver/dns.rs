//! Names of objects in DNS, for those who have a zone rather than a service: TXT records `paceline-icn=ADDR:PORT` at
//! `<name>.<zone>`, one for each place. A name in base 32 is shorter than a label of DNS may be (63 bytes, RFC 1035 section 2.3.4).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ProtocolConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use paceline_icn::Name;
use paceline_icn::resolve::{Found, MAX_TTL_S};

use super::ResolveError;
use crate::failed;

/// What a record of a place starts with.
const PREFIX: &str = "paceline-icn=";

/// A zone with records of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its name, such as `content.example.org`.
    pub zone: String,
    /// The server to ask; `None`: those of the system.
    pub server: Option<SocketAddr>,
}

impl Zone {
    /// Where `name` is, by the records of the zone; empty: it has none. Blocks for `patience` at most; not to be called from within an
    /// asynchronous runtime.
    ///
    /// # Errors
    /// [`ResolveError::Dns`], [`ResolveError::System`].
    pub fn resolve(&self, name: &Name, patience: Duration) -> Result<Vec<Found>, ResolveError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(failed("a runtime for DNS"))?.block_on(self.ask(name, patience))
    }

    async fn ask(&self, name: &Name, patience: Duration) -> Result<Vec<Found>, ResolveError> {
        let failed = |why: String| ResolveError::Dns { name: *name, zone: self.zone.clone(), why };
        let builder = match self.server {
            None => TokioResolver::builder_tokio().map_err(|error| failed(error.to_string()))?,
            Some(server) => {
                let connection = |protocol| {
                    let mut connection = ConnectionConfig::new(protocol);
                    connection.port = server.port();
                    connection
                };
                let connections = vec![connection(ProtocolConfig::Udp), connection(ProtocolConfig::Tcp)];
                let server = NameServerConfig::new(server.ip(), true, connections);
                let config = ResolverConfig::from_name_servers(vec![server]);
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
        };
        let resolver = builder.build().map_err(|error| failed(error.to_string()))?;
        let question = format!("{name}.{}.", self.zone.trim_matches('.'));
        let late = |_| failed(format!("no answer within {} s", patience.as_secs_f64()));
        let answer = match tokio::time::timeout(patience, resolver.txt_lookup(question)).await.map_err(late)? {
            Ok(answer) => answer,
            Err(error) if error.is_no_records_found() => return Ok(Vec::new()),
            Err(error) => return Err(failed(error.to_string())),
        };
        let left = answer.valid_until().saturating_duration_since(Instant::now()).as_secs();
        let ttl_s = u32::try_from(left).unwrap_or(MAX_TTL_S).clamp(1, MAX_TTL_S);
        let mut found = Vec::new();
        for record in answer.answers() {
            let RData::TXT(text) = &record.data else { continue };
            let text = String::from_utf8_lossy(&text.txt_data.concat()).into_owned();
            // Records for other purposes may stand there too.
            let Some(address) = text.strip_prefix(PREFIX) else { continue };
            let wrong = |_| failed(format!("the record '{text}' is wrong; it is to read {PREFIX}ADDR:PORT"));
            found.push(Found { address: address.trim().parse().map_err(wrong)?, ttl_s });
        }
        Ok(found)
    }
}
