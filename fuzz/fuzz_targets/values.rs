//! Values of options and keys: times, rates, sizes, shares, queues, Wi-Fi rates, contestants, buses. A refusal is one line; what is read and
//! printed is read again as the same. No printed bus has its password.
#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use paceline_bus::Address;
use paceline_cc::units::{rate_text, span_text};
use paceline_cc::{Bytes, Nanos, Rate};
use paceline_lab::contestant::Contestant;
use paceline_path::wifi::Phy;
use paceline_path::{QueueSpec, share};

fn again<T: FromStr<Err: Display> + PartialEq + Debug>(text: &str, print: impl Fn(&T) -> String) {
    match text.parse::<T>() {
        Ok(value) => {
            let printed = print(&value);
            let second = printed.parse::<T>().unwrap_or_else(|error| panic!("{text:?} prints as {printed:?}: {error}"));
            assert_eq!(second, value, "{text:?} prints as {printed:?}");
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.is_empty() && line.len() < 2000 && !line.contains(['\n', '\r', '\x1b']), "{line:?}");
        }
    }
}

fuzz_target!(|text: &str| {
    again::<Nanos>(text, |span| span_text(*span));
    again::<Rate>(text, |rate| rate_text(*rate));
    again::<Bytes>(text, Bytes::to_string);
    again::<QueueSpec>(text, QueueSpec::to_string);
    again::<Phy>(text, Phy::to_string);
    again::<Contestant>(text, Contestant::to_string);
    let _ = share(text);
    if let Ok(bus) = text.parse::<Address>() {
        // The folder of a local bus may have any name.
        let (_, rest) = text.split_once("//").filter(|(scheme, _)| !scheme.starts_with("local:")).unwrap_or_default();
        assert!(!rest.contains('@') || !bus.to_string().contains('@'), "{bus}");
        assert!(!format!("{bus:?}").contains('\n'));
    }
});
