use super::*;

fn record(room: Option<u32>, bytes: u32) -> NodeRecord {
    NodeRecord {
        node: 7,
        egress: Some(2),
        room_packets: room,
        queue_bytes: Some(bytes),
        arrival_pps: Some(1000.0),
        flows: Some(2),
        ..NodeRecord::default()
    }
}

/// Of one missing packet of a flow with half of the arrivals.
fn gap(before: NodeRecord, after: NodeRecord) -> HopAtGap {
    HopAtGap { before: Some(before), after: Some(after), share: 0.5, passed: 4.0, ..HopAtGap::default() }
}

const HOP: Egress = (7, Some(2));

/// A packet a millisecond of two flows in turn, which find these rooms; the marks of the first flow's.
fn trail(rooms: &[u32]) -> (Trail, Vec<u64>, Time) {
    let (mut trail, mut marks, mut now) = (Trail::default(), Vec::new(), Time::from_millis(1000));
    for (index, room) in rooms.iter().enumerate() {
        now += Nanos::from_millis(1);
        let mark = trail.push(now, &record(Some(*room), 0), index as u32 % 2, 1);
        if index % 2 == 0 {
            marks.push(mark);
        }
    }
    (trail, marks, now)
}

#[test]
fn what_others_saw_meanwhile_clears_a_queue() {
    let (trail, marks, now) = trail(&[40, 40, 9, 30]);
    let gap = gap(record(Some(6), 0), record(Some(8), 0));
    assert_eq!(gap.reaches(1), Some(true), "half of the arrivals are not known");
    // Room for 6 is filled by no two packets where all are seen.
    let rooms = |hop: &HopAtGap| [hop.before, hop.after].map(|record| record.unwrap().room_packets.unwrap());
    let seen = trail.between(HOP, Some(marks[1]), now, gap, 1);
    assert_eq!(seen.reaches(1), Some(false));
    assert_eq!(seen.share, 0.5, "four packets are not enough for a rate");
    assert_eq!(rooms(&seen), [6, 30]);
}

#[test]
fn what_others_saw_meanwhile_shows_a_full_queue() {
    let (trail, marks, now) = trail(&[40, 40, 40, 40, 20, 1, 2, 1]);
    let gap = gap(record(Some(20), 0), record(Some(18), 0));
    assert_eq!(gap.reaches(1), Some(false));
    let seen = trail.between(HOP, Some(marks[2]), now, gap, 1);
    assert_eq!(seen.reaches(1), Some(true));
}

#[test]
fn a_flow_that_is_alone_and_one_whose_mark_is_gone_are_judged_as_they_are() {
    let mut trail = Trail::default();
    let now = Time::from_millis(1000);
    let first = trail.push(now, &record(Some(9), 0), 1, 1);
    let gap = gap(record(Some(6), 0), record(Some(8), 0));
    for _ in 0..2 * MAX_RECORDS {
        trail.push(now, &record(Some(50), 0), 1, 1);
    }
    assert_eq!(trail.between(HOP, Some(first), now, gap, 1), gap);
    trail.push(now, &record(Some(50), 0), 2, 1);
    assert_eq!(trail.between(HOP, Some(first), now, gap, 1), gap);
    assert_eq!(trail.between((8, None), Some(first), now, gap, 1), gap);
}

#[test]
fn a_queue_whose_limit_is_not_known_has_room_for_what_has_waited_there() {
    let mut trail = Trail::default();
    let now = Time::from_millis(1000);
    for waits in [0, 60, 20] {
        trail.push(now, &record(None, waits * REFERENCE as u32), 1, 1);
    }
    let packets = |waits: u32| record(None, waits * REFERENCE as u32);
    let clear = trail.between(HOP, None, now, gap(packets(20), packets(21)), 1);
    assert_eq!(clear.reaches(1), Some(false));
    // It may have been full, or have room for more than was ever seen.
    let near = gap(packets(58), packets(59));
    assert_eq!(trail.between(HOP, None, now, near, 1), near);
    assert_eq!(near.reaches(1), None);
}

#[test]
fn no_more_hops_are_kept_than_two_paths_have() {
    let mut trail = Trail::default();
    for node in 0..1000 {
        trail.push(Time::from_millis(u64::from(node)), &NodeRecord { node, ..record(Some(1), 0) }, 1, 1);
    }
    assert_eq!(trail.hops.len(), MAX_KNOWN);
}
