//! Reading and writing several messages of a socket by one call of the kernel, and what the kernel says beside a message
//! (recvmmsg(2), cmsg(3)): rustix has no calls for that. They are nix's, which is used here alone.

pub use nix::cmsg_space;
pub use nix::errno::Errno;
pub use nix::sys::socket::{
    ControlMessageOwned, LinkAddr, MsgFlags, MultiHeaders, SockaddrIn, SockaddrStorage, recvmmsg, recvmsg, sendmmsg,
};
pub use nix::sys::time::TimeSpec;
