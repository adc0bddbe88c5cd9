//! Whether sockets wait for peers in the calling thread's network namespace, by `/proc/net`: nothing is disturbed.
//!
//! Source: Linux `Documentation/networking/proc_net_tcp.rst`: the local address is the second field, the state the fourth.

use std::fs;

/// The state of a listening TCP socket.
const LISTEN: &str = "0A";

/// Whether a TCP socket listens, or a UDP socket is bound.
pub fn any() -> bool {
    rows(["tcp", "tcp6"]).iter().any(|row| is_listening(row)) || !rows(["udp", "udp6"]).is_empty()
}

/// Whether a TCP socket listens at this port.
pub fn at(port: u16) -> bool {
    rows(["tcp", "tcp6"]).iter().any(|row| is_listening(row) && has_port(row, port))
}

/// Whether a TCP socket listens at this port, or a UDP socket is bound to it.
pub fn serves(port: u16) -> bool {
    at(port) || rows(["udp", "udp6"]).iter().any(|row| has_port(row, port))
}

fn has_port(row: &str, port: u16) -> bool {
    let end = format!(":{port:04X}");
    row.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&end))
}

fn is_listening(row: &str) -> bool {
    row.split_whitespace().nth(3) == Some(LISTEN)
}

/// The rows of both tables, without their headings.
fn rows(tables: [&str; 2]) -> Vec<String> {
    let read = |table| fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
    tables.map(read).iter().flat_map(|text| text.lines().skip(1)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port_while_it_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(any() && at(port) && serves(port));
    }

    #[test]
    fn a_datagram_socket_serves_and_does_not_listen() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(serves(port));
    }
}
