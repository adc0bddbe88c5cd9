//! Named content over sockets.
