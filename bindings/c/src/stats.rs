//! `struct alcc_stats`: the figures of a socket ([`paceline_alcc::figures`]) in numbers of one size.

use std::ffi::c_char;

use paceline_alcc::{Acks, LimitedBy, Mode, SocketStats};
use paceline_cc::Nanos;

/// A row: a field; the figure that it is, by its name in [`SocketStats`]; what `alcc.h` says of it beside that; how it is made.
macro_rules! stats {
    ($($name:ident: $type:ident = $figure:ident, $note:literal, $get:expr;)+) => {
        /// State and counters of a connection, as `alcc.h` has them.
        #[repr(C)]
        #[expect(missing_docs, reason = "alcc.h says what each is")]
        #[derive(Clone, Debug)]
        pub struct Stats {
            $(pub $name: $type,)+
            pub reserved_word: i32,
            pub controller: [c_char; 64],
            pub reserved: [u64; 8],
        }

        impl Stats {
            pub(crate) fn of(stats: &SocketStats) -> Self {
                let mut controller = [0; 64];
                // The last stays 0. Names and numbers are ASCII.
                for (place, byte) in controller[..63].iter_mut().zip(stats.controller.bytes()) {
                    *place = byte.cast_signed();
                }
                $(let $name: fn(&SocketStats) -> $type = $get;)+
                Self { $($name: $name(stats),)+ reserved_word: 0, controller, reserved: [0; 8] }
            }
        }

        /// The fields before the reserved word, for the header: name, type, figure, what else to say.
        #[cfg(test)]
        const FIELDS: &[(&str, &str, &str, &str)] =
            &[$((stringify!($name), stringify!($type), stringify!($figure), $note),)+];
    };
}

fn micros(span: Option<Nanos>) -> u64 {
    span.map_or(0, |span| span.as_nanos() / 1000)
}

stats! {
    age_us: u64 = age, "", |stats| micros(Some(stats.age));
    rate: u64 = rate, "bytes per second", |stats| stats.rate.as_bytes_per_sec();
    rtt_us: u64 = rtt, "", |stats| micros(stats.rtt);
    srtt_us: u64 = srtt, "", |stats| micros(stats.srtt);
    min_rtt_us: u64 = min_rtt, "", |stats| micros(stats.min_rtt);
    below_us: u64 = below, "", |stats| micros(Some(stats.below));
    window: u64 = window, "bytes", |stats| stats.window;
    lower_window: u64 = lower_window, "bytes", |stats| stats.lower_window;
    in_flight: u64 = in_flight, "bytes", |stats| stats.in_flight;
    queued: u64 = queued, "bytes", |stats| stats.queued;
    written: u64 = written, "bytes", |stats| stats.written;
    delivered: u64 = delivered, "bytes", |stats| stats.delivered;
    chunks: u64 = chunks, "", |stats| stats.chunks;
    limited_below: u64 = limited_below, "", |stats| stats.limited_below;
    stamps_lost: u64 = stamps_lost, "", |stats| stats.stamps_lost;
    marked: u64 = marked, "", |stats| stats.marked;
    retransmits: u64 = retransmits, "", |stats| stats.retransmits.into();
    timeouts: u64 = timeouts, "", |stats| stats.timeouts.into();
    limited_by: i32 = limited_by, "enum alcc_limit", |stats| limit(stats.limited_by);
    mode: i32 = mode, "enum alcc_mode", |stats| mode(stats.mode);
    acks: i32 = acks, "enum alcc_acks", |stats| acks(stats.acks);
}

fn limit(by: LimitedBy) -> i32 {
    match by {
        LimitedBy::Nothing => 0,
        LimitedBy::Application => 1,
        LimitedBy::Window => 2,
        LimitedBy::Pacing => 3,
        LimitedBy::LayerBelow => 4,
    }
}

fn mode(mode: Mode) -> i32 {
    match mode {
        Mode::Auto | Mode::Queue => 1,
        Mode::Inline => 2,
        Mode::Framed => 3,
    }
}

fn acks(acks: Acks) -> i32 {
    match acks {
        Acks::Auto | Acks::Stamps => 1,
        Acks::Info => 2,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;

    use paceline_alcc::figures::FIGURES;

    use super::FIELDS;

    const BEGIN: &str = "struct alcc_stats {\n";
    const END: &str = "};\n";
    /// The comments begin there.
    const COLUMN: usize = 23;

    fn fields() -> String {
        let mut text = String::new();
        let mut add = |declaration: &str, comment: &str| {
            writeln!(text, "\t{declaration:COLUMN$} /* {comment} */").expect("a string takes everything");
        };
        for (name, kind, figure, note) in FIELDS {
            let figure = FIGURES.iter().find(|known| known.field == *figure).expect("it is a figure");
            let what = figure.what.trim_end_matches('.').replace('`', "");
            // An enum says itself what its values mean.
            let comment = match *note {
                "" => what,
                note if note.starts_with("enum ") => note.to_owned(),
                note => format!("{what}; {note}"),
            };
            let kind = if *kind == "u64" { "uint64_t" } else { "int32_t" };
            add(&format!("{kind} {name};"), &comment);
        }
        add("int32_t reserved_word;", "0");
        add("char controller[64];", "NAME:KEY=VALUE, cut at 63 bytes");
        add("uint64_t reserved[8];", "0");
        text
    }

    #[test]
    fn the_header_has_the_figures() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/alcc.h");
        let header = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = header.split_once(BEGIN).unwrap();
        let (shown, after) = rest.split_once(END).unwrap();
        let fields = fields();
        if shown != fields && std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, format!("{before}{BEGIN}{fields}{END}{after}")).unwrap();
        } else {
            assert_eq!(shown, fields, "write it by: UPDATE=1 cargo test -p paceline-alcc-c --lib");
        }
    }
}
