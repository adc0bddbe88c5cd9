//! A content router and nothing else: `icn_serve STORE ADDRESS [threads=N] [gather=TIME] [upstream=ADDRESS] [metrics=ADDRESS]
//! [kernel-store=SIZE interface=NAME]`. With `publish FILE` in place of the address it puts a file into the store and prints its name.
//! `paceline icn` does the same with more options; this one is built in a minute, to measure with. A store in the kernel is in it with
//! the feature `kernel-store`.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use paceline_cc::Bytes;
use paceline_named::router::{KernelStoreConfig, Server, ServerConfig, UpstreamConfig};
use paceline_named::store::Store;

const USAGE: &str = "usage: icn_serve STORE ADDRESS [threads=N] [gather=TIME] [upstream=ADDRESS] [metrics=ADDRESS] \
                     [kernel-store=SIZE interface=NAME], or icn_serve STORE publish FILE";

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
            let (mut bytes, mut interface) = (None, None);
            for option in options {
                match option.split_once('=') {
                    Some(("threads", threads)) => config.threads = threads.parse()?,
                    Some(("gather", gather)) => config.gather = gather.parse()?,
                    Some(("upstream", upstream)) => {
                        let (addresses, controller) = (vec![upstream.parse()?], "bbr".parse()?);
                        config.upstream = Some(UpstreamConfig { addresses, controller, cache_bytes: 1 << 30 });
                    }
                    Some(("metrics", address)) => config.metrics = Some(address.parse()?),
                    Some(("kernel-store", size)) => bytes = Some(size.parse::<Bytes>()?.0),
                    Some(("interface", name)) => interface = Some(name.to_owned()),
                    _ => return Err(format!("{option}: not one of these options; {USAGE}").into()),
                }
            }
            let kernel = bytes.zip(interface).map(|(bytes, interface)| KernelStoreConfig { bytes, interface });
            let server = Server::start_with(&config, kernel.as_ref())?;
            while !server.has_failed() {
                std::thread::sleep(Duration::from_secs(1));
            }
            server.stop()?;
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}
