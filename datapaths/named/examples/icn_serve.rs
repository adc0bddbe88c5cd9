//! A content router and nothing else: `icn_serve STORE ADDRESS [threads=N] [gather=TIME] [upstream=ADDRESS]`. With `publish FILE` in place
//! of the address it puts a file into the store and prints its name. `paceline icn` does the same with more options; this one is built
//! in a minute, to measure with.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use paceline_named::router::{Server, ServerConfig, UpstreamConfig};
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
        [store, listen, options @ ..] => {
            let mut config = ServerConfig::new(PathBuf::from(store), listen.parse()?);
            for option in options {
                match option.split_once('=') {
                    Some(("threads", threads)) => config.threads = threads.parse()?,
                    Some(("gather", gather)) => config.gather = gather.parse()?,
                    Some(("upstream", upstream)) => {
                        let (addresses, controller) = (vec![upstream.parse()?], "bbr".parse()?);
                        config.upstream = Some(UpstreamConfig { addresses, controller, cache_bytes: 1 << 30 });
                    }
                    _ => return Err(format!("{option}: not threads=N, gather=TIME or upstream=ADDRESS").into()),
                }
            }
            let server = Server::start(&config)?;
            while !server.has_failed() {
                std::thread::sleep(Duration::from_secs(1));
            }
            server.stop()?;
            Ok(())
        }
        _ => Err("usage: icn_serve STORE ADDRESS [threads=N] [gather=TIME] [upstream=ADDRESS], or icn_serve STORE publish FILE".into()),
    }
}
