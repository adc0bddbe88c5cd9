//! `paceline controllers`: what can race, with parameters, units, defaults and sources.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::anyhow;
use paceline_cc::registry::{CONTROLLERS, Entry, Kind, Param, nearest};
use paceline_cc::{Ecn, Env, Spec};
use serde_json::{Value, json};

/// List the controllers with their parameters, units, defaults and sources.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this one.
    name: Option<String>,
    /// As JSON, one object a controller.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let chosen: Vec<&'static Entry> = match &args.name {
        None => CONTROLLERS.iter().collect(),
        Some(name) => {
            let entry = CONTROLLERS.iter().find(|entry| entry.name == name);
            let names = CONTROLLERS.iter().map(|entry| entry.name);
            vec![entry.ok_or_else(|| anyhow!("unknown controller '{name}'; {}", nearest(name, names)))?]
        }
    };
    let mut text = String::new();
    for (index, entry) in chosen.into_iter().enumerate() {
        if args.json {
            writeln!(text, "{}", as_json(entry))?;
        } else {
            if index > 0 {
                text.push('\n');
            }
            describe(&mut text, entry)?;
        }
    }
    crate::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(text: &mut String, entry: &'static Entry) -> std::fmt::Result {
    writeln!(text, "{}  {}", entry.name, entry.summary)?;
    writeln!(text, "  source: {}", entry.source)?;
    writeln!(text, "  runs over: {}", vias(entry).join(", "))?;
    let values: Vec<String> = entry.params().map(|param| format!("{}={}", param.name, param.default)).collect();
    let value_width = values.iter().map(String::len).max().unwrap_or(0);
    let unit_width = entry.params().map(|param| param.unit.len()).max().unwrap_or(0);
    for (param, value) in entry.params().zip(&values) {
        writeln!(text, "  {value:value_width$}  {:unit_width$}  {}; {}", param.unit, param.kind, param.source)?;
    }
    Ok(())
}

fn as_json(entry: &'static Entry) -> Value {
    json!({
        "name": entry.name,
        "summary": entry.summary,
        "source": entry.source,
        "vias": vias(entry),
        "params": entry.params().map(param_json).collect::<Vec<_>>(),
    })
}

fn param_json(param: &Param) -> Value {
    let mut object = json!({
        "name": param.name,
        "unit": param.unit,
        "default": param.default,
        "source": param.source,
    });
    match param.kind {
        Kind::Number { min, max } => {
            object["min"] = json!(min);
            object["max"] = json!(max);
        }
        Kind::Choice(words) => object["choices"] = json!(words),
    }
    object
}

/// The datapaths that carry it with its default parameters. TCP and QUIC have no room for a receiver half, and quinn does not
/// say which packets were marked.
fn vias(entry: &'static Entry) -> Vec<&'static str> {
    if entry.receiver.is_some() {
        return vec!["udp", "alcc"];
    }
    let exact = |spec: Spec| matches!(spec.build(&Env::default()).ecn(), Ecn::Exact | Ecn::L4s);
    if entry.name.parse().is_ok_and(exact) { vec!["udp", "tcp", "alcc"] } else { vec!["udp", "tcp", "alcc", "quic"] }
}
