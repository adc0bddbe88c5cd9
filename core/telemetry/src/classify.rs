//! Why packets are missing: a full queue, or the medium.
