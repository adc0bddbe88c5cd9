//! `paceline alcc serve`: takes uploads, and gives files.

mod outcome;

use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::anyhow;
use paceline_alcc::transfer::PORT;
use paceline_alcc::transfer::token::Key;
use paceline_cc::Bytes;
use paceline_files::secret;
use paceline_lab::input::{self, Bounds};
use paceline_transfer::tls::{self, TlsError};
use paceline_transfer::{UploadEvent, UploadOptions, UploadServeError, UploadServer};
use serde_json::json;

use crate::commands::ending::Ends;
use crate::commands::serve::troubles::Troubles;
use crate::commands::serving::Serving;
use crate::commands::udp;
use crate::complaint::{self, with_causes};
use crate::exit::unless_failed;

/// A private key is some kilobytes (our choice).
const PEM: Bounds = Bounds { file: 1 << 20, line: 1 << 20 };

/// Take uploads into a folder, resume them, and give files, over TCP with any controller above it.
///
/// With a key only who holds a token (paceline alcc token) may do anything. Without one files are taken and given over loopback alone,
/// unless --open is given; filler bytes are taken from and given to anybody.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen.
    #[arg(long, value_name = "ADDR", default_value_t = format!("127.0.0.1:{PORT}"))]
    listen: String,
    #[command(flatten)]
    serving: Serving,
    /// The key that tokens are made of: a file with 64 hexadecimal digits that no other user may read.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Without a key: take files from any address, and give them to any.
    #[arg(long, conflicts_with = "key")]
    open: bool,
    /// The controller of what is fetched: any but one with a receiver half.
    #[arg(long, value_name = "CONTROLLER", default_value = "copa")]
    controller: String,
    /// Speak TLS below the frames, with this certificate, and those that certify it: a PEM file.
    #[arg(long, value_name = "PEM", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key: a PEM file.
    #[arg(long, value_name = "PEM", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Largest file that is taken, such as 500MB.
    #[arg(long, value_name = "SIZE", default_value = "10GB")]
    max_size: Bytes,
    /// Give up a client that moved less than 1 KiB in so long.
    #[arg(long, value_name = "S", default_value = "30", value_parser = super::super::span, allow_negative_numbers = true)]
    timeout: f64,
    /// A JSON object for each session instead of a line for people.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let patience = Duration::from_nanos(udp::seconds("--timeout", args.timeout)?.as_nanos());
    let text = &args.controller;
    let controller = input::controller(text).map_err(|error| anyhow!("--controller {text}: {error}"))?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(server_tls(certificate, key)?),
        _ => None,
    };
    let address = udp::address_at(&args.listen, PORT)?;
    let ending = Ends::begin()?.watched()?;
    let options = UploadOptions {
        dir: args.serving.dir.clone(),
        largest: args.max_size.0,
        key: args.key.as_deref().map(udp::secret).transpose()?.map(|secret| Key::new(&secret)),
        open: args.open,
        tls,
        patience,
        stop: ending.shared(),
        report: reporter(args.json),
        ..UploadOptions::new(controller)
    };
    let secure = options.tls.is_some();
    let server = UploadServer::bind(address, options).map_err(|error| refused(error, args))?;
    say_where(server.address()?, secure, args.json)?;
    if args.serving.once {
        return Ok(unless_failed(server.run_once()?.is_some_and(|outcome| !outcome.is_done())));
    }
    server.run();
    Ok(ExitCode::SUCCESS)
}

fn say_where(address: SocketAddr, tls: bool, json: bool) -> io::Result<()> {
    crate::print::out(&if json {
        format!("{}\n", json!({ "listening": address.to_string(), "tls": tls }))
    } else {
        format!("listening at {address}{}\n", if tls { ", TLS" } else { "" })
    })
}

/// A line for each session that ended, and for what this host could not do.
fn reporter(json: bool) -> Arc<dyn Fn(UploadEvent<'_>) + Send + Sync> {
    let troubles = Mutex::new(Troubles::default());
    Arc::new(move |event| {
        let troubles = || troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            // When standard output is closed there is nowhere to report to.
            UploadEvent::Ended(outcome) if json => drop(crate::print::out(&outcome::as_json(outcome))),
            UploadEvent::Ended(outcome) => drop(crate::print::out(&outcome::as_line(outcome))),
            UploadEvent::NoSession { peer, error } => troubles().no_session(peer, error),
            UploadEvent::NoConnection(error) => troubles().say_of_all(error),
            UploadEvent::NoFile(error) => complaint::print(&format!("an upload or a file: {error}")),
        }
    })
}

/// Why there is no server, with the option that it is about.
fn refused(error: UploadServeError, args: &Args) -> anyhow::Error {
    match error {
        UploadServeError::ReceiverHalf | UploadServeError::Misfit(_) => {
            anyhow!("--controller {}: {error}", args.controller)
        }
        UploadServeError::NoFolder { .. } => anyhow!("--dir {}", with_causes(&error)),
        UploadServeError::Listen { .. } => anyhow!("--listen {}", with_causes(&error)),
        error => error.into(),
    }
}

fn server_tls(certificate: &Path, key: &Path) -> anyhow::Result<Arc<tls::ServerConfig>> {
    let name = key.display();
    let pem = read_secret(key).map_err(|error| anyhow!("--tls-key {name}: cannot be used ({error})"))?;
    tls::server(certificate, &pem).map_err(|error| match error {
        TlsError::Certificates { .. } => anyhow!("--tls-cert {error}"),
        error => anyhow!("--tls-key {name}: {}", with_causes(&error)),
    })
}

/// A file that is for its owner alone.
fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, mut bytes) = (input::open(path, PEM)?, Vec::new());
    secret::check(file.get_ref(), path)?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
