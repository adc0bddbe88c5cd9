//! `paceline icn stat`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use paceline_icn::Name;
use paceline_named::store::{Checked, Stat, Store, What};
use serde_json::json;

use crate::exit::Exit;
use crate::progress::drawn;

/// Show what a store holds: length, units, height of the tree, media type, and whether it is whole.
///
/// Exit status 2 when something is damaged or not there.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The object; all of the store if not given.
    name: Option<Name>,
    /// The store.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// Verify every unit.
    #[arg(long)]
    check: bool,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let store = Store::open(&args.store)?;
    if let Some(name) = &args.name {
        show(args, &store, name)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut status = ExitCode::SUCCESS;
    for name in store.names()? {
        // One that is damaged is no reason to be silent about the others.
        if let Err(error) = show(args, &store, &name) {
            crate::complaint::print(&crate::complaint::of_error(&error));
            status = Exit::Refused.into();
        }
    }
    Ok(status)
}

fn show(args: &Args, store: &Store, name: &Name) -> anyhow::Result<()> {
    let stat = store.stat(name)?;
    let checked = if args.check { Some(check(store, name)?) } else { None };
    let line = if args.json { as_json(&stat, checked) } else { as_text(&stat, checked) };
    Ok(crate::print::out(&format!("{line}\n"))?)
}

fn check(store: &Store, name: &Name) -> anyhow::Result<Checked> {
    let bar = drawn("{spinner} {pos} of {len} units verified, {eta} left");
    let checked = store.check(name, &mut |done, units| {
        bar.set_length(units);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    Ok(checked?)
}

fn as_json(stat: &Stat, checked: Option<Checked>) -> String {
    let mut object = match &stat.what {
        What::Object { length, height, media_type } => json!({
            "name": stat.name.to_string(),
            "length": length,
            "height": height,
            "media_type": media_type,
        }),
        What::Record(record) => json!({
            "name": stat.name.to_string(),
            "label": record.label,
            "version": record.version,
            "expires_s": record.expires,
            "target": record.target.to_string(),
        }),
    };
    object["stored_units"] = stat.stored_units.into();
    object["held_units"] = stat.held_units.into();
    object["whole"] = stat.is_whole().into();
    object["cached"] = stat.cached.into();
    if let Some(checked) = checked {
        object["genuine_units"] = checked.genuine.into();
        object["unknown_units"] = checked.unknown.into();
    }
    object.to_string()
}

fn as_text(stat: &Stat, checked: Option<Checked>) -> String {
    let mut text = match &stat.what {
        What::Object { length, height, media_type } => {
            let media_type = if media_type.is_empty() { "of no media type" } else { media_type };
            let levels = if *height == 1 { "level" } else { "levels" };
            let units = stat.stored_units;
            format!("{}: {length} bytes, {units} units, {height} {levels}, {media_type}", stat.name)
        }
        What::Record(record) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
            let valid = match record.expires.checked_sub(now) {
                None | Some(0) => "expired".to_owned(),
                Some(left) => format!("valid for {} h", left / 3600),
            };
            format!("{}: '{}' version {}, {valid}, is {}", stat.name, record.label, record.version, record.target)
        }
    };
    match (stat.is_whole(), stat.cached) {
        (true, false) => text.push_str(", whole"),
        (true, true) => text.push_str(", whole, cached"),
        (false, _) => text.push_str(&format!(", {} units are there", stat.held_units)),
    }
    match checked {
        None => {}
        Some(Checked { unknown: 0, .. }) => text.push_str(", verified"),
        Some(Checked { genuine, unknown }) => {
            text.push_str(&format!(
                ", {genuine} verified, {unknown} cannot be: the units with their hashes are not there"
            ));
        }
    }
    text
}
