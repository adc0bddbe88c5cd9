//! `paceline icn publish`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use paceline_named::store::{self, Published, Store};
use serde_json::json;

use crate::progress::drawn;

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Put a file, or a folder with all its files, into a store, and print its name.
///
/// The name is the hash of what is published: the same bytes have the same name everywhere, and other bytes another one. A folder becomes
/// a list of its files and their names. With --key, the name that is printed stays, and points at the newest version.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file or folder.
    #[arg(value_name = "FILE|DIR")]
    source: PathBuf,
    /// The store, a folder, which is made where there is none.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// What the bytes are, such as video/mp4; by the file's ending if not given.
    #[arg(long, value_name = "TYPE")]
    media_type: Option<String>,
    /// Sign with this Ed25519 key (PKCS#8): print a name that can point at other bytes later.
    #[arg(long, value_name = "FILE", requires = "label")]
    key: Option<PathBuf>,
    /// Make the key first.
    #[arg(long, requires = "key")]
    new_key: bool,
    /// What this publisher calls it: one key has as many names as labels.
    #[arg(long, requires = "key")]
    label: Option<String>,
    /// A larger one replaces a smaller one; the seconds since 1970 if not given.
    #[arg(long, value_name = "N", requires = "key", value_parser = crate::commands::count::<u64>)]
    version: Option<u64>,
    /// For this many days the signature is valid.
    #[arg(
        long,
        value_name = "DAYS",
        requires = "key",
        default_value = "30",
        value_parser = crate::commands::count::<u64>
    )]
    expires: u64,
    /// One JSON object instead of the name.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let store = Store::create(&args.store)?;
    // Before the work: a key that is malformed or already there is reported before a large file is read.
    let key = match &args.key {
        Some(path) if args.new_key => Some(store::create_key(path)?),
        Some(path) => Some(store::read_key(path)?),
        None => None,
    };
    let bar = drawn("{spinner} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left: {msg}");
    let mut file = None;
    let published = store.publish(&args.source, args.media_type.as_deref(), &mut |at| {
        if file.as_deref() != Some(at.file) {
            file = Some(at.file.to_owned());
            bar.set_message(crate::complaint::one_line(&at.file.display().to_string()));
        }
        bar.set_length(at.total);
        bar.set_position(at.done);
    });
    bar.finish_and_clear();
    let published = published?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970; set it")?.as_secs();
    let mut name = published.name;
    let mut signed = None;
    if let (Some(key), Some(label)) = (key, &args.label) {
        let version = args.version.unwrap_or(now);
        let expires = args.expires.checked_mul(DAY).and_then(|time| time.checked_add(now));
        let expires =
            expires.context("--expires: the day is beyond the last instant that a record can hold; give 30")?;
        name = store.sign(&key, label, version, expires, published.name)?;
        signed = Some(json!({ "label": label, "version": version, "expires_s": expires }));
    }
    let text = if args.json { as_json(&name, &published, signed) } else { name.to_string() };
    Ok(crate::print::out(&format!("{text}\n"))?)
}

fn as_json(name: &paceline_icn::Name, published: &Published, signed: Option<serde_json::Value>) -> String {
    let mut object = json!({
        "name": name.to_string(),
        "length": published.length,
        "stored_units": published.stored_units,
        "media_type": published.media_type,
    });
    if let Some(files) = published.files {
        object["files"] = files.into();
    }
    if let Some(signed) = signed {
        object["target"] = published.name.to_string().into();
        object["signed"] = signed;
    }
    object.to_string()
}
