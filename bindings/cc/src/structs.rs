//! The structures of `paceline_cc.h`, member by member. A test holds each offset against what a C compiler makes of the header.

#[cfg(test)]
mod tests;

use crate::passing::{Plain, Sized32};

macro_rules! structs {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:ident { $($member:ident: $type:ty,)+ })+) => {
        $(
            $(#[doc = $doc])+
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name {
                $(
                    #[doc = "See `paceline_cc.h`."]
                    pub $member: $type,
                )+
            }

            // SAFETY: numbers and pointers, which any bytes are.
            unsafe impl Plain for $name {
                const NAME: &'static str = stringify!($name);
            }

            structs!(@ $kind $name);
        )+

        /// Of each structure: its name, its size, and its members with their offsets and sizes.
        #[cfg(test)]
        fn layout() -> Vec<(&'static str, usize, Vec<(&'static str, usize, usize)>)> {
            // The size of what a member holds.
            fn of<S, T>(_: fn(&S) -> &T) -> usize {
                size_of::<T>()
            }
            vec![$((
                stringify!($name),
                size_of::<$name>(),
                vec![$((stringify!($member), std::mem::offset_of!($name, $member), of(|it: &$name| &it.$member))),+],
            )),+]
        }
    };
    (@ sized $name:ident) => {
        // SAFETY: as above, and the first member is the size.
        unsafe impl Sized32 for $name {}

        impl $name {
            /// Zeros, and the size.
            pub const fn zero() -> Self {
                // SAFETY: zeros are a value of it.
                let mut zero: Self = unsafe { std::mem::zeroed() };
                zero.size = size_of::<Self>() as u32;
                zero
            }
        }
    };
    (@ plain $name:ident) => {};
}

structs! {
    /// What a controller is given once.
    sized paceline_env { size: u32, mss: u32, seed: u64, flags: u32, offers: u32, }

    /// What a controller is.
    sized paceline_nature {
        size: u32, recovery: u32, ecn: u32, needs: u32, heartbeat: u64, receiver_half: u32, reserved: u32,
    }

    /// What is permitted.
    sized paceline_permit {
        size: u32, flags: u32, window: u64, next_tick: u64, threshold: u64, pacing: u32, recovery: u32, pace: u64,
    }

    /// A packet that left.
    sized paceline_sent {
        size: u32, bytes: u32, now: u64, seq: u64, in_flight: u64, unsent: u64, flags: u32, reserved: u32,
    }

    /// What comes back with it.
    plain paceline_stamp { tag: u64, note: u64, }

    /// A packet that was delivered.
    plain paceline_acked { seq: u64, sent_at: u64, tag: u64, received_at: u64, bytes: u32, flags: u32, }

    /// An acknowledgement.
    sized paceline_ack {
        size: u32, flags: u32, now: u64, packets: *const paceline_acked, packet_count: u32, packet_size: u32,
        bytes: u64, rtt: u64, srtt: u64, min_rtt: u64, rate_delivered: u64, rate_interval: u64, rate_prior_delivered: u64,
        prior_in_flight: u64, in_flight: u64, lost_bytes: u64, ce_bytes: u64, delivered: u64, una: u64, next: u64,
        ce_packets: u32, phase: u32,
    }

    /// A packet that was lost.
    plain paceline_lost { seq: u64, sent_at: u64, tag: u64, bytes: u32, cause: u32, }

    /// Losses.
    sized paceline_loss {
        size: u32, flags: u32, now: u64, packets: *const paceline_lost, packet_count: u32, packet_size: u32,
        bytes: u64, prior_in_flight: u64, in_flight: u64,
    }

    /// A timeout.
    sized paceline_timeout {
        size: u32, count: u32, now: u64, packets: *const paceline_lost, packet_count: u32, packet_size: u32,
        prior_in_flight: u64, in_flight: u64,
    }

    /// What a hop reported.
    plain paceline_hop {
        id: u32, known: u32, arrived_at: u64, delay: u64, queue_bytes: u64, capacity: u64, arrival: u64,
        room_packets: u32, limit_packets: u32, flows: u32, drops: u32, signal_dbm: f32, radio_retry_share: f32,
    }

    /// What the hops reported.
    sized paceline_telemetry {
        size: u32, flags: u32, now: u64, hops: *const paceline_hop, hop_count: u32, hop_size: u32, fresh_for: u64,
        seq: u64, sent_at: u64, tag: u64, verdict: u32, reserved: u32,
    }

    /// Where a flow stands.
    sized paceline_state {
        size: u32, flags: u32, window: u64, next_tick: u64, threshold: u64, pacing: u32, recovery: u32, pace: u64,
        due: u64, in_flight: u64, srtt: u64, min_rtt: u64, rto: u64, delivered: u64,
    }

    /// A packet that was acknowledged.
    plain paceline_arrived { number: u64, received_at: u64, flags: u32, reserved: u32, }

    /// An acknowledgement of a flow.
    sized paceline_news {
        size: u32, flags: u32, now: u64, acked: *const paceline_arrived, acked_count: u32, acked_size: u32,
        lost: *const u64, lost_count: u32, ce_packets: u32, bytes: u64, newest: u64, in_flight: u64, rtt: u64,
    }

    /// The counters of a TCP.
    sized paceline_counters {
        size: u32, flags: u32, at: u64, una: u64, next: u64, highest: u64, unsent: u64, lost: u64, resent: u64,
        marked: u64, recoveries: u64, echoes: u64, timeouts: u64, undone: u64, rtt_newest: u64, rtt_least: u64,
        srtt: u64, first_departure: u64, last_departure: u64, mss: u32, ahead: u32, in_flight: u32, backoff: u32,
        phase: u32, limit: u32,
    }
}
