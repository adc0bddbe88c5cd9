//! Every message as it is, cut, longer, changed, and by someone without the key.

use super::*;

const SECRET: [u8; 32] = [7; 32];

fn messages() -> Vec<RaceMessage> {
    let terms = RaceTerms { up: true, millis: 10_000, mtu: 1500, seed: u64::MAX, contestant: "copa@udp".to_owned() };
    let figures = EndFigures { packets: 1, wire_bytes: 1500, limited_below: u32::MAX, ..EndFigures::default() };
    let values = (0..VALUES as u32).collect();
    vec![
        RaceMessage::Alive,
        RaceMessage::Welcome { race: [9; 16], most_millis: 60_000, most_mbps: 1000 },
        RaceMessage::Refuse("busy: try again".to_owned()),
        RaceMessage::Begin(terms),
        RaceMessage::Ready,
        RaceMessage::Failed("é".repeat(127)),
        RaceMessage::Ended(figures.clone()),
        RaceMessage::Ended(EndFigures { rtt_us: values, capped: true, ..figures }),
    ]
}

fn opened(purpose: RacePurpose) -> (RaceChallenge, RaceOpening) {
    let challenge = RaceChallenge { server: [1; 16] };
    (challenge, RaceOpening::new(purpose, [2; 16], &SECRET, &challenge))
}

#[test]
fn messages_are_read_as_they_were_written_and_nothing_else_is() {
    for message in messages() {
        let bytes = message.bytes();
        assert!(bytes.len() <= LONGEST, "{message:?}");
        assert_eq!(RaceMessage::read(&bytes).as_ref(), Ok(&message));
        for end in 0..bytes.len() {
            assert_eq!(RaceMessage::read(&bytes[..end]), Err(RaceBreach::Length), "{message:?} cut at {end}");
        }
        assert!(RaceMessage::read(&[bytes, vec![0]].concat()).is_err(), "{message:?} with a byte behind it");
    }
    let refused = |bytes: &[u8], what: &'static str| assert_eq!(RaceMessage::read(bytes), Err(RaceBreach::Value(what)));
    refused(&[99], "kind");
    refused(&[2, 1, 0x1b], "text");
    refused(&[2, 1, 0xff], "text");
    let mut begin = messages()[3].bytes();
    begin[1] = 2;
    refused(&begin, "flag");
    let mut ended = messages().pop().unwrap().bytes();
    // The largest round trip is smaller than the one before.
    let at = ended.len() - 4;
    ended[at..].fill(0);
    refused(&ended, "distribution");
}

#[test]
fn texts_are_cut_at_a_character_and_hold_nothing_that_a_terminal_obeys() {
    let RaceMessage::Refuse(long) = RaceMessage::read(&RaceMessage::Refuse("é".repeat(200)).bytes()).unwrap() else {
        panic!("another message");
    };
    assert_eq!(long, "é".repeat(127));
    let escape = RaceMessage::Failed("a\x1b[2Jb\n".to_owned()).bytes();
    assert_eq!(RaceMessage::read(&escape), Ok(RaceMessage::Failed("a [2Jb ".to_owned())));
}

#[test]
fn frames_hold_for_one_connection_one_direction_and_one_place() {
    let (challenge, opening) = opened(RacePurpose::Control);
    let key = |secret: &[u8; 32], end| RaceKey::new(secret, end, &challenge, &opening);
    let (mut says, mut hears) = (key(&SECRET, RaceEnd::Client), key(&SECRET, RaceEnd::Client));
    for message in messages() {
        let frame = says.frame(&message);
        let (length, rest) = frame.split_at(2);
        assert_eq!(behind([length[0], length[1]]), Ok(rest.len()));
        assert_eq!(rest.len() + 2, message.bytes().len() + AROUND);
        assert_eq!(hears.open(rest), Ok(message));
    }
    let frame = says.frame(&RaceMessage::Alive);
    let first = key(&SECRET, RaceEnd::Client).frame(&RaceMessage::Alive);
    assert_eq!(key(&SECRET, RaceEnd::Client).open(&frame[2..]), Err(RaceBreach::Tag), "the number");
    assert_eq!(key(&SECRET, RaceEnd::Server).open(&first[2..]), Err(RaceBreach::Tag), "the direction");
    assert_eq!(key(&[8; 32], RaceEnd::Client).open(&first[2..]), Err(RaceBreach::Tag), "the secret");
    for bit in 0..first[2..].len() * 8 {
        let mut changed = first[2..].to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(key(&SECRET, RaceEnd::Client).open(&changed), Err(RaceBreach::Tag), "bit {bit}");
    }
    for end in 0..TAG {
        assert!(key(&SECRET, RaceEnd::Client).open(&first[2..2 + end]).is_err());
    }
    assert_eq!(behind([0, 0]), Err(RaceBreach::Length));
    assert_eq!(behind([0xff, 0xff]), Err(RaceBreach::Length));
}

#[test]
fn an_opening_proves_the_key_for_one_challenge_and_one_purpose() {
    for purpose in [RacePurpose::Control, RacePurpose::Flow([3; 16])] {
        let (challenge, opening) = opened(purpose);
        let bytes = opening.bytes();
        assert_eq!((bytes.len(), challenge.bytes().len()), (OPENING, CHALLENGE));
        assert_eq!(RaceOpening::read(&bytes), Ok(opening));
        assert_eq!(RaceChallenge::read(&challenge.bytes()), Ok(challenge));
        assert!(opening.holds(&SECRET, &challenge) && !opening.holds(&[8; 32], &challenge));
        assert!(!opening.holds(&SECRET, &RaceChallenge { server: [4; 16] }), "said again later");
        for at in 9..OPENING {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let held = RaceOpening::read(&changed).is_ok_and(|changed| changed.holds(&SECRET, &challenge));
            assert!(!held, "byte {at}");
        }
    }
}

#[test]
fn another_version_and_another_service_are_told_apart() {
    let mut bytes = RaceChallenge { server: [1; 16] }.bytes();
    bytes[7] = 2;
    assert_eq!(RaceChallenge::read(&bytes[..8]), Err(RaceBreach::Version(2)));
    let line = RaceBreach::Version(2).to_string();
    assert_eq!(line, "it speaks version 2 of races, and this paceline version 1; use the same paceline at both ends");
    assert_eq!(RaceChallenge::read(b"HTTP/1.1 400 Bad Request"), Err(RaceBreach::Magic));
    assert_eq!(RaceChallenge::read(b""), Err(RaceBreach::Magic));
}
