//! Objects of Named Data Networking, for who has a forwarder of it (NFD, NDNd): names, packets, links, and a consumer that asks under a
//! congestion controller of ours.
//!
//! Sources: NDN Packet Format Specification 0.3; NDNLPv2; NDN naming conventions revision 3; Realtime Data Retrieval (RDR).

mod consume;
mod link;
mod name;
mod packet;
mod tlv;

pub use consume::{ConsumeFailed, Consumed, Consumer, ConsumerStats};
pub use link::{Fragments, LinkFrame, NackReason};
pub use name::{BadNdnName, NdnName};
pub use packet::{ContentKind, Interest, NdnData, Produced, Signature};
pub use tlv::{BadNdn, frame_length};

/// Longest packet of the network layer: `MAX_NDN_PACKET_SIZE` of ndn-cxx, `MaxNDNPacketSize` of NDNd.
pub const MAX_PACKET: usize = 8800;

/// Longest packet of a link that is read: one of the network layer, and fields of the link (our choice: 256 bytes for them).
pub const MAX_FRAME: usize = MAX_PACKET + 256;
