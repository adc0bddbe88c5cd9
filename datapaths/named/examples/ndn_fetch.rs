//! What one fetch of an object of NDN costs the consumer: bytes are read and dropped.
//!
//!     cargo run --release -p paceline-named --example ndn_fetch -- udp://127.0.0.1:6363 /example/file

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::time::Instant;

    use paceline_linux::thread::process_cpu_time;
    use paceline_named::client::Options;
    use paceline_named::ndn::fetch_blocking;

    pub(crate) fn main() {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let [forwarder, name] = args.as_slice() else { return eprintln!("ndn_fetch FORWARDER NAME") };
        let (forwarder, name) = (forwarder.parse().expect("a forwarder"), name.parse().expect("a name"));
        let options = Options::new("bbr".parse().expect("a controller"));
        let begun = Instant::now();
        let mut reader = fetch_blocking(forwarder, &name, options).expect("the object");
        let mut bytes = 0;
        while let Some(chunk) = reader.chunk_blocking().expect("the next bytes") {
            bytes += chunk.len() as u64;
        }
        let took = begun.elapsed().as_secs_f64();
        let cpu = process_cpu_time().as_secs_f64();
        let gbit = bytes as f64 * 8e-9;
        println!("{bytes} bytes, {:.3} Gbit/s, {cpu:.3} s of CPU, {:.3} Gbit/s per core", gbit / took, gbit / cpu);
        println!("{:?}\n{:?}", reader.opened(), reader.stats());
    }
}
