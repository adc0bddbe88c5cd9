//! Uploads one file to a server of this machine, under Copa: `cargo run --example upload -- FILE NAME`.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::path::PathBuf;

    use paceline_alcc::transfer::PORT;
    use paceline_transfer::Remote;

    let mut args = std::env::args().skip(1);
    let (Some(file), Some(name)) = (args.next(), args.next()) else {
        return Err("name a file, and how it is to be called".into());
    };
    let remote = Remote::new(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
    let done = remote.send(&PathBuf::from(file), &name, &"copa".parse()?, &mut ())?;
    println!("{}: {} bytes, from byte {} on", done.answer.status.word(), done.bytes, done.resumed);
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
