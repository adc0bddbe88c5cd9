//! Serves the files of a folder to this machine, and takes uploads into it: `cargo run --example serve -- FOLDER`.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    use paceline_alcc::transfer::PORT;
    use paceline_transfer::{UploadEvent, UploadOptions, UploadServer};

    let folder = std::env::args_os().nth(1).ok_or("name a folder")?;
    let options = UploadOptions {
        dir: Some(folder.into()),
        report: Arc::new(|event| {
            if let UploadEvent::Ended(session) = event {
                println!("{}: {}, {} bytes", session.peer, session.status(), session.bytes);
            }
        }),
        ..UploadOptions::new("copa".parse()?)
    };
    let server = UploadServer::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)), options)?;
    println!("listening at {}", server.address()?);
    server.run();
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
