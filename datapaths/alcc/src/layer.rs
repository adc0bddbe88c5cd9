//! What may stand between frames and TCP: encryption.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::Sender;

use paceline_cc::Nanos;

use crate::frame::Violation;

/// What stands between frames and TCP, such as TLS whose handshake is done. It touches no socket.
pub trait Layer: Send {
    /// Takes what is to be sent, and appends what goes to TCP; of itself too, without anything to send.
    ///
    /// # Errors
    /// It can send no more.
    fn seal(&mut self, plain: &[u8], out: &mut VecDeque<u8>) -> io::Result<()>;

    /// Takes what TCP brought, and appends what it held; says whether the peer has ended its stream. Called once with nothing, for
    /// what came with the handshake.
    ///
    /// # Errors
    /// What came is not genuine.
    fn open(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> io::Result<bool>;

    /// Appends that nothing more will be sent.
    fn end(&mut self, out: &mut VecDeque<u8>);
}

/// What a framed socket may have beside its frames.
#[derive(Default)]
pub struct Framing {
    /// What stands below the frames.
    pub layer: Option<Box<dyn Layer>>,
    /// Where each sample of the RTT goes: of acknowledgements, without how long they waited at the receiver.
    pub rtts: Option<Sender<Nanos>>,
}

/// The bytes between frames and TCP.
#[derive(Default)]
pub(crate) struct Below {
    layer: Option<Box<dyn Layer>>,
    /// What goes to TCP, where there is a layer.
    sealed: VecDeque<u8>,
    opened: Vec<u8>,
    /// The layer's end is among them.
    ended: bool,
}

impl Below {
    pub(crate) fn new(layer: Option<Box<dyn Layer>>) -> Self {
        Self { layer, ..Self::default() }
    }

    /// What goes to TCP next of what was framed.
    pub(crate) fn seal<'a>(&'a mut self, wire: &'a mut VecDeque<u8>) -> Result<&'a mut VecDeque<u8>, Violation> {
        let Some(layer) = &mut self.layer else { return Ok(wire) };
        if !self.ended {
            layer.seal(wire.make_contiguous(), &mut self.sealed).map_err(|_| Violation::Layer)?;
        }
        wire.clear();
        Ok(&mut self.sealed)
    }

    /// What TCP's bytes hold, and whether the peer has ended its stream by the layer's word.
    pub(crate) fn open<'a>(&'a mut self, bytes: &'a [u8]) -> Result<(&'a [u8], bool), Violation> {
        let Some(layer) = &mut self.layer else { return Ok((bytes, false)) };
        self.opened.clear();
        let ended = layer.open(bytes, &mut self.opened).map_err(|_| Violation::Layer)?;
        Ok((&self.opened, ended))
    }

    /// Nothing more will be framed; says whether the layer has something to say of it.
    pub(crate) fn end(&mut self) -> bool {
        let Some(layer) = self.layer.as_mut().filter(|_| !self.ended) else { return false };
        self.ended = true;
        layer.end(&mut self.sealed);
        true
    }

    /// The layer has said that nothing more will be framed.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// What was framed has left.
    pub(crate) fn is_out(&self) -> bool {
        self.sealed.is_empty()
    }
}
