//! A server and its client in one process.
#![cfg(target_os = "linux")]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;

use paceline_alcc::transfer::Status;
use paceline_alcc::transfer::token::Key;
use paceline_cc::{Nanos, Spec};
use paceline_transfer::{
    ClientError, Remote, TransferObserver, UploadEvent, UploadOptions, UploadServeError, UploadServer, now, random,
};

const LOOPBACK: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

fn spec(text: &str) -> Spec {
    text.parse().unwrap()
}

/// Keeps what it saw last.
#[derive(Default)]
struct Seen {
    moved: Option<(u64, Option<u64>)>,
    rtts: Vec<Nanos>,
}

impl TransferObserver for Seen {
    fn moved(&mut self, bytes: u64, of: Option<u64>) {
        self.moved = Some((bytes, of));
    }

    fn rtt(&mut self, sample: Nanos) {
        self.rtts.push(sample);
    }
}

#[test]
fn a_file_goes_up_with_a_token_and_comes_back() {
    let lab = tempfile::tempdir().unwrap();
    let at = |name: &str| lab.path().join(name);
    let content: Vec<u8> = (0..300_001_u32).map(|number| number.wrapping_mul(2_654_435_761) as u8).collect();
    fs::write(at("movie"), &content).unwrap();
    let secret = random().unwrap();
    let (ended, copa) = (Arc::new(Mutex::new(Vec::new())), spec("copa"));
    let sessions = Arc::clone(&ended);
    let options = UploadOptions {
        dir: Some(at("kept")),
        key: Some(Key::new(&secret)),
        report: Arc::new(move |event| match event {
            UploadEvent::Ended(session) => {
                let kind = session.request.as_ref().map(|request| request.kind.word());
                sessions.lock().unwrap().push((kind, session.status(), session.bytes));
            }
            other => panic!("{other:?}"),
        }),
        ..UploadOptions::new(copa.clone())
    };
    let stop = Arc::clone(&options.stop);
    let server = UploadServer::bind(LOOPBACK.into(), options).unwrap();
    let address = server.address().unwrap();
    let running = thread::spawn(move || server.run());

    let token = Key::new(&secret).token(now() + 600, "mov").unwrap();
    let remote = Remote { token: Some(token), ..Remote::new(address) };
    let mut seen = Seen::default();
    let sent = remote.send(&at("movie"), "movie", &spec("sprout"), &mut seen).unwrap();
    assert_eq!((sent.answer.status, sent.bytes, sent.resumed, sent.verified), (Status::Go, 300_001, 0, true));
    assert!(!seen.rtts.is_empty() && seen.moved.is_some_and(|(_, of)| of == Some(300_001)));
    assert!(fs::read(at("kept/movie")).unwrap() == content);
    // The same again moves it, and changes nothing: it is there.
    assert!(remote.send(&at("movie"), "movie", &copa, &mut ()).unwrap().verified);

    assert_eq!(remote.stat("movie", &copa).unwrap().answer.number, 300_001);
    let got = remote.fetch("movie", &at("back"), &copa, &mut ()).unwrap();
    assert!(got.verified && fs::read(at("back")).unwrap() == content);
    assert_eq!(remote.send_zeros(Some(1000), None, &copa, &mut ()).unwrap().bytes, 1000);
    assert_eq!(remote.fetch_zeros(1000, &copa, &mut ()).unwrap().bytes, 1000);

    let stranger = Remote::new(address);
    let refused = stranger.fetch("movie", &at("none"), &copa, &mut ()).unwrap();
    assert_eq!((refused.answer.status, refused.verified), (Status::Refused, false));
    assert!(!at("none").exists());
    assert_eq!(remote.send(&at("movie"), "other", &copa, &mut ()).unwrap().answer.status, Status::Refused);
    assert!(matches!(remote.send(&at("nothing"), "mov", &copa, &mut ()), Err(ClientError::Unopened { .. })));

    stop.store(true, Ordering::Relaxed);
    running.join().unwrap();
    let ended = ended.lock().unwrap();
    let done = ended.iter().filter(|(_, status, _)| *status == "done").count();
    assert_eq!((ended.len(), done), (8, 6), "{ended:?}");
}

#[test]
fn a_server_says_why_it_cannot_be() {
    let lab = tempfile::tempdir().unwrap();
    fs::write(lab.path().join("file"), "").unwrap();
    let cannot = |options: UploadOptions| UploadServer::bind(LOOPBACK.into(), options).err().unwrap();
    let sprout = cannot(UploadOptions::new(spec("sprout")));
    assert!(matches!(sprout, UploadServeError::ReceiverHalf), "{sprout}");
    let no_folder = cannot(UploadOptions { dir: Some(lab.path().join("file")), ..UploadOptions::new(spec("copa")) });
    assert!(matches!(no_folder, UploadServeError::Folder(_)), "{no_folder}");
    let taken = std::net::TcpListener::bind(SocketAddr::from(LOOPBACK)).unwrap();
    let address = taken.local_addr().unwrap();
    let in_use = UploadServer::bind(address, UploadOptions::new(spec("copa"))).err().unwrap();
    assert_eq!(in_use.to_string(), format!("{address}: cannot listen there"));
}
