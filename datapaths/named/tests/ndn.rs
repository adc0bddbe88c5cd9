//! Objects of NDN through the gateway: from a producer of our own, and from NDNd, NFD where they are installed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use paceline_fixture::until;
use paceline_icn::ndn::{ContentKind, Interest, NdnName, Produced, Signature, frame_length};
use paceline_named::ndn::{Forwarder, NdnError, fetch_blocking};

use crate::gateway::{ask, start, start_with};
use crate::place::{Shop, content, options};

fn name(text: &str) -> NdnName {
    text.parse().unwrap()
}

/// What stands in for a forwarder and its producers.
struct Stand {
    objects: Vec<(NdnName, Vec<u8>)>,
    signature: Signature,
    /// Every packet of this number is lost.
    lost: u64,
    answered: AtomicU64,
}

impl Stand {
    fn new(objects: &[(&str, &[u8])]) -> Self {
        let objects = objects.iter().map(|(object, bytes)| (name(object), bytes.to_vec())).collect();
        Self { objects, signature: Signature::Digest, lost: 0, answered: AtomicU64::new(0) }
    }

    /// Answers an Interest, as a packet of a link.
    fn answer(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let interest = Interest::decode(packet).unwrap();
        let count = self.answered.fetch_add(1, Ordering::Relaxed);
        if self.lost > 0 && count % self.lost == 3 {
            return None;
        }
        let mut out = Vec::new();
        for (object, bytes) in &self.objects {
            let asked = interest.name.to_string();
            let base = object.to_string();
            if asked == format!("{}/32=metadata", base.rsplit_once('/').unwrap().0) {
                let mut named = Vec::new();
                let own = Interest { name: object.clone(), ..interest.clone() };
                own.encode(&mut named);
                let named = &named[2..4 + usize::from(named[3])];
                let metadata = interest.name.segment(0);
                Produced { signature: self.signature, ..Produced::new(metadata, named) }.encode(&mut out);
                return Some(out);
            }
            let last = bytes.len().div_ceil(SEGMENT).max(1) as u64 - 1;
            let number = asked.strip_prefix(&format!("{base}/seg=")).and_then(|number| number.parse::<u64>().ok());
            if let Some(number) = number.filter(|number| *number <= last) {
                let begin = number as usize * SEGMENT;
                let part = &bytes[begin..bytes.len().min(begin + SEGMENT)];
                let data = Produced::new(interest.name.clone(), part);
                Produced { last: Some(last), signature: self.signature, ..data }.encode(&mut out);
                return Some(out);
            }
        }
        // Nack, NoRoute.
        let length = packet.len() as u8;
        out.extend([100, length + 11, 253, 3, 32, 5, 253, 3, 33, 1, 150, 80, length]);
        out.extend(packet);
        Some(out)
    }
}

/// Bytes of a segment: what `ndnputchunks` has.
const SEGMENT: usize = 8000;

