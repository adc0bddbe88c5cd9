//! Socket options for which no safe call exists elsewhere.

use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};

/// `struct tcp_info` up to `tcpi_sndbuf_limited`, which Linux has had since 4.10.
pub(crate) const TCP_INFO_BYTES: usize = 192;

sockopt_impl!(
    /// Which timestamps the socket reports, `SOF_TIMESTAMPING_*`.
    Timestamping,
    Both,
    libc::SOL_SOCKET,
    libc::SO_TIMESTAMPING,
    u32
);
sockopt_impl!(
    /// The kernel spreads what it sends to this rate, in bytes a second.
    MaxPacingRate,
    Both,
    libc::SOL_SOCKET,
    libc::SO_MAX_PACING_RATE,
    u64
);
sockopt_impl!(
    /// Bytes that may wait unsent in the kernel before it takes no more.
    NotSentLowat,
    Both,
    libc::IPPROTO_TCP,
    libc::TCP_NOTSENT_LOWAT,
    u32
);
sockopt_impl!(
    /// What the kernel knows of the connection.
    TcpInfo,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    [u8; TCP_INFO_BYTES]
);
