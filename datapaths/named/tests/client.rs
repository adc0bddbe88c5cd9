//! Objects over loopback: whole, in parts, from several sources, after what interrupts.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::channel;
use std::time::Duration;

use paceline_cc::Rate;
use paceline_icn::name::NameKind;
use paceline_icn::wire::{DATA_HEAD, UnitHead, UnitRequest};
use paceline_icn::{Name, UNIT};
use paceline_named::client::{FetchError, Reader, fetch_blocking, fetch_to_file};

use crate::place::{Shop, content, options};

/// All that a reader has.
fn read(reader: &mut Reader) -> Result<Vec<u8>, FetchError> {
    let mut all = Vec::new();
    while let Some(bytes) = reader.chunk_blocking()? {
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

#[test]
fn an_object_of_fifty_megabytes_is_the_same_at_the_other_end() {
    let shop = Shop::new();
    let bytes = content(50_000_001);
    let name = shop.publish(&bytes);
    let server = shop.serve();
    let out = shop.path("out");
    let (sender, progress) = channel();
    let mut options = options();
    options.progress = Some(Box::new(move |progress| sender.send(*progress).unwrap()));
    let done = fetch_to_file(&name, &[server.address()], 0..u64::MAX, &out, options).unwrap();
    assert!(fs::read(&out).unwrap() == bytes, "the file is another");
    assert_eq!((done.bytes, done.resumed, done.manifest.length), (50_000_001, 0, 50_000_001));
    assert!(!shop.path("out.paceline-part").exists() && !shop.path("out.paceline-part.units").exists());
    let last = progress.iter().last().unwrap();
    assert_eq!((last.bytes, last.of), (50_000_001, 50_000_001));
}

#[test]
fn ranges_and_ends() {
    let shop = Shop::new();
    let bytes = content(300_000);
    let name = shop.publish(&bytes);
    let server = shop.serve();
    let at = [server.address()];
    for range in [0..1, 1399..1401, 0..300_000, 299_999..300_000, 200_000..u64::MAX, 5..5] {
        let mut reader = fetch_blocking(&name, &at, range.clone(), options()).unwrap();
        assert_eq!(reader.manifest().length, 300_000);
        let wanted = range.start as usize..range.end.min(300_000) as usize;
        assert!(read(&mut reader).unwrap() == bytes[wanted], "{range:?}");
        assert!(reader.chunk_blocking().unwrap().is_none(), "the end stays");
    }
    let error = fetch_blocking(&name, &at, 300_000..u64::MAX, options()).unwrap_err().to_string();
    assert!(error.contains("begins at byte 300000") && error.contains("has 300000 bytes"), "{error}");
    let empty = shop.publish(b"");
    assert!(read(&mut fetch_blocking(&empty, &at, 0..u64::MAX, options()).unwrap()).unwrap().is_empty());
}

#[test]
fn what_no_source_has_and_sources_that_are_not_there_are_said_in_one_line() {
    let shop = Shop::new();
    let server = shop.serve();
    let unknown = Name::new(NameKind::Object, [1; 32]);
    let error = fetch_blocking(&unknown, &[server.address()], 0..u64::MAX, options()).unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let out = shop.path("out");
    let error = fetch_to_file(&unknown, &[closed], 0..u64::MAX, &out, options()).unwrap_err();
    assert!(error.is_silence() && !error.to_string().contains('\n'), "{error}");
    assert!(!out.exists() && !shop.path("out.paceline-part").exists(), "nothing is left");
    // Bound, and never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut options = options();
    options.patience = Duration::from_millis(300);
    let error = fetch_blocking(&unknown, &[silent.local_addr().unwrap()], 0..u64::MAX, options).unwrap_err();
    assert!(matches!(error, FetchError::Silent { .. }), "{error}");
    let error =
        fetch_to_file(&unknown, &[server.address()], 0..u64::MAX, shop.folder.path(), self::options()).unwrap_err();
    assert!(error.to_string().contains("is a folder"), "{error}");
}

#[test]
fn of_two_sources_one_may_die() {
    let shop = Shop::new();
    let bytes = content(8_000_000);
    let name = shop.publish(&bytes);
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    // Slow enough that the fetch is not over before one dies.
    let rate = Rate::from_bytes_per_sec(4_000_000);
    let (dies, stays) = (shop.serve_at(local, rate), shop.serve_at(local, rate));
    let mut reader = fetch_blocking(&name, &[dies.address(), stays.address()], 0..u64::MAX, options()).unwrap();
    let mut all = Vec::new();
    while all.len() < 2_000_000 {
        all.extend_from_slice(&reader.chunk_blocking().unwrap().unwrap());
    }
    drop(dies);
    all.extend(read(&mut reader).unwrap());
    assert!(all == bytes, "{} bytes", all.len());
    let stats = reader.stats().unwrap();
    assert_eq!(stats.sources.len(), 2);
    assert!(stats.sources.iter().all(|source| source.requests > 0), "{stats:?}");
}

#[test]
fn a_source_that_never_answers_does_not_hold_up_one_that_does() {
    let shop = Shop::new();
    let bytes = content(60_000);
    let name = shop.publish(&bytes);
    let server = shop.serve();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (dead, alive) = (silent.local_addr().unwrap(), server.address());
    for sources in [vec![dead, alive], vec![alive, dead], vec![dead, dead, alive]] {
        // The first timeout of a source is a second: a machine that stands still may take as long, but not each time.
        let fast = (0..10).any(|_| {
            let mut reader = fetch_blocking(&name, &sources, 0..u64::MAX, options()).unwrap();
            assert!(read(&mut reader).unwrap() == bytes);
            reader.stats().unwrap().sources.iter().all(|source| source.flow.timeouts == 0)
        });
        assert!(fast, "{sources:?}: it waited for one that is dead each time");
    }
}

#[test]
fn a_reader_who_pauses_pauses_the_router() {
    let shop = Shop::new();
    let bytes = content(6_000_000);
    let name = shop.publish(&bytes);
    let server = shop.serve();
    let mut options = options();
    options.receive_buffer = 400_000;
    let mut reader = fetch_blocking(&name, &[server.address()], 0..u64::MAX, options).unwrap();
    let mut all = reader.chunk_blocking().unwrap().unwrap().to_vec();
    // Until nothing more is sent.
    let mut before = 0;
    let sent = loop {
        std::thread::sleep(Duration::from_millis(500));
        let sent = server.counts().sent_bytes;
        if sent == before {
            break sent;
        }
        before = sent;
    };
    assert!((1400..1_200_000).contains(&sent), "{sent} bytes for a buffer of 400 kB");
    all.extend(read(&mut reader).unwrap());
    assert!(all == bytes);
}

#[test]
fn forged_corrupt_and_repeated_units_are_not_delivered() {
    let shop = Shop::new();
    let bytes = content(400_000);
    let name = shop.publish(&bytes);
    let stored = shop.store.object(&name).unwrap().unwrap();
    // A source that answers all asked for thrice, with a corrupt copy, a stranger's nonce and garbage between.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let Ok(request) = UnitRequest::decode(&buffer[..length]) else { return };
            for unit in request.ranges.iter() {
                let length = stored.bytes_of(unit);
                if length == 0 {
                    continue;
                }
                let head = |nonce| {
                    let stored_units = Some(stored.stored_units());
                    UnitHead { nonce, unit, stored_units, waited: paceline_cc::Nanos::ZERO, app_limited: false }
                        .encode_head()
                };
                let mut genuine = head(request.nonce).to_vec();
                let mut payload = [0; UNIT];
                stored.read(unit, &mut payload).unwrap();
                genuine.extend_from_slice(&payload[..length]);
                let mut corrupt = genuine.clone();
                *corrupt.last_mut().unwrap() ^= 1;
                let mut foreign = head(request.nonce ^ 1).to_vec();
                foreign.extend_from_slice(&corrupt[DATA_HEAD..]);
                // One corrupt copy in a hundred comes first.
                let first = if unit % 100 == 99 { vec![&corrupt] } else { vec![] };
                for message in first.into_iter().chain([&foreign, &genuine, &genuine, &corrupt]) {
                    let _ = socket.send_to(message, from);
                }
                let _ = socket.send_to(&[0x12, 0, 0], from);
            }
        }
    });
    let mut reader = fetch_blocking(&name, &[at], 0..u64::MAX, options()).unwrap();
    assert!(read(&mut reader).unwrap() == bytes);
    let stats = reader.stats().unwrap();
    assert!(stats.foreign_nonce > 0 && stats.malformed > 0 && stats.corrupt > 0, "{stats:?}");
    // No request: the end of the thread.
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[0], at).unwrap();
    serving.join().unwrap();
}

#[tokio::test]
async fn it_is_an_asynchronous_reader() {
    use tokio::io::AsyncReadExt;
    let shop = Shop::new();
    let bytes = content(1_000_000);
    let name = shop.publish(&bytes);
    let server = shop.serve();
    let mut reader = paceline_named::client::fetch(&name, &[server.address()], 10..999_000, options()).await.unwrap();
    let mut all = vec![0; 777];
    reader.read_exact(&mut all).await.unwrap();
    reader.read_to_end(&mut all).await.unwrap();
    assert!(all == bytes[10..999_000]);
}
