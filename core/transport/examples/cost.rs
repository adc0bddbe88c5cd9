//! Measures what a packet costs a sender and its receiver on a lossless loop-back, in nanoseconds:
//! `cargo run --release -p paceline-transport --example cost`.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it measures real time")]

use std::collections::VecDeque;
use std::time::Instant;

use paceline_cc::{Controller, Env, Nanos, Spec, Time};
use paceline_transport::{AckPolicy, Receiver, Sender, SenderConfig, above, datagram, stream};

const PACKETS: u64 = 3_000_000;

fn controller(spec: &str) -> Box<dyn Controller> {
    spec.parse::<Spec>().expect("a registered controller").build(&Env::default())
}

/// A bottleneck of one packet each 10 us and a delay of 20 ms, as one queue of departures and one of answers.
fn measure(name: &str, mut sender: Box<dyn Sender>, mut receiver: Box<dyn Receiver>) {
    let service = Nanos::from_micros(10);
    let delay = Nanos::from_millis(20);
    let mut data = VecDeque::new();
    let mut acks = VecDeque::new();
    let (mut now, mut free_at) = (Time::ZERO, Time::ZERO);
    sender.write(u64::MAX);
    let start = Instant::now();
    while sender.stats().packets_sent < PACKETS {
        while let Some(segment) = sender.poll_transmit(now) {
            free_at = free_at.max(now) + service;
            data.push_back((free_at, segment));
        }
        let at = |time: Option<Time>| time.unwrap_or(Time::NEVER);
        let next_data = at(data.front().map(|(time, _)| *time));
        let next_ack = at(acks.front().map(|(time, _)| *time));
        now = next_data.min(next_ack).min(sender.next_timeout()).min(receiver.next_timeout()).max(now);
        if next_data <= now {
            if let Some((_, segment)) = data.pop_front() {
                receiver.on_segment(now, &segment, false);
            }
        } else if next_ack <= now {
            if let Some((_, ack)) = acks.pop_front() {
                sender.on_ack(now, &ack);
            }
        } else if sender.next_timeout() <= now {
            sender.on_timeout(now);
        }
        while let Some(ack) = receiver.poll_ack(now) {
            acks.push_back((now + delay, ack));
        }
    }
    let nanos = start.elapsed().as_nanos() as f64 / PACKETS as f64;
    let stats = sender.stats();
    println!("{name:32} {nanos:6.1} ns a packet; {} lost, {} timeouts", stats.packets_lost, stats.timeouts);
}

fn main() {
    let config = SenderConfig::default();
    for window in [100, 2000, 100_000] {
        let spec = format!("fixed:window={window}");
        let sender = stream::sender(&config, controller(&spec));
        measure(&format!("{spec}@tcp"), sender, stream::receiver(&AckPolicy::default(), None));
    }
    let each = AckPolicy::immediate();
    let sender = stream::sender(&config, controller("reno"));
    measure("reno@tcp, every packet acked", sender, stream::receiver(&each, None));
    let paced = controller("fixed:window=3000,rate=1000");
    measure("fixed:rate=1000@tcp", stream::sender(&config, paced), stream::receiver(&AckPolicy::default(), None));
    let sender = datagram::sender(&config, controller("fixed:window=2000"));
    measure("fixed:window=2000@udp", sender, datagram::receiver(None));
    let sender = above::sender(&config, controller("fixed:window=2000"), controller("reno"));
    measure("fixed:window=2000@alcc/reno", sender, stream::receiver(&AckPolicy::default(), None));
}
