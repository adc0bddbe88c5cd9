//! Whether a program listens in a namespace, by /proc/net of the thread inside.

use std::fs;

use crate::namespace::{Namespace, NamespaceError};

/// State of a listening TCP socket, in the fourth column.
const LISTEN: &str = "0A";

/// Whether a TCP socket listens, or a UDP socket is bound, in `namespace`.
pub fn listens(namespace: &Namespace) -> Result<bool, NamespaceError> {
    namespace.enter(|| {
        let rows = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        let tcp = ["tcp", "tcp6"].map(rows);
        let udp = ["udp", "udp6"].map(rows);
        let state = |row: &str| row.split_whitespace().nth(3).is_some_and(|state| state == LISTEN);
        tcp.iter().any(|table| table.lines().skip(1).any(state)) || udp.iter().any(|table| table.lines().count() > 1)
    })
}
