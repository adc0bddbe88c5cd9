//! A transfer with a stranger: its bytes in two pieces mean what they do in one, at the server and at the client; a message that is
//! read is written again byte by byte as it was; a breach is one line. A token's text is one token's; a proof is good for names of its scope until it
//! expires, for one nonce, and for no other request. The first byte of the input says where it is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_alcc::transfer::token::{Key, Token};
use paceline_alcc::transfer::{Answer, Breach, Client, Heard, Kind, News, Request, Server, Status};

/// What was received in short, the object's bytes, and how it ended.
type Story = (Vec<String>, Vec<u8>, Result<(), Breach>);

fn serve(pieces: &[&[u8]]) -> Story {
    let (mut story, mut object, mut server) = (Vec::new(), Vec::new(), Server::new([7; 16]));
    for piece in pieces {
        let mut input = *piece;
        loop {
            match server.read(&mut input) {
                Ok(Some(Heard::Request(request))) => {
                    let key = Key::new(&[1; 32]);
                    // A stranger has no proof.
                    assert!(server.check(&key, &request, 0).is_err());
                    story.push(format!("{request:?}"));
                    let answer = Answer::go(request.size / 2);
                    if server.answer(&answer, &mut Vec::new()).is_err() {
                        return (story, object, Err(Breach::Beyond));
                    }
                }
                Ok(Some(Heard::Bytes(bytes))) => object.extend_from_slice(bytes),
                Ok(Some(Heard::Whole(hash))) => story.push(format!("{hash:?}")),
                Ok(None) => break,
                Err(breach) => return (story, object, Err(breach)),
            }
        }
        assert!(input.is_empty());
    }
    (story, object, Ok(()))
}

fn ask(request: &Request, pieces: &[&[u8]]) -> Story {
    let (mut story, mut object, mut client) = (Vec::new(), Vec::new(), Client::new(request.clone(), None));
    for piece in pieces {
        let mut input = *piece;
        loop {
            match client.read(&mut input, &mut Vec::new()) {
                Ok(Some(News::Bytes(bytes))) => object.extend_from_slice(bytes),
                Ok(Some(news)) => story.push(format!("{news:?}")),
                Ok(None) => break,
                Err(breach) => return (story, object, Err(breach)),
            }
        }
        assert!(input.is_empty());
    }
    (story, object, Ok(()))
}

/// A token of a scope and an end, and a request of it that a host on the way changes.
fn proofs(bytes: &[u8]) {
    let [cut, expiry, now, changed, place, text @ ..] = bytes else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let cut = text.floor_char_boundary(usize::from(*cut));
    let (scope, name) = text.split_at(cut);
    let key = Key::new(&[1; 32]);
    let Ok(token) = key.token(u64::from(*expiry), scope) else { return };
    // Half of the names are of the scope.
    let name = if changed & 1 == 0 { text } else { name };
    let mut request = Request { size: 100, ..Request::new(Kind::Put, name) };
    token.sign(&mut request, &[7; 16]);
    let good = name.starts_with(scope) && (*expiry == 0 || now < expiry);
    assert_eq!(key.check(&request, &[7; 16], u64::from(*now)).is_ok(), good);
    assert!(key.check(&request, &[8; 16], u64::from(*now)).is_err());
    let mut written = Vec::new();
    if request.write(&mut written).is_err() {
        return;
    }
    let place = usize::from(*place) % written.len();
    written[place] ^= changed | 1;
    if let Ok(Some((other, _))) = Request::read(&written) {
        assert!(key.check(&other, &[7; 16], u64::from(*now)).is_err(), "{request:?} became {other:?}");
    }
}

fuzz_target!(|bytes: &[u8]| {
    proofs(bytes);
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let (first, second) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let one_line = |story: &Story| {
        if let Err(breach) = &story.2 {
            assert!(!breach.to_string().contains('\n'));
        }
    };
    let story = serve(&[bytes]);
    one_line(&story);
    assert_eq!(serve(&[first, second]), story);
    let put = Request { size: 100, ..Request::new(Kind::Put, "name") };
    let get = Request { offset: 3, ..Request::new(Kind::Get, "name") };
    for request in [put, get, Request::new(Kind::Stat, "name"), Request { size: 9, ..Request::new(Kind::Generate, "") }]
    {
        let story = ask(&request, &[bytes]);
        one_line(&story);
        assert_eq!(ask(&request, &[first, second]), story);
    }
    if let Ok(Some((request, took))) = Request::read(bytes) {
        let mut again = Vec::new();
        request.write(&mut again).expect("it was read");
        assert_eq!(again, bytes[..took]);
    }
    if let Ok(Some((answer, took))) = Answer::read(bytes) {
        let mut again = Vec::new();
        answer.write(&mut again).expect("it was read");
        assert_eq!(again, bytes[..took]);
        assert!(!answer.message.chars().any(char::is_control));
    }
    let text = String::from_utf8_lossy(bytes);
    assert!(Answer::no(Status::Refused, 0, &text).write(&mut Vec::new()).is_ok());
    if let Ok(token) = text.parse::<Token>() {
        assert_eq!(token.to_string(), text);
    }
});
