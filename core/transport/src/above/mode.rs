//! How a real socket is used by the controller above it. Real sockets and scenarios name the same ways.

use std::fmt;

use paceline_cc::datapath::{ALCC, ALCC_FRAMED, ALCC_INLINE, ALCC_QUEUE, Datapath};

/// How bytes reach TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// What serves best: framed in a race whose controller has a receiver half, else [`Mode::Queue`], until the application
    /// uses a call that copies nothing.
    #[default]
    Auto,
    /// Through a queue of ours, in chunks that the controller permits.
    Queue,
    /// Straight to the kernel, whose pacing rate and buffers the controller sets.
    Inline,
    /// Through a queue of ours, in frames that our own receiver acknowledges. It must be at the other end.
    Framed,
}

/// Where acknowledgements come from, unless they are our own receiver's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// [`Acks::Stamps`] where the kernel gives them, else [`Acks::Info`].
    #[default]
    Auto,
    /// Timestamps on the socket's error queue.
    Stamps,
    /// `TCP_INFO` alone.
    Info,
}

impl Mode {
    /// Every one, by the word that options have for it.
    pub const WORDS: [(&'static str, Self); 4] =
        [("auto", Self::Auto), ("queue", Self::Queue), ("inline", Self::Inline), ("framed", Self::Framed)];

    /// What it offers to a controller; for [`Mode::Auto`] what the best for that controller does.
    pub fn datapath(self) -> &'static Datapath {
        match self {
            Self::Auto => &ALCC,
            Self::Queue => &ALCC_QUEUE,
            Self::Inline => &ALCC_INLINE,
            Self::Framed => &ALCC_FRAMED,
        }
    }
}

impl Acks {
    /// Every one, by the word that options have for it.
    pub const WORDS: [(&'static str, Self); 3] = [("auto", Self::Auto), ("stamps", Self::Stamps), ("info", Self::Info)];
}

/// The word that stands for a value.
fn word<T: PartialEq>(value: &T, words: &[(&'static str, T)]) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word)
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(self, &Self::WORDS))
    }
}

impl fmt::Display for Acks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(self, &Self::WORDS))
    }
}
