use super::*;

fn record(room_packets: Option<u32>, queue_bytes: Option<u32>) -> Option<NodeRecord> {
    Some(NodeRecord { room_packets, queue_bytes, ..NodeRecord::default() })
}

fn hop(before: u32, after: u32) -> HopAtGap {
    let (before, after) = (record(Some(before), None), record(Some(after), None));
    HopAtGap { before, after, share: 1.0, ..HopAtGap::default() }
}

fn medium(medium: u32) -> LossSplit {
    LossSplit { medium, ..LossSplit::default() }
}

fn queue(queue: u32) -> LossSplit {
    LossSplit { queue, ..LossSplit::default() }
}

fn unknown(unknown: u32) -> LossSplit {
    LossSplit { unknown, ..LossSplit::default() }
}

#[test]
fn one_flow_alone_needs_as_many_missing_packets_as_there_was_room() {
    // The packet before took one place, so one missing packet was dropped only if it found none: room 1; 3 with what is rounded.
    assert_eq!(judge(1, &[hop(3, 2)], true), queue(1));
    assert_eq!(judge(1, &[hop(4, 2)], true), medium(1));
    assert_eq!(judge(10, &[hop(12, 2)], true), queue(10));
    assert_eq!(judge(10, &[hop(13, 2)], true), medium(10));
    // A queue with this much room behind the gap was not full in it.
    assert_eq!(judge(10, &[hop(2, 40)], true), medium(10));
}

#[test]
fn a_buffer_is_dropped_where_all_but_one_of_its_packets_fit() {
    let whole = |missing, before, after| {
        judge(missing, &[HopAtGap { buffer: 40, passed: f64::from(missing) + 1.0, ..hop(before, after) }], true)
    };
    // It found room for 39, and half a buffer has left since.
    assert_eq!((whole(40, 39, 40), whole(40, 43, 40)), (queue(40), medium(40)));
    assert_eq!((whole(40, 39, 45), whole(40, 39, 46)), (queue(40), medium(40)));
    // One packet, of the same flow, is not a buffer.
    assert_eq!((whole(1, 1, 8), whole(1, 1, 9)), (queue(1), medium(1)));
}

#[test]
fn others_packets_fill_a_queue_too() {
    let shared = HopAtGap { share: 0.25, ..hop(12, 3) };
    assert_eq!(judge(1, &[shared], true), queue(1));
    assert_eq!(judge(1, &[HopAtGap { share: 1.0, ..shared }], true), medium(1));
}

#[test]
fn each_hop_must_clear_itself() {
    let clear = hop(50, 50);
    assert_eq!(judge(2, &[clear, clear], true), medium(2));
    assert_eq!(judge(2, &[clear, hop(1, 1)], true), queue(2));
    assert_eq!(judge(2, &[clear, HopAtGap::default()], true), unknown(2));
    assert_eq!(judge(2, &[], true), unknown(2));
    assert_eq!(judge(2, &[clear], false), unknown(2));
    let waits = |before, after| HopAtGap {
        before: record(None, Some(before)),
        after: record(None, Some(after)),
        ..HopAtGap::default()
    };
    assert_eq!(judge(2, &[clear, waits(0, NEARLY_EMPTY)], true), medium(2));
    assert_eq!(judge(2, &[clear, waits(0, NEARLY_EMPTY + 1)], true), unknown(2));
}

#[test]
fn counters_go_before_rooms() {
    let counted = |drops, hop: HopAtGap| HopAtGap { drops: Drops::Counted(drops), ..hop };
    assert_eq!(judge(3, &[counted(0, hop(1, 1))], true), medium(3));
    assert_eq!(judge(3, &[counted(2, hop(50, 50))], true), LossSplit { queue: 2, medium: 1, ..LossSplit::default() });
    assert_eq!(judge(3, &[counted(9, hop(1, 1)), counted(u32::MAX, hop(1, 1))], true), queue(3));
    assert_eq!(
        judge(3, &[counted(1, hop(1, 1)), HopAtGap::default()], true),
        LossSplit { queue: 1, unknown: 2, ..LossSplit::default() }
    );
    let awaited = |hop: HopAtGap| HopAtGap { drops: Drops::Awaited, ..hop };
    assert_eq!(
        (judge(3, &[awaited(hop(1, 1))], true), judge(3, &[awaited(hop(50, 50))], true)),
        (unknown(3), medium(3))
    );
}

#[test]
fn drops_go_to_the_gaps_with_least_room() {
    let span = CountedSpan { drops: 3, share: 1.0, medium: 0.1 };
    assert_eq!(span.allocate(&[(2, hop(30, 30)), (2, hop(2, 3)), (2, hop(1, 1))]), [0, 1, 2]);
    // No gap can be it by its room, and yet three were dropped of this flow alone.
    assert_eq!(span.allocate(&[(2, hop(30, 30)), (2, hop(20, 20))]), [1, 2]);
    assert!(span.allocate(&[]).is_empty());
    // More than those can miss that are it by their room.
    assert_eq!(span.allocate(&[(2, hop(30, 30)), (1, hop(1, 1)), (2, hop(20, 20))]), [0, 1, 2]);
}

#[test]
fn among_several_flows_the_likelier_reason_counts() {
    let shared = HopAtGap { share: 0.25, ..hop(5, 5) };
    let span = |drops, medium| CountedSpan { drops, share: 0.25, medium };
    // A drop in about eight arrivals: 1/8 against 1 % or 20 % of the medium.
    assert_eq!(span(1, 0.01).allocate(&[(1, shared)]), [1]);
    assert_eq!(span(1, 0.2).allocate(&[(1, shared)]), [0]);
    assert_eq!(span(4, 0.2).allocate(&[(1, shared)]), [1]);
}
