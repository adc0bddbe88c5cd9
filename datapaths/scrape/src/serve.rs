//! A whole scrape on one connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::format::Format;
use crate::http::{Names, Request, parse};

/// How long a client may take for each step, for it holds up who comes next (our choice: a scrape takes a millisecond).
const PATIENCE: Duration = Duration::from_millis(200);

/// Reads a request, asks for the numbers if it is one for them, and answers. The connection ends with it.
///
/// # Errors
/// The connection's; a client that went away is no trouble of whoever answers.
pub fn serve(mut stream: TcpStream, numbers: impl FnOnce(Format) -> String) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let names = Names::at(stream.local_addr()?);
    let mut request = Vec::new();
    let answer = loop {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes)?;
        request.extend_from_slice(&bytes[..count]);
        match parse(&request, names) {
            Request::Incomplete if count > 0 => {}
            Request::Incomplete => return Ok(()),
            Request::Metrics(scrape) => break scrape.answer(&numbers(scrape.format)),
            Request::Refused(refusal) => break refusal.answer(),
        }
    };
    stream.write_all(&answer)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn ask(request: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let registry = crate::registry(["1.2.3"]);
        serve(listener.accept().unwrap().0, |format| crate::expose(&registry, format)).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn head_has_everything_but_the_numbers() {
        let whole = ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (head, body) = whole.split_once("\r\n\r\n").unwrap();
        assert!(body.ends_with("paceline_build_info{version=\"1.2.3\"} 1\n"), "{body}");
        assert!(
            head.contains("\r\nContent-Type: text/plain; version=0.0.4") && head.contains("\r\nVary: Accept"),
            "{head}"
        );
        assert_eq!(ask("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"), format!("{head}\r\n\r\n"));
    }

    #[test]
    fn openmetrics_is_for_who_asks() {
        let text = ask("GET /metrics HTTP/1.1\r\nHost: [::1]:1\r\nAccept: application/openmetrics-text\r\n\r\n");
        assert!(text.contains("application/openmetrics-text; version=1.0.0") && text.ends_with("# EOF\n"), "{text}");
        assert!(ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404 "));
    }
}
