//! What one fetch costs the requester: bytes are read, verified and dropped.
//!
//!     cargo run --release -p paceline-named --example icn_fetch -- serve STORE ADDR
//!     cargo run --release -p paceline-named --example icn_fetch -- fetch NAME ADDR

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
    use paceline_named::client::{Options, fetch_blocking};
    use paceline_named::router::{Server, ServerConfig};

    pub(crate) fn main() {
        let args: Vec<String> = std::env::args().skip(1).collect();
        match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["serve", store, address] => serve(store, address),
            ["fetch", name, address] => fetch(name, address),
            _ => eprintln!("icn_fetch serve STORE ADDR | fetch NAME ADDR"),
        }
    }

    fn serve(store: &str, address: &str) {
        let listen = address.parse().expect("an address");
        let _server = Server::start(&ServerConfig::new(store.into(), listen)).expect("a router");
        loop {
            std::thread::park();
        }
    }

    fn fetch(name: &str, address: &str) {
        let sources = [address.parse().expect("an address")];
        let name = name.parse().expect("a name");
        let options = Options::new("bbr".parse().expect("a controller"));
        let begun = Instant::now();
        let mut reader = fetch_blocking(&name, &sources, 0..u64::MAX, options).expect("the object");
        let mut bytes = 0;
        while let Some(chunk) = reader.chunk_blocking().expect("the next bytes") {
            bytes += chunk.len() as u64;
        }
        let took = begun.elapsed().as_secs_f64();
        let cpu = process_cpu_time().as_secs_f64();
        let gbit = bytes as f64 * 8e-9;
        println!("{bytes} bytes, {:.3} Gbit/s, {cpu:.3} s of CPU, {:.3} Gbit/s per core", gbit / took, gbit / cpu);
        println!("{:?}", reader.stats());
    }
}
