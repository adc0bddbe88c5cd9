//! A Wi-Fi link, 802.11n or 802.11ac at 5 GHz, as an event model without radio samples.
//!
//! Both directions of a link, and all links of one channel, share one half-duplex medium. What sends into it, an access
//! point, a station or a competitor that always has frames, contends for it by backoff; who wins sends one aggregate of what waits at
//! that moment; frames are lost one by one and sent again, and the receiver puts them in order. So a deeper queue makes longer
//! aggregates, requests upwards take time from data downwards, and the access delay has a long tail.
//!
//! Each direction is one stage of its path, a [`Radio`], which holds the medium in common with the others. What is pushed into one
//! direction can only make what another one is waiting for later, never earlier, so that each path may be looked at when it said.
//!
//! Sources: IEEE 802.11-2016 clauses 10, 19, 21; Høiland-Jørgensen et al., "Ending the Anomaly", USENIX ATC 2017, for the
//! arithmetic of aggregates. Not modelled: hidden nodes, frames to several users at once, transmission opportunities of several
//! aggregates, power save, roaming (an outage), beacons, and the two aggregates that hardware takes from the queue ahead of time.

mod contention;
mod keys;
mod medium;
mod phy;
mod radio;
mod reorder;
mod sender;
mod walk;

pub use keys::{SharedChannel, Turns, Walk, Wifi, WifiWindow};
pub use phy::{Phy, PhyError};
pub use radio::{Air, Media, Radio, Seat, WifiRole};
