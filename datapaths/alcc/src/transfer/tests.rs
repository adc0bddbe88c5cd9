//! Whatever is written is read again, in whatever pieces it comes; no bit of a request can be changed without its proof failing.

use proptest::collection::vec;
use proptest::prelude::*;

use super::token::{Denied, Key, Token, TokenError};
use super::*;
use crate::frame::LIMIT;

fn counted<const N: usize>(from: u8) -> [u8; N] {
    std::array::from_fn(|at| from + at as u8)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn put() -> Request {
    Request { size: 70_000, id: counted(0x60), ..Request::new(Kind::Put, "photo-1.jpg") }
}

const TOKEN: &str = "plt1.1800000000.cGhvdG8.yERfYjOyyF-DsFEsgpHtFoLZeQ2As1EOwuNu5bkZACk";
const REQUEST: &str = "4051010b70686f746f2d312e6a706780011170606162636465666768696a6b6c6d6e6f0000c00000006b49d2000570686f746f\
                       365c829b117f7261818bf45751c652200c744291e1778f363a768f41080f9ff6";

/// `docs/design/transfer-wire.md` has it; made by another program.
#[test]
fn the_known_answer() {
    let token = Key::new(&counted(0)).token(1_800_000_000, "photo").unwrap();
    assert_eq!(token.to_string(), TOKEN);
    let (mut request, mut wire) = (put(), Vec::new());
    token.sign(&mut request, &counted(0x40));
    request.write(&mut wire).unwrap();
    assert_eq!(hex(&wire), REQUEST);
    let (mut client, mut out) = (Client::new(put(), Some(TOKEN.parse().unwrap())), Vec::new());
    let mut greeting = Vec::new();
    Server::new(counted(0x40)).greet(&mut greeting);
    assert_eq!(hex(&greeting), "504c5401404142434445464748494a4b4c4d4e4f");
    assert_eq!(client.read(&mut greeting.as_slice(), &mut out), Ok(None));
    assert_eq!(out, wire);
}

#[test]
fn who_may_and_who_may_not() {
    let (key, nonce) = (Key::new(&counted(0)), counted(0x40));
    let token = key.token(1000, "photo").unwrap();
    let signed = |request: Request, token: &Token| {
        let mut request = request;
        token.sign(&mut request, &nonce);
        request
    };
    let good = signed(put(), &token);
    assert_eq!(key.check(&good, &nonce, 999), Ok(()));
    assert_eq!(key.check(&good, &nonce, 1000), Err(Denied::Expired));
    // As it was on another connection; by the token of another server; without any.
    assert_eq!(key.check(&good, &counted(0x41), 999), Err(Denied::Token));
    let other = Key::new(&counted(1)).token(1000, "photo").unwrap();
    assert_eq!(key.check(&signed(put(), &other), &nonce, 999), Err(Denied::Token));
    assert_eq!(key.check(&put(), &nonce, 999), Err(Denied::Token));
    // A longer life, a wider scope.
    assert_eq!(key.check(&Request { expiry: 0, ..good.clone() }, &nonce, 999), Err(Denied::Token));
    assert_eq!(key.check(&Request { scope: String::new(), ..good }, &nonce, 999), Err(Denied::Token));
    for kind in [Kind::Put, Kind::Get, Kind::Stat] {
        let elsewhere = signed(Request::new(kind, "film.mp4"), &token);
        assert_eq!(key.check(&elsewhere, &nonce, 999), Err(Denied::Scope("photo".to_owned())));
    }
    assert_eq!(key.check(&signed(Request::new(Kind::Discard, ""), &token), &nonce, 999), Ok(()));
    let endless = key.token(0, "").unwrap();
    assert_eq!(key.check(&signed(put(), &endless), &nonce, u64::MAX), Ok(()));
    assert_eq!(key.token(0, &"x".repeat(65)), Err(TokenError::Scope));
}

#[test]
fn a_token_is_one_text() {
    let good: Token = TOKEN.parse().unwrap();
    assert_eq!((good.expiry(), good.scope()), (1_800_000_000, "photo"));
    let shown = format!("{good:?}");
    assert!(!shown.contains("yERf") && !shown.contains("200"), "no secret in {shown}");
    let secret = TOKEN.rsplit('.').next().unwrap();
    for text in [
        "",
        "plt1",
        "plt2.0..AAAA",
        &TOKEN[1..],
        &TOKEN[..TOKEN.len() - 1],
        &format!("{TOKEN}A"),
        &format!("{TOKEN}="),
        &format!("{TOKEN}.x"),
        &format!("plt1.+5..{secret}"),
        &format!("plt1.05..{secret}"),
        &format!("plt1.{LIMIT}..{secret}"),
        // The last digit has bits that stand for nothing.
        &format!("plt1.0..{}l", &secret[..42]),
        &format!("plt1.0._w.{secret}"),
    ] {
        assert_eq!(text.parse::<Token>(), Err(TokenError::Form), "{text}");
    }
    assert_eq!(format!("plt1.0.Cg.{secret}").parse::<Token>(), Err(TokenError::Scope));
}

/// Feeds `wire` in pieces of `size`; says the story, in which runs of bytes are one.
fn served(wire: &[u8], size: usize, held: u64) -> (Vec<String>, Vec<u8>, Result<(), Breach>) {
    let (mut server, mut story, mut object) = (Server::new(counted(0)), Vec::new(), Vec::new());
    for piece in wire.chunks(size) {
        let mut input = piece;
        loop {
            match server.read(&mut input) {
                Ok(None) => break,
                Ok(Some(Heard::Bytes(bytes))) => object.extend_from_slice(bytes),
                Ok(Some(Heard::Whole(hash))) => story.push(format!("whole {hash:?}")),
                Ok(Some(Heard::Request(request))) => {
                    story.push(format!("{request:?}"));
                    server.answer(&Answer::go(held), &mut Vec::new()).unwrap();
                }
                Err(breach) => return (story, object, Err(breach)),
            }
        }
        assert!(input.is_empty());
    }
    (story, object, Ok(()))
}

#[test]
fn a_put_goes_on_from_what_is_held_and_ends_with_its_hash() {
    let mut wire = Vec::new();
    Request { size: 10, ..put() }.write(&mut wire).unwrap();
    wire.extend_from_slice(b"defghij");
    wire.extend_from_slice(&[9; HASH]);
    let (story, object, end) = served(&wire, 1, 3);
    assert_eq!((story.len(), object.as_slice(), end), (2, &b"defghij"[..], Ok(())));
    assert_eq!(story[1], format!("whole {:?}", Some([9; HASH])));
    assert_eq!(served(&wire, 1000, 3).0, story);
    wire.push(0);
    assert_eq!(served(&wire, 1000, 3).2, Err(Breach::Beyond));
    let mut server = Server::new(counted(0));
    let mut input = wire.as_slice();
    assert!(matches!(server.read(&mut input), Ok(Some(Heard::Request(_)))));
    assert_eq!(server.answer(&Answer::go(11), &mut Vec::new()), Err(Breach::Number(11)));
    // Nothing is read before it is answered, and nothing after a refusal.
    assert_eq!((server.read(&mut input), input.len()), (Ok(None), 40));
    server.answer(&Answer::no(Status::NoRoom, 0, "no\nroom"), &mut Vec::new()).unwrap();
    assert_eq!(server.read(&mut input), Err(Breach::Beyond));
}

#[test]
fn a_client_knows_what_a_server_cannot_say() {
    let said = |request: &Request, answer: &Answer| {
        let mut wire = Vec::new();
        Server::new(counted(0)).greet(&mut wire);
        answer.write(&mut wire).unwrap();
        wire.extend_from_slice(b"abcde");
        let (mut client, mut input) = (Client::new(request.clone(), None), wire.as_slice());
        let first = client.read(&mut input, &mut Vec::new()).map(|news| format!("{news:?}"));
        let second = client.read(&mut input, &mut Vec::new()).map(|news| format!("{news:?}"));
        (first.is_ok(), first.and(second))
    };
    let get = Request { offset: 3, ..Request::new(Kind::Get, "a") };
    assert_eq!(said(&get, &Answer::go(8)).1, Ok("Some(Bytes([97, 98, 99, 100, 101]))".to_owned()));
    assert_eq!(said(&get, &Answer::go(2)), (false, Err(Breach::Number(2))));
    assert_eq!(said(&put(), &Answer::go(70_001)), (false, Err(Breach::Number(70_001))));
    assert_eq!(said(&Request::new(Kind::Stat, "a"), &Answer::go(1)), (true, Err(Breach::Beyond)));
    assert_eq!(said(&get, &Answer::no(Status::Busy, 0, "")), (true, Err(Breach::Beyond)));
    let mut web = &b"HTTP/1.1 400 Bad Request\r\n"[..];
    assert_eq!(Client::new(get, None).read(&mut web, &mut Vec::new()), Err(Breach::Greeting));
}

#[test]
fn what_has_no_meaning_is_refused() {
    let refused = |request: Request| request.write(&mut Vec::new());
    assert_eq!(refused(Request { size: 1, ..Request::new(Kind::Get, "a") }), Err(Breach::Unused("size")));
    assert_eq!(refused(Request { offset: 1, ..put() }), Err(Breach::Unused("offset")));
    assert_eq!(refused(Request { id: [1; NONCE], ..Request::new(Kind::Stat, "a") }), Err(Breach::Unused("id")));
    assert_eq!(refused(Request::new(Kind::Generate, "a")), Err(Breach::Unused("name")));
    assert_eq!(refused(Request::new(Kind::Stat, &"a".repeat(256))), Err(Breach::Text("name")));
    assert_eq!(Request::read(&[0x44, 0x01]), Err(Breach::Length(0x401)));
    assert_eq!(Request::read(&[0x40, 0x01, 1]), Err(Breach::Long("length of a request")));
    assert_eq!(Request::read(&[1, 6]), Err(Breach::Kind(6)));
    assert_eq!(Request::read(&[0]), Err(Breach::Length(0)));
    assert_eq!(Answer::read(&[7]), Err(Breach::Status(7)));
    assert_eq!(Answer::read(&[0, 0, 1, b'\n']), Err(Breach::Text("message")));
    let long = Answer::no(Status::Refused, 1, &"é\n".repeat(150));
    assert_eq!((long.message.len(), long.message.contains('\n')), (200, false));
}

fn request() -> impl Strategy<Value = Request> {
    let number = || prop_oneof![0..100_u64, 0..0x1_0000_u64, 0..LIMIT];
    let kind =
        prop_oneof![Just(Kind::Put), Just(Kind::Get), Just(Kind::Stat), Just(Kind::Discard), Just(Kind::Generate)];
    let texts = ("\\PC{0,60}", "[a-z:=0-9.]{0,128}", "\\PC{0,16}");
    (kind, texts, number(), number(), number(), any::<[u8; NONCE]>(), any::<[u8; HASH]>()).prop_map(
        |(kind, (name, half, scope), size, offset, expiry, id, proof)| Request {
            kind,
            name: if kind.has_name() { name } else { String::new() },
            size: if matches!(kind, Kind::Get | Kind::Stat) { 0 } else { size },
            id: if kind == Kind::Put { id } else { [0; NONCE] },
            offset: if kind == Kind::Get { offset } else { 0 },
            half,
            expiry,
            scope,
            proof,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: proptest::test_runner::RngSeed::Fixed(18), ..Default::default() })]

    #[test]
    fn messages_are_read_as_they_were_written(request in request(), after in vec(any::<u8>(), 0..9), status in 0..7_u8, number in 0..LIMIT) {
        let mut wire = Vec::new();
        request.write(&mut wire).unwrap();
        prop_assert!(wire.len() as u64 <= MAX_REQUEST + 2);
        for cut in [0, 1, 2, wire.len() / 2, wire.len() - 1] {
            prop_assert_eq!(Request::read(&wire[..cut]), Ok(None));
        }
        let length = wire.len();
        wire.extend_from_slice(&after);
        prop_assert_eq!(Request::read(&wire), Ok(Some((request, length))));
        let (answer, took) = Answer::read(&[&[status, 5, 2, b'o', b'k'][..], &after].concat()).unwrap().unwrap();
        prop_assert_eq!((took, answer.number, answer.message.as_str()), (5, 5, "ok"));
        let (mut again, answer) = (Vec::new(), Answer { number, ..answer });
        answer.write(&mut again).unwrap();
        prop_assert_eq!(Answer::read(&again).unwrap().unwrap(), (answer, again.len()));
    }

    #[test]
    fn no_bit_of_a_request_can_be_changed(request in request(), bit in any::<prop::sample::Index>()) {
        let (key, nonce) = (Key::new(&counted(0)), counted(7));
        let token = key.token(0, "").unwrap();
        let (mut request, mut wire) = (request, Vec::new());
        token.sign(&mut request, &nonce);
        request.write(&mut wire).unwrap();
        prop_assert_eq!(key.check(&request, &nonce, 5), Ok(()));
        let bit = bit.index(wire.len() * 8);
        wire[bit / 8] ^= 1 << (bit % 8);
        if let Ok(Some((changed, _))) = Request::read(&wire) {
            prop_assert_eq!(key.check(&changed, &nonce, 5), Err(Denied::Token));
        }
    }

    #[test]
    fn tokens_are_read_as_they_were_printed(key: [u8; 32], expiry in 0..LIMIT, scope in "\\PC{0,16}") {
        let token = Key::new(&key).token(expiry, &scope).unwrap();
        prop_assert_eq!(token.to_string().parse::<Token>(), Ok(token));
    }

    #[test]
    fn a_stranger_ends_in_the_same_way_whatever_the_pieces(wire in vec(any::<u8>(), 0..200), size in 1..50_usize) {
        prop_assert_eq!(served(&wire, size, 0), served(&wire, 200, 0));
    }
}