/// A stand-in that runs.
struct Running {
    at: Forwarder,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Answers over UDP.
fn over_udp(mut answer: impl FnMut(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> Running {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let at = format!("udp://{}", socket.local_addr().unwrap()).parse().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let thread = thread::spawn(move || {
        let mut packet = [0; 9000];
        while !stopped.load(Ordering::Relaxed) {
            if let Ok((length, from)) = socket.recv_from(&mut packet)
                && let Some(answer) = answer(&packet[..length])
            {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    Running { at, stop, thread: Some(thread) }
}

/// Whichever of its packets are lost: what is asked for behind the end before that is known comes back without a route.
#[test]
fn the_end_of_an_object_is_found_whatever_is_lost() {
    let shop = Shop::new();
    let server = shop.serve();
    for first in 0..20 {
        let mut stand = Stand::new(&[("/example/one.txt/v=1", b"one packet")]);
        (stand.lost, stand.answered) = (20, AtomicU64::new(first));
        let running = over_udp(move |packet| stand.answer(packet));
        let gateway = start_with(vec![server.address()], Some(running.at), Duration::from_secs(20));
        let (status, head, body) = ask(gateway.address, "GET", "/ndn/example/one.txt", "");
        assert!(status == 200 && body == b"one packet", "{first}: {head}");
    }
}

/// Ends a connection where one is given up after so many answers.
fn over_tcp(stand: Stand, ends_after: u64) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = format!("tcp://{}", listener.local_addr().unwrap()).parse().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let thread = thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => serve_stream(&stand, stream, ends_after, &stopped),
                Err(_) => thread::sleep(Duration::from_millis(2)),
            }
        }
    });
    Running { at, stop, thread: Some(thread) }
}

fn serve_stream(stand: &Stand, mut stream: TcpStream, ends_after: u64, stopped: &AtomicBool) {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (mut came, mut buffer) = (Vec::new(), [0; 4096]);
    while !stopped.load(Ordering::Relaxed) && stand.answered.load(Ordering::Relaxed) < ends_after {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => came.extend_from_slice(&buffer[..count]),
            Err(_) => continue,
        }
        while let Some(length) = frame_length(&came).unwrap().filter(|length| *length <= came.len()) {
            let packet: Vec<u8> = came.drain(..length).collect();
            if let Some(answer) = stand.answer(&packet)
                && stream.write_all(&answer).is_err()
            {
                return;
            }
        }
    }
}

#[test]
fn one_gateway_serves_names_of_both_kinds() {
    let shop = Shop::new();
    let ours = shop.publish(b"ours");
    let server = shop.serve();
    let bytes = content(1_000_001);
    let mut stand = Stand::new(&[("/example/film.mp4/v=7", &bytes), ("/example/one.txt/v=1", b"one packet")]);
    stand.lost = 20;
    let running = over_udp(move |packet| stand.answer(packet));
    let gateway = start_with(vec![server.address()], Some(running.at), Duration::from_secs(20));

    assert_eq!(ask(gateway.address, "GET", &format!("/{ours}"), "").2, b"ours");
    for path in ["/ndn/example/film.mp4", "/ndn/example/film.mp4/v=7"] {
        let (status, head, body) = ask(gateway.address, "GET", path, "");
        assert_eq!(status, 200, "{head}");
        assert!(unchunked(&body) == bytes, "{path}");
        for line in [
            "ndn-name: /example/film.mp4/v=7\r\n",
            "ndn-signature: digest-sha256, checked\r\n",
            "content-type: video/mp4\r\n",
            "transfer-encoding: chunked\r\n",
            "content-security-policy: sandbox\r\n",
            "accept-ranges: none\r\n",
        ] {
            assert!(head.contains(line), "{line} in {head}");
        }
    }
    let (status, head, body) = ask(gateway.address, "GET", "/ndn/example/one.txt/", "");
    assert!(status == 200 && body == b"one packet" && head.contains("content-length: 10\r\n"), "{head}");
    let (status, head, body) = ask(gateway.address, "HEAD", "/ndn/example/one.txt", "");
    assert!(status == 200 && body.is_empty() && head.contains("content-length: 10\r\n"), "{head}");

    for (path, expected, says) in [
        ("/ndn", 404, "/ndn/NAME"),
        ("/ndn/", 404, "/ndn/NAME"),
        ("/ndn/a//b", 404, "not a name of NDN"),
        ("/ndn/nowhere", 404, "NoRoute"),
        ("/ndnx", 404, "not a name"),
    ] {
        let (status, head, body) = ask(gateway.address, "GET", path, "");
        let body = String::from_utf8(body).unwrap();
        assert!(status == expected && body.contains(says), "{path}: {head}{body}");
    }
    assert_eq!(ask(gateway.address, "POST", "/ndn/example/one.txt", "").0, 405);
    drop(running);
    let without = start(vec![server.address()], Duration::from_secs(20));
    let (status, _, body) = ask(without.address, "GET", "/ndn/example/one.txt", "");
    assert!(status == 404 && String::from_utf8(body).unwrap().contains("--ndn"));
}

/// The bytes of a body in chunks.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").expect("a chunk's head");
        let length = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return bytes;
        }
        bytes.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 4 + length..];
    }
}

