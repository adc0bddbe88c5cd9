//! `paceline icn resolve`.

use std::fmt::Write;

use paceline_icn::Name;
use paceline_named::resolver;
use serde_json::json;

use super::super::span;
use super::places::{address, patience};

/// Ask a resolver where an object is, and measure how far each place is: nearest first.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The object.
    name: Name,
    /// The resolver, as HOST or HOST:PORT.
    #[arg(long, value_name = "ADDR")]
    resolver: String,
    /// Wait this long for answers.
    #[arg(long, value_name = "S", default_value = "3", value_parser = span, allow_negative_numbers = true)]
    timeout: f64,
    /// One JSON object per place.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let service = address("--resolver", &args.resolver, resolver::PORT)?;
    let patience = patience("--timeout", args.timeout)?;
    let found = resolver::resolve(&args.name, service, patience)?;
    if found.is_empty() {
        let service = service.to_string();
        return Err(resolver::ResolveError::Unknown { name: args.name, service }.into());
    }
    let places: Vec<_> = found.iter().map(|place| place.address).collect();
    let mut text = String::new();
    for place in resolver::measure(&args.name, &places, patience)? {
        let ttl = found.iter().find(|found| found.address == place.address).map(|found| found.ttl_s);
        let rtt_ms = place.rtt.map(|rtt| rtt.as_secs_f64() * 1e3);
        if args.json {
            let has = place.rtt.map(|_| !place.lacks);
            let address = place.address.to_string();
            let _ = writeln!(text, "{}", json!({ "address": address, "rtt_ms": rtt_ms, "has": has, "ttl_s": ttl }));
            continue;
        }
        let _ = match rtt_ms {
            Some(_) if place.lacks => writeln!(text, "{}  does not have it now", place.address),
            Some(rtt) => writeln!(text, "{}  {rtt:.2} ms, for {} s", place.address, ttl.unwrap_or(0)),
            None => writeln!(text, "{}  no answer", place.address),
        };
    }
    Ok(crate::print::out(&text)?)
}
