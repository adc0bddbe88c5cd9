//! A server that sends what a client asks for, in seconds, through an engine (options from the variables `PACELINE_*`) or,
//! with `plain` as the second argument, as the kernel would.
//!
//! ```text
//! paceline emulate --rate 12Mbit/s --delay 10ms --far './serve 0.0.0.0:7000' -- \
//!     sh -c 'echo 10 | nc $PACELINE_BASE 7000 | wc -c'
//! ```

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, BufRead, BufReader, IoSlice, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use paceline_alcc::{Engine, LimitedBy, Options, Socket};
    use paceline_cc::Nanos;
    use paceline_linux::thread::process_cpu_time;

    pub(super) fn main() -> io::Result<()> {
        let mut args = std::env::args().skip(1);
        let listener = TcpListener::bind(args.next().unwrap_or_else(|| "127.0.0.1:7000".to_owned()))?;
        let plain = args.next().is_some_and(|word| word == "plain");
        let options = Options::from_env().map_err(io::Error::other)?;
        let engine = Engine::start(options)?;
        for stream in listener.incoming() {
            let (stream, engine) = (stream?, engine.clone());
            thread::spawn(move || serve(stream, &engine, plain).inspect_err(|error| eprintln!("serve: {error}")));
        }
        Ok(())
    }

    fn serve(mut stream: TcpStream, engine: &Engine, plain: bool) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(stream.try_clone()?).read_line(&mut line)?;
        let seconds: f64 = line.trim().parse().map_err(io::Error::other)?;
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let page = [42; 64 * 1024];
        let (before, mut written) = (cpu(), 0.0);
        let report = |written: f64| {
            let nanos = (cpu() - before) * 1e9 / written.max(1.0);
            eprintln!("processor time of this program {nanos:.2} ns a byte over {:.1} MB", written / 1e6);
        };
        if plain {
            while Instant::now() < until {
                stream.write_all(&page)?;
                written += page.len() as f64;
            }
            report(written);
            return Ok(());
        }
        let socket = engine.adopt(stream.into())?;
        let watcher = thread::spawn({
            let socket = socket.clone();
            move || watch(&socket, until)
        });
        while Instant::now() < until {
            socket.send(&[IoSlice::new(&page)], false)?;
        }
        written += socket.stats().delivered as f64;
        report(written);
        socket.close(Duration::ZERO);
        watcher.join().map_err(|_| io::Error::other("the watcher panicked"))
    }

    /// Processor time of this program in seconds, what the kernel did in its name included.
    fn cpu() -> f64 {
        process_cpu_time().as_secs_f64()
    }

    /// Says what there was to see.
    fn watch(socket: &Arc<Socket>, until: Instant) {
        let (mut rtts, mut below, mut windows) = (Vec::new(), Vec::new(), 0);
        let mut limits = [0_u32; 5];
        let mut last = socket.stats();
        while Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
            last = socket.stats();
            rtts.extend(last.rtt.map(Nanos::as_millis_f64));
            below.push(last.below.as_millis_f64());
            windows += u32::from(last.lower_window >= last.in_flight);
            limits[match last.limited_by {
                LimitedBy::Nothing => 0,
                LimitedBy::Application => 1,
                LimitedBy::Window => 2,
                LimitedBy::Pacing => 3,
                LimitedBy::LayerBelow => 4,
            }] += 1;
        }
        let samples = rtts.len().max(1) as f64;
        let quantile = |list: &mut Vec<f64>, q: f64| {
            list.sort_by(f64::total_cmp);
            list.get((list.len() as f64 * q) as usize).copied().unwrap_or(f64::NAN)
        };
        let rate = last.delivered as f64 * 8.0 / last.age.as_secs_f64() / 1e6;
        eprintln!(
            "{} {:.2} Mbit/s, rtt min {:.1} p50 {:.1} p95 {:.1} ms, waited below p50 {:.2} p95 {:.2} ms, \
             tcp's window the larger {:.1} %, limited by nothing/application/window/pacing/below {limits:?}",
            last.controller,
            rate,
            last.min_rtt.map_or(f64::NAN, Nanos::as_millis_f64),
            quantile(&mut rtts, 0.5),
            quantile(&mut rtts, 0.95),
            quantile(&mut below, 0.5),
            quantile(&mut below, 0.95),
            f64::from(windows) / samples * 100.0,
        );
        eprintln!("{last:?}");
    }
}