#[test]
fn a_stream_serves_as_datagrams_do_and_its_end_is_an_error() {
    let bytes = content(3_000_000);
    let object = [("/a/b/v=1", bytes.as_slice())];
    let mut stand = Stand::new(&object);
    stand.signature = Signature::Unchecked(3);
    let running = over_tcp(stand, u64::MAX);
    let mut reader = fetch_blocking(running.at, &name("/a/b"), options()).unwrap();
    assert_eq!((&reader.opened().name, reader.opened().signature), (&name("/a/b/v=1"), Signature::Unchecked(3)));
    assert_eq!(reader.opened().signature.to_string(), "sha256-with-ecdsa, not checked");
    let mut came = Vec::new();
    while let Some(chunk) = reader.chunk_blocking().unwrap() {
        came.extend_from_slice(&chunk);
    }
    assert!(came == bytes);
    assert_eq!(reader.stats().unwrap().refused, 0);
    drop(running);

    let running = over_tcp(Stand::new(&object), 100);
    let mut reader = fetch_blocking(running.at, &name("/a/b"), options()).unwrap();
    let error = loop {
        match reader.chunk_blocking() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended early"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, NdnError::Refused(_)), "{error}");
    assert!(matches!(reader.chunk_blocking(), Ok(None)));
}

#[test]
fn a_forwarder_that_is_not_there_is_said() {
    for way in ["udp", "tcp"] {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at: SocketAddr = socket.local_addr().unwrap();
        drop(socket);
        let forwarder = format!("{way}://{at}").parse().unwrap();
        let error = fetch_blocking(forwarder, &name("/a"), options()).unwrap_err();
        assert!(error.is_silence() && error.to_string().contains("is NFD or NDNd running"), "{error}");
    }
}

#[test]
fn what_ends_in_the_middle_is_not_taken_for_whole() {
    let bytes = content(3_000_000);
    let base = name("/a/v=1");
    let running = over_udp(move |packet| {
        let asked = Interest::decode(packet).unwrap().name;
        let number = (0..375).find(|number| base.segment(*number) == asked).unwrap();
        let part = &bytes[number as usize * SEGMENT..][..SEGMENT];
        let kind = if number == 200 { ContentKind::Nack } else { ContentKind::Blob };
        let mut out = Vec::new();
        Produced { last: Some(374), kind, ..Produced::new(asked, part) }.encode(&mut out);
        Some(out)
    });
    let gateway = start_with(vec![], Some(running.at), Duration::from_secs(20));
    let (status, head, body) = ask(gateway.address, "GET", "/ndn/a/v=1", "");
    assert!(status == 200 && head.contains("chunked"), "{head}");
    assert!(body.len() < 2_000_000 && !body.ends_with(b"0\r\n\r\n"), "{}", body.len());
}

/// A program that ends with its test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// NDNd: in PATH, or where `NDND` says.
fn ndnd() -> Option<PathBuf> {
    let named = std::env::var_os("NDND").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    named.or_else(|| std::env::split_paths(&paths).map(|path| path.join("ndnd")).find(|path| path.is_file()))
}

#[test]
fn an_object_of_ndnd_comes_over_udp_and_tcp() {
    let Some(ndnd) = ndnd() else {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: an_object_of_ndnd_comes_over_udp_and_tcp: it needs ndnd");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nfd.sock");
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (udp, tcp) = (free(), free());
    let config = format!(
        "faces:\n  udp:\n    enabled_unicast: true\n    enabled_multicast: false\n    port_unicast: {udp}\n  tcp:\n    enabled: true\n    \
         port_unicast: {tcp}\n  unix:\n    enabled: true\n    socket_path: {}\n  websocket:\n    enabled: false\nfw:\n  threads: 1\n",
        socket.display()
    );
    let file = folder.path().join("yanfd.yml");
    std::fs::write(&file, config).unwrap();
    let log =
        || Stdio::from(std::fs::File::options().create(true).append(true).open(folder.path().join("log")).unwrap());
    let words = |words: &[&str]| {
        let mut command = Command::new(&ndnd);
        command.args(words).env("NDN_CLIENT_TRANSPORT", format!("unix://{}", socket.display()));
        command.stdout(log()).stderr(log());
        command
    };
    let _forwarder = Program(words(&["fw", "run", file.to_str().unwrap()]).spawn().unwrap());
    until("NDNd's socket", || socket.exists());
    let bytes = content(2_000_003);
    let mut put = words(&["put", "/example/film"]).stdin(Stdio::piped()).spawn().unwrap();
    put.stdin.take().unwrap().write_all(&bytes).unwrap();
    let _put = Program(put);
    // What is announced has been cut.
    until("a route to the producer", || {
        let routes = words(&["fw", "route-list"]).stdout(Stdio::piped()).output().unwrap();
        String::from_utf8_lossy(&routes.stdout).contains("/example/film")
    });
    for (way, port) in [("udp", udp), ("tcp", tcp)] {
        let forwarder: Forwarder = format!("{way}://127.0.0.1:{port}").parse().unwrap();
        let mut reader = fetch_blocking(forwarder, &name("/example/film"), options()).unwrap();
        let mut came = Vec::new();
        while let Some(chunk) = reader.chunk_blocking().unwrap() {
            came.extend_from_slice(&chunk);
        }
        let said = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(came == bytes, "{way}: {} of {} bytes\n{said}", came.len(), bytes.len());
        assert!(reader.opened().name.to_string().starts_with("/example/film/v="), "{:?}", reader.opened());
    }
}
