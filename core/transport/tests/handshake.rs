//! The exchange before any data: its RTT, its losses, and what controllers are informed of.

use crate::common::spy::Spy;
use crate::common::{Fate, Loop, MSS, Path};
use paceline_cc::{Controller, Ecn, Nanos, Phase, Time};
use paceline_transport::{AckPolicy, HEADER_BYTES, Sender, SenderConfig, above, datagram, stream};

const RTT: Nanos = Nanos::from_millis(20);

fn config() -> SenderConfig {
    let mut config = SenderConfig::default();
    config.handshake = true;
    config
}

fn world(sender: Box<dyn Sender>) -> Loop {
    Loop::new(Path::default(), sender, stream::receiver(&AckPolicy::default(), None))
}

/// What the flow's first packets and the controller's first news are, whatever the datapath.
fn begins_with_a_handshake(what: &str, spy: &Spy, world: &mut Loop, lost: u64) {
    // 1 s after the first loss, 2 s after the second.
    let answered = Time::ZERO + Nanos::from_secs((1 << lost) - 1) + RTT;
    world.sender.write(30 * MSS);
    world.finish(Time::from_millis(30_000));
    let (syns, data) = world.sent.split_at(lost as usize + 1);
    assert!(syns.iter().all(|(_, packet)| packet.syn && packet.bytes == 0 && packet.wire_bytes() == HEADER_BYTES));
    assert!(syns.iter().all(|(_, packet)| packet.ecn == Ecn::Off && packet.seq == 0), "{what}");
    assert!(data.iter().all(|(at, packet)| !packet.syn && packet.bytes > 0 && *at >= answered), "{what}");
    assert_eq!(data[0].0, answered, "{what}");
    let notes = spy.notes();
    assert_eq!(notes.sent.len(), 30, "{what}: the controller is informed of data alone");
    let first = &notes.acks[0];
    assert_eq!((first.now, first.packets.len(), first.rtt), (answered, 0, None), "{what}");
    assert_eq!((first.srtt, first.min_rtt, first.phase), (RTT, RTT, Phase::Open), "{what}");
    assert!(notes.acks[1..].iter().all(|ack| !ack.packets.is_empty()), "{what}");
    assert!(notes.timeouts.is_empty() && notes.restarts.is_empty(), "{what}");
    let stats = world.sender.stats();
    assert_eq!((stats.packets_sent, stats.bytes_sent), (31 + lost, 30 * MSS), "{what}");
    assert_eq!((stats.retransmits, stats.timeouts), (lost, 0), "{what}");
}

#[test]
fn the_controller_knows_an_rtt_before_the_first_data() {
    for lost in 0..3 {
        let controllers = [
            ("tcp", stream::sender as fn(&SenderConfig, Box<dyn Controller>) -> Box<dyn Sender>),
            ("udp", datagram::sender),
            ("alcc", |config, upper| above::sender(config, upper, crate::common::controller("cubic"))),
        ];
        for (what, sender) in controllers {
            let spy = Spy::default();
            let receiver = match what {
                "udp" => datagram::receiver(None),
                _ => stream::receiver(&AckPolicy::default(), None),
            };
            let mut world = Loop::new(Path::default(), sender(&config(), spy.controller()), receiver);
            world.fate = Box::new(move |n, _| Fate { lost: (n as u64) < lost, ..Fate::default() });
            begins_with_a_handshake(what, &spy, &mut world, lost);
        }
    }
}

#[test]
fn without_it_data_comes_first() {
    let spy = Spy::default();
    let mut world = world(stream::sender(&SenderConfig::default(), spy.controller()));
    world.sender.write(MSS);
    world.finish(Time::from_millis(100));
    assert_eq!(world.sent.len(), 1);
    assert_eq!(spy.notes().acks.len(), 1);
}

#[test]
fn it_does_not_wait_for_the_application() {
    let spy = Spy::default();
    let mut world = world(stream::sender(&config(), spy.controller()));
    world.run(Time::from_millis(500), false);
    assert_eq!((world.sent.len(), spy.notes().acks.len()), (1, 1));
    world.sender.write(MSS);
    world.finish(Time::from_millis(600));
    assert_eq!(world.now, Time::from_millis(520));
    assert!(spy.notes().restarts.is_empty(), "nothing was sent that it could restart from");
}

#[test]
fn a_late_answer_tells_its_own_rtt_and_the_next_one_nothing() {
    // The first packet is late by 1.5 s, so that it is repeated after 1 s and that answer comes first.
    let spy = Spy::default();
    let mut world = world(stream::sender(&config(), spy.controller()));
    world.fate = Box::new(|n, _| Fate { later: Nanos::from_millis(if n == 0 { 1500 } else { 0 }), ..Fate::default() });
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(3000), false);
    let answers: Vec<Time> = world.acks.iter().filter(|(_, ack)| ack.syn).map(|(at, _)| *at).collect();
    assert_eq!(answers, [Time::from_millis(1020), Time::from_millis(1520)]);
    assert_eq!(world.sender.srtt(), Some(RTT));
    assert_eq!(spy.notes().acks.iter().filter(|ack| ack.packets.is_empty()).count(), 1);
    assert_eq!(world.sender.stats().packets_lost, 0);
}

#[test]
fn the_wait_grows_to_its_limit() {
    let mut config = config();
    config.max_rto = Nanos::from_secs(4);
    let mut world = world(stream::sender(&config, Spy::default().controller()));
    world.fate = Box::new(|_, _| Fate { lost: true, ..Fate::default() });
    world.sender.write(MSS);
    assert!(!world.run(Time::from_millis(16_000), true));
    let times: Vec<u64> = world.sent.iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
    assert_eq!(times, [0, 1000, 3000, 7000, 11_000, 15_000]);
}
