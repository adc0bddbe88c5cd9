use super::*;
use crate::envelope::seal;
use crate::key::PublisherKey;

const FLOW: &str = "int.v1.lab.flow.00000007";
/// Some moment.
const NOW: u64 = 1_700_000_000_000_000;

fn key(byte: u8, roles: &[PublisherRole]) -> PublisherKey {
    PublisherKey::new(roles, &[byte; 32])
}

fn gate() -> Gate {
    let keys = Keys::default().with("sta2", key(1, &[PublisherRole::Sink])).with("ap1", key(2, &[PublisherRole::Hop]));
    Gate::new("lab", Trust::Keys(keys), MAX_AGE)
}

fn by_sink(number: u64) -> Vec<u8> {
    seal("sta2", Some(&key(1, &[])), number, FLOW, b"{}")
}

fn why(gate: &mut Gate, subject: &str, bytes: &[u8], now: u64) -> Option<RefusalReason> {
    gate.open(subject, bytes, now).err().map(|refused| refused.reason)
}

#[test]
fn the_publisher_is_let_in_and_strangers_are_not() {
    let mut gate = gate();
    assert_eq!(why(&mut gate, FLOW, &by_sink(NOW), NOW), None);
    let stranger = seal("eve", Some(&key(1, &[])), NOW + 1, FLOW, b"{}");
    assert_eq!(why(&mut gate, FLOW, &stranger, NOW), Some(RefusalReason::Stranger));
    let wrong = seal("sta2", Some(&key(9, &[])), NOW + 1, FLOW, b"{}");
    assert_eq!(why(&mut gate, FLOW, &wrong, NOW), Some(RefusalReason::WrongKey));
    let bare = seal("sta2", None, NOW + 1, FLOW, b"{}");
    assert_eq!(why(&mut gate, FLOW, &bare, NOW), Some(RefusalReason::Unsigned));
    // Of a subject, a number or a text that the key was not used for.
    assert_eq!(why(&mut gate, "int.v1.lab.flow.00000008", &by_sink(NOW + 1), NOW), Some(RefusalReason::WrongKey));
    // A stranger's numbers are not remembered.
    assert_eq!(why(&mut gate, FLOW, &by_sink(NOW + 1), NOW), None);
}

#[test]
fn a_publisher_has_its_roles() {
    let mut gate = gate();
    let sign = |name: &str, byte: u8, subject: &str| seal(name, Some(&key(byte, &[])), NOW, subject, b"{}");
    let mut try_it = |name: &str, byte: u8, subject: &str| why(&mut gate, subject, &sign(name, byte, subject), NOW);
    assert_eq!(try_it("ap1", 2, "int.v1.lab.node.2"), None);
    assert_eq!(try_it("ap1", 2, FLOW), Some(RefusalReason::Role));
    assert_eq!(try_it("sta2", 1, "int.v1.lab.node.2"), Some(RefusalReason::Role));
    assert_eq!(try_it("sta2", 1, "int.v1.lab.ctl.sta1"), Some(RefusalReason::Role));
    assert_eq!(try_it("ap1", 2, "int.v1.lab.health.hop.ap1"), None);
    assert_eq!(try_it("ap1", 2, "int.v1.lab.health.hop.ap2"), Some(RefusalReason::Role));
    assert_eq!(try_it("ap1", 2, "int.v1.lab.health.sink.ap1"), Some(RefusalReason::Role));
}

#[test]
fn a_message_counts_once_and_while_it_is_young() {
    let mut gate = gate();
    let message = by_sink(NOW);
    assert_eq!(why(&mut gate, FLOW, &message, NOW + MAX_AGE), None);
    assert_eq!(why(&mut gate, FLOW, &message, NOW + MAX_AGE), Some(RefusalReason::Replay));
    assert_eq!(why(&mut gate, FLOW, &by_sink(NOW - 1), NOW), Some(RefusalReason::Replay));
    assert_eq!(why(&mut gate, FLOW, &by_sink(NOW), NOW + MAX_AGE + 1), Some(RefusalReason::Stale));
    assert_eq!(why(&mut gate, FLOW, &by_sink(NOW + MAX_AGE + 1), NOW), Some(RefusalReason::Ahead));
    assert_eq!(why(&mut gate, FLOW, &by_sink(u64::MAX), NOW), Some(RefusalReason::Ahead));
    assert_eq!(why(&mut gate, FLOW, &by_sink(0), NOW), Some(RefusalReason::Stale));
    // Each subject has numbers of its own, and a message of one does not count for another.
    assert_eq!(why(&mut gate, FLOW, &by_sink(NOW + 1), NOW), None);
}

#[test]
fn other_subjects_and_domains_are_not_ours() {
    let mut gate = Gate::new("lab", Trust::Machine, MAX_AGE);
    for subject in ["", "int.v1.lab", "int.v1.other.flow.00000007", "int.v1.lab.flow.7", "x\n"] {
        let bytes = seal("sta2", None, NOW, subject, b"{}");
        let refused = gate.open(subject, &bytes, NOW).unwrap_err();
        assert_eq!(refused.reason, RefusalReason::Malformed, "{subject}");
        assert!(!refused.to_string().contains('\n'));
    }
    let bytes = seal("sta2", None, NOW, FLOW, b"{}");
    assert!(gate.open(FLOW, &bytes, NOW).is_ok());
    assert_eq!(why(&mut gate, FLOW, b"nonsense", NOW), Some(RefusalReason::Malformed));
}

#[test]
fn a_line_in_ten_seconds_says_so() {
    let mut gate = gate();
    let refused = gate.open(FLOW, &seal("eve", None, NOW, FLOW, b""), NOW).unwrap_err();
    let first = gate.refuse(&refused, NOW).unwrap();
    assert_eq!(
        first,
        "a message on int.v1.lab.flow.00000007 by eve is refused: there is no key of this publisher; copy its NAME.key here"
    );
    assert!((1..1000).all(|passed| gate.refuse(&refused, NOW + passed).is_none()));
    let other = MessageRefused { reason: RefusalReason::Replay, ..refused.clone() };
    assert!(gate.refuse(&other, NOW).is_some());
    let next = gate.refuse(&refused, NOW + LINE_EVERY).unwrap();
    assert!(next.ends_with("(999 more since the last line)"), "{next}");
    let counts = gate.counts();
    assert_eq!(
        (counts.refused(RefusalReason::Stranger), counts.refused(RefusalReason::Replay), counts.all_refused()),
        (1001, 1, 1002)
    );
}

#[test]
fn memory_is_bounded_and_what_is_too_old_makes_room() {
    let mut gate = Gate::new("lab", Trust::Machine, MAX_AGE);
    let mut fill = |from: u32, now: u64| {
        let flows = from..from + SUBJECTS_MAX as u32;
        flows
            .filter(|flow| {
                let subject = format!("int.v1.lab.flow.{flow:08x}");
                gate.open(&subject, &seal("sta2", None, now, &subject, b""), now).is_ok()
            })
            .count()
    };
    assert_eq!(fill(0, NOW), SUBJECTS_MAX);
    assert_eq!(fill(SUBJECTS_MAX as u32, NOW + MAX_AGE / 2), 0);
    assert_eq!(fill(SUBJECTS_MAX as u32, NOW + MAX_AGE + 1), SUBJECTS_MAX);
}
