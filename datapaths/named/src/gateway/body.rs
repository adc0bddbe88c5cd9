//! What an answer carries.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::GatewayError;
use super::places::Place;
use crate::client::Reader;
use crate::ndn::NdnReader;

/// The body of an answer.
#[derive(Debug)]
pub(super) enum Content {
    /// A text, or nothing.
    Text(Option<Bytes>),
    /// Bytes of an object, as they come. A failed fetch ends the connection before the length that was announced, so that no client
    /// takes the part for the whole.
    Object {
        /// The fetch.
        reader: Box<Reader>,
        /// Bytes to come.
        left: u64,
        /// Of the fetch among all.
        place: Place,
    },
    /// Bytes of an object of NDN, as they come. Where a fetch fails the last chunk (RFC 9112 section 7.1) is not sent.
    Ndn {
        /// The fetch.
        reader: Box<NdnReader>,
        /// Bytes to come, where that is known.
        left: Option<u64>,
        /// Of the fetch among all.
        place: Place,
    },
}

/// An answer on its way: as long as there is something of it to come, its connection does not wait for a request.
#[derive(Debug)]
pub(super) struct Served {
    content: Content,
    connection: Arc<Place>,
}

impl Served {
    pub(super) fn new(content: Content, connection: &Arc<Place>) -> Self {
        Self { content, connection: Arc::clone(connection) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.connection.waits();
    }
}

impl Body for Served {
    type Data = Bytes;
    type Error = GatewayError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, GatewayError>>> {
        let (polled, place) = match &mut self.get_mut().content {
            Content::Text(text) => return Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Content::Object { reader, left, place } => {
                let polled = reader.poll_chunk(cx).map_err(GatewayError::from);
                if let Poll::Ready(Ok(Some(bytes))) = &polled {
                    *left = left.saturating_sub(bytes.len() as u64);
                }
                (polled, place)
            }
            Content::Ndn { reader, left, place } => {
                let polled = reader.poll_chunk(cx).map_err(GatewayError::from);
                if let (Poll::Ready(Ok(Some(bytes))), Some(left)) = (&polled, left) {
                    *left = left.saturating_sub(bytes.len() as u64);
                }
                (polled, place)
            }
        };
        let Poll::Ready(chunk) = polled else {
            place.is_awaited();
            return Poll::Pending;
        };
        place.waits();
        Poll::Ready(chunk.transpose().map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Text(text) => text.is_none(),
            Content::Object { left, .. } => *left == 0,
            Content::Ndn { left, .. } => *left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Content::Object { left, .. } => SizeHint::with_exact(*left),
            Content::Ndn { left, .. } => left.map_or_else(SizeHint::new, SizeHint::with_exact),
        }
    }
}
