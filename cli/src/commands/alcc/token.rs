//! `paceline alcc token`: who may upload.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use data_encoding::HEXLOWER;
use paceline_alcc::transfer::token::{Key, PROOF};
use paceline_files::secret;
use paceline_transfer::{now, random};
use serde_json::json;

use crate::commands::{count, udp};

/// Print a token for the server of this key: who has it may upload, and fetch.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server's key: a file with 64 hexadecimal digits that no other user may read.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Make the key first. A file that is there is not touched.
    #[arg(long)]
    new_key: bool,
    /// Only for names that begin so.
    #[arg(long, value_name = "PREFIX", default_value = "")]
    scope: String,
    /// How long it is good; for ever without it.
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true)]
    days: Option<u32>,
    /// As a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.new_key {
        make(&args.key)?;
    }
    let key = Key::new(&udp::secret(&args.key)?);
    let expiry = args.days.map_or(0, |days| now() + u64::from(days) * 24 * 60 * 60);
    let token = key.token(expiry, &args.scope).map_err(|error| anyhow!("--scope: {error}"))?;
    crate::print::out(&if args.json {
        let expires = args.days.map(|_| expiry);
        format!("{}\n", json!({ "token": token.to_string(), "scope": args.scope, "expires_s": expires }))
    } else {
        format!("{token}\n")
    })?;
    Ok(())
}

fn make(path: &Path) -> anyhow::Result<()> {
    let secret: [u8; PROOF] = random()?;
    let text = HEXLOWER.encode(&secret);
    let what = || format!("--key {}: cannot be made", path.display());
    secret::create(path, format!("{text}\n").as_bytes()).with_context(what)
}
