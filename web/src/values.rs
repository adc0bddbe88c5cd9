//! Events as JavaScript sees them: what every guest sees ([`paceline_lab::guest_values`]), as JSON. What is unknown is `null`; whole
//! numbers above 2^53, as a seed is, lose their last digits there.

use paceline_cc as cc;
use paceline_lab::guest::Argument;
use serde::Serialize;
use serde_json::{Value, json};

/// A struct that is JSON with the fields of one of `cc`, and how each is read from it.
macro_rules! value {
    ($(#[$about:meta])* $name:ident of $from:ty, $($(#[$meaning:meta])* $field:ident: $kind:ty = $read:expr),+ $(,)?) => {
        $(#[$about])*
        #[derive(Serialize)]
        pub(crate) struct $name {
            $($(#[$meaning])* $field: $kind),+
        }

        impl From<&$from> for $name {
            fn from(from: &$from) -> Self {
                $(let $field: fn(&$from) -> $kind = $read;)+
                Self { $($field: $field(from)),+ }
            }
        }
    };
}

paceline_lab::guest_values!(value);

/// `now` and `event` of a call.
pub(crate) fn call(argument: Argument<'_>) -> Value {
    match argument {
        Argument::Sent(sent) => json!({ "now": sent.now.as_nanos(), "event": Sent::from(sent) }),
        Argument::Ack(ack) => json!({ "now": ack.now.as_nanos(), "event": Ack::from(ack) }),
        Argument::Loss(loss) => json!({ "now": loss.now.as_nanos(), "event": Loss::from(loss) }),
        Argument::Timeout(timeout) => json!({ "now": timeout.now.as_nanos(), "event": Timeout::from(timeout) }),
        Argument::Lost(packets) => json!({ "event": packets.iter().map(Lost::from).collect::<Vec<_>>() }),
        Argument::Restart(restart) => json!({ "now": restart.now.as_nanos(), "event": Restart::from(restart) }),
        Argument::Telemetry(telemetry) => {
            json!({ "now": telemetry.now.as_nanos(), "event": Telemetry::from(telemetry) })
        }
        Argument::Mss(mss) => json!({ "event": mss }),
        Argument::Now(now) => json!({ "now": now.as_nanos() }),
    }
}
