//! How exactly datagrams leave at given gaps, by the way in which their sender waits for the moment: the gap error over loopback, by the
//! kernel's stamps of arrival, which it takes within the call that sends.
//!
//! `cargo run -p paceline-udp --example gaps -- SECONDS`: as many for each row, 2 unless said.

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    gaps::run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod gaps {
    use std::io::{self, IoSlice};
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    use nix::libc::{CLOCK_MONOTONIC, sock_txtime};
    use nix::sys::socket::sockopt::TxTime;
    use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, sendmsg, setsockopt};
    use paceline_cc::histogram::Histogram;
    use paceline_cc::{Nanos, Time};
    use paceline_linux::clock::{Clock, Sleeper, monotonic};
    use paceline_linux::thread::{cpu_time, set_real_time, set_timer_slack};
    use paceline_udp::socket::{Offload, SessionSocket};

    /// The kernel is given a packet this long before its moment.
    const AHEAD: Nanos = Nanos::from_millis(2);
    /// Packets of a row at most.
    const MOST: u64 = 20_000;

    #[derive(Clone, Copy)]
    enum Way {
        /// As a thread sleeps: the kernel may be 50 µs late to join timers.
        Sleep,
        /// As [`Way::Sleep`], without that.
        Exact,
        /// As the sender does.
        Spin,
        /// The kernel is told the moment (`SO_TXTIME`), and given the packet before it.
        Kernel,
    }

    const WAYS: [(&str, Way); 4] = [
        ("sleep", Way::Sleep),
        ("sleep, timer slack 1 ns", Way::Exact),
        ("sleep and spin (the sender)", Way::Spin),
        ("SO_TXTIME, 2 ms ahead", Way::Kernel),
    ];

    pub(crate) fn run() -> io::Result<()> {
        let seconds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2).clamp(1, 60);
        println!("gap, priority, way: gap error p50 p95 p99 in us, us before its moment, share of a core");
        for micros in [120, 1_000, 10_000] {
            for real_time in [false, true] {
                for (name, way) in WAYS {
                    if set_real_time(real_time) != real_time && real_time {
                        println!("{micros} us, real time: not permitted to this user");
                        break;
                    }
                    let gap = Nanos::from_micros(micros);
                    let count = (seconds * 1_000_000 / micros).min(MOST);
                    let (errors, early, share) = measure(way, gap, count)?;
                    set_real_time(false);
                    let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|q| errors.quantile(q) as f64 / 1e3);
                    let priority = if real_time { "real time" } else { "ordinary" };
                    println!("{micros} us, {priority}, {name}: {p50:.1} {p95:.1} {p99:.1}, {early:.0}, {share:.2}");
                }
            }
        }
        Ok(())
    }

    /// Sends `count` packets `gap` apart: by how much the gaps between their arrivals were others, how long before its moment a packet
    /// arrived in the median, in us, and the share of a core that it took.
    fn measure(way: Way, gap: Nanos, count: u64) -> io::Result<(Histogram, f64, f64)> {
        let clock = Clock::new();
        let inbox = UdpSocket::bind("127.0.0.1:0")?;
        let to = inbox.local_addr()?;
        let mut inbox = SessionSocket::new(inbox, Offload::NONE)?;
        let outbox = UdpSocket::bind("127.0.0.1:0")?;
        if matches!(way, Way::Kernel) {
            setsockopt(&outbox, TxTime, &sock_txtime { clockid: CLOCK_MONOTONIC, flags: 0 })?;
        }
        let mut sleeper = Sleeper::new(clock);
        set_timer_slack(if matches!(way, Way::Sleep) { 50_000 } else { 1 });
        let (began, cpu) = (clock.now(), cpu_time());
        let start = began + Nanos::from_millis(5);
        let mut arrivals = Vec::new();
        for index in 0..count {
            let due = start + gap.mul_div(index, 1);
            let at = if matches!(way, Way::Kernel) { due - AHEAD } else { due };
            match way {
                Way::Spin => drop(sleeper.sleep_until(at)),
                Way::Sleep | Way::Exact | Way::Kernel => sleeper.doze(at)?,
            }
            send(&outbox, to, matches!(way, Way::Kernel).then(|| monotonic() + due.since(clock.now())))?;
            // What has arrived was stamped then, and is taken in where there is time.
            if gap >= Nanos::from_millis(1) || index % 32 == 31 {
                receive(&mut inbox, clock, &mut arrivals)?;
            }
        }
        let share = (cpu_time() - cpu).as_secs_f64() / clock.now().since(began).as_secs_f64();
        while inbox.wait(clock, clock.now() + Nanos::from_millis(50))? {
            receive(&mut inbox, clock, &mut arrivals)?;
        }
        let (mut errors, mut early) = (Histogram::new(3), Histogram::new(3));
        for pair in arrivals.windows(2) {
            errors.record(pair[1].since(pair[0]).as_nanos().abs_diff(gap.as_nanos()));
        }
        for (index, at) in (0..).zip(&arrivals) {
            early.record((start + gap.mul_div(index, 1)).since(*at).as_nanos());
        }
        Ok((errors, early.quantile(0.5) as f64 / 1e3, share))
    }

    fn receive(inbox: &mut SessionSocket, clock: Clock, arrivals: &mut Vec<Time>) -> io::Result<()> {
        while inbox.receive(clock, |datagram| arrivals.push(datagram.at))? > 0 {}
        Ok(())
    }

    fn send(from: &UdpSocket, to: std::net::SocketAddr, at: Option<Time>) -> io::Result<()> {
        let payload = [0; 1448];
        let Some(at) = at else { return from.send_to(&payload, to).map(drop) };
        let std::net::SocketAddr::V4(to) = to else { return Err(io::ErrorKind::AddrNotAvailable.into()) };
        let nanos = at.as_nanos();
        let told = [ControlMessage::TxTime(&nanos)];
        sendmsg(from.as_raw_fd(), &[IoSlice::new(&payload)], &told, MsgFlags::empty(), Some(&SockaddrIn::from(to)))?;
        Ok(())
    }
}
