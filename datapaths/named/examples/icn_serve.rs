//! A content router and nothing else: `icn_serve STORE ADDRESS [THREADS]`. With `publish FILE` in place of the address it puts a file
//! into the store and prints its name. `paceline icn` does the same with more options; this one is built in a minute, to measure with.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use paceline_cc::Rate;
use paceline_named::router::{Server, ServerConfig};
use paceline_named::store::Store;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [store, "publish", file] => {
            let store = Store::create(&PathBuf::from(store))?;
            let published = store.publish(&PathBuf::from(file), None, &mut |_| ())?;
            std::io::Write::write_all(&mut std::io::stdout(), format!("{}\n", published.name).as_bytes())?;
            Ok(())
        }
        [store, listen, threads @ ..] => {
            let threads = threads.first().map_or(Ok(1), |threads| threads.parse())?;
            let config = ServerConfig {
                store: PathBuf::from(store),
                listen: listen.parse()?,
                rate: Rate::INFINITY,
                threads,
                metrics: None,
                upstream: None,
            };
            let server = Server::start(&config)?;
            while !server.has_failed() {
                std::thread::sleep(Duration::from_secs(1));
            }
            server.stop()?;
            Ok(())
        }
        _ => Err("usage: icn_serve STORE ADDRESS [THREADS], or icn_serve STORE publish FILE".into()),
    }
}
