use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn addresses_are_read_or_what_was_expected_is_said() {
    let read = |text: &str| text.parse::<Collector>().map(|read| read.to_string());
    for (text, read_as) in [
        ("http://localhost", "http://localhost:4318/v1/metrics"),
        ("http://[::1]", "http://[::1]:4318/v1/metrics"),
        ("http://[::1]:80/", "http://[::1]:80/v1/metrics"),
        ("http://10.0.0.1:9/otlp/v1/metrics", "http://10.0.0.1:9/otlp/v1/metrics"),
    ] {
        assert_eq!(read(text).as_deref(), Ok(read_as), "{text}");
    }
    for (text, error) in [
        ("", CollectorError::Scheme),
        ("https://localhost", CollectorError::Scheme),
        ("localhost:4318", CollectorError::Scheme),
        ("http://user:secret@localhost", CollectorError::Credentials),
        ("http://", CollectorError::Host),
        ("http:///x", CollectorError::Host),
        ("http://:4318", CollectorError::Host),
        ("http://a b", CollectorError::Character),
        ("http://a/\r\nX: y", CollectorError::Character),
        ("http://a:0", CollectorError::Port),
        ("http://a:", CollectorError::Port),
        ("http://a:65536", CollectorError::Port),
        ("http://::1", CollectorError::Host),
        ("http://[::1]4318", CollectorError::Port),
    ] {
        assert_eq!(read(text), Err(error), "{text:?}");
        assert!(error.to_string().contains("http://HOST:4318") && !error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn any_octets_are_an_answer_or_none() {
    let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nRetry-After: 7\r\n\r\n{}";
    for length in 0..=whole.len() {
        let read = read_answer(&whole[..length]).unwrap();
        assert_eq!(read.is_some(), length >= whole.len() - 2, "{length}");
    }
    let (head, body) = read_answer(whole).unwrap().unwrap();
    assert_eq!((head.status, head.length, head.after, body), (200, 2, Some(Duration::from_secs(7)), &b"{}"[..]));
    assert!(matches!(read_answer(b"SSH-2.0\r\n"), Err(NotTaken::Foreign)));
    let taken = |body: &[u8]| Head { status: 200, reason: String::new(), length: 0, after: None }.taken(body);
    for body in
        [&b""[..], b"{}", b"{\"partialSuccess\":{}}", b"\xff", b"{\"partialSuccess\":{\"rejectedDataPoints\":\"0\"}}"]
    {
        assert!(taken(body).is_ok(), "{body:?}");
    }
    let refused = taken(b"{\"partialSuccess\":{\"rejectedDataPoints\":\"3\",\"errorMessage\":\"a\\nb\"}}").unwrap_err();
    assert_eq!(refused.to_string(), "it refuses 3 of the numbers: \"a\\nb\"");
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

/// A receiver that answers a request after the other with these, and what it was sent.
fn receiver(answers: Vec<&'static str>) -> (Collector, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (sender, sent) = mpsc::channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut piece) = (Vec::new(), [0; 4096]);
            while !request.ends_with(b"}]}]}") {
                let count = stream.read(&mut piece).unwrap();
                assert!(count > 0, "the request ends early");
                request.extend_from_slice(&piece[..count]);
            }
            let _ = sender.send(String::from_utf8(request).unwrap());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (collector, sent)
}

fn numbers() -> Numbers {
    let registry = crate::registry(["1.2.3"]);
    Box::new(move |format| crate::expose(&registry, format))
}

/// Sends them each `every`; and the lines that are said.
fn feed(collector: Collector, every: Duration, patience: Duration) -> (CollectorFeed, Receiver<String>) {
    let (say, said) = mpsc::channel();
    let feed = CollectorFeed::at_pace(collector, numbers(), (every, patience), move |line| {
        let _ = say.send(line.to_owned());
    });
    (feed.unwrap(), said)
}

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(1);

#[test]
fn numbers_are_sent_at_once_and_at_the_end() {
    let (collector, sent) = receiver(vec![OK, OK]);
    let (feed, said) = feed(collector, LONG, LONG);
    let first = sent.recv().unwrap();
    let (head, body) = first.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\nHost: 127.0.0.1:"), "{head}");
    assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    assert!(body.contains("paceline_build_info"), "{body}");
    drop(feed);
    assert!(sent.recv().unwrap().contains("paceline_build_info"));
    assert_eq!(said.try_iter().count(), 0);
}

#[test]
fn a_collector_that_refuses_is_told_of_once_and_tried_again() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    let (collector, sent) = receiver(vec![busy, busy, "no HTTP\r\n\r\n", OK, OK, OK]);
    let (feed, said) = feed(collector.clone(), SHORT, LONG);
    let first = said.recv().unwrap();
    assert_eq!(
        first,
        format!("{collector}: it answers 503 Service Unavailable; it is tried again, and nothing else waits for it")
    );
    let second = said.recv().unwrap();
    assert_eq!(second, format!("{collector}: it takes the numbers again, with what it missed (3 requests)"));
    (0..5).for_each(|_| drop(sent.recv().unwrap()));
    drop(feed);
}

#[test]
fn a_collector_that_is_absent_or_never_answers_stops_nothing() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (absent, said) = feed(format!("http://{closed}").parse().unwrap(), LONG, LONG);
    assert!(said.recv().unwrap().contains("refused"));
    drop(absent);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (slow, said) = feed(format!("http://{}", silent.local_addr().unwrap()).parse().unwrap(), LONG, SHORT * 20);
    assert!(said.recv().unwrap().contains("no answer within 20 ms"));
    drop(slow);
}

#[test]
fn an_answer_that_comes_drop_by_drop_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let enough = Arc::new(AtomicBool::new(false));
    let until = enough.clone();
    let drips = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 200 ").unwrap();
        // Each octet in time, all of them not.
        while !until.load(Ordering::Relaxed) && stream.write_all(b"O").is_ok() {
            thread::sleep(SHORT);
        }
    });
    let (feed, said) = feed(collector, LONG, SHORT * 50);
    assert!(said.recv().unwrap().contains("no answer within 50 ms"));
    enough.store(true, Ordering::Relaxed);
    drop(feed);
    drips.join().unwrap();
}
