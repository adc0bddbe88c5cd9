//! A client in this process, which does what clients must not.

use std::io::IoSlice;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use paceline_alcc::transfer::token::Token;
use paceline_alcc::transfer::{Answer, Client, GREETING, Kind, NONCE, News, Request};
use paceline_alcc::{Engine, Mode, Options, Socket};

/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_mins(2);

/// A framed connection.
pub(super) struct Raw {
    pub(super) socket: Arc<Socket>,
    client: Option<Client>,
    token: Option<Token>,
}

impl Raw {
    pub(super) fn connect(address: &str) -> Self {
        let engine = Engine::start(Options { mode: Mode::Framed, ..Options::default() }).unwrap();
        let socket = engine.adopt(TcpStream::connect(address).unwrap().into()).unwrap();
        Self { socket, client: None, token: None }
    }

    /// Who holds this token.
    pub(super) fn with(self, token: Token) -> Self {
        Self { token: Some(token), ..self }
    }

    pub(super) fn send(&self, bytes: &[u8]) -> bool {
        self.socket.send(&[IoSlice::new(bytes)], false).is_ok()
    }

    /// The next `count` bytes, or fewer where it ends.
    pub(super) fn take(&self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let mut have = 0;
        while have < count {
            match self.socket.recv_within(&mut bytes[have..], LIMIT) {
                Ok(0) | Err(_) => break,
                Ok(more) => have += more,
            }
        }
        bytes.truncate(have);
        bytes
    }

    pub(super) fn nonce(&self) -> [u8; NONCE] {
        let greeting = self.take(GREETING);
        *greeting.last_chunk().unwrap()
    }

    /// Asks as a client does.
    pub(super) fn ask(&mut self, request: Request) -> Answer {
        self.client = Some(Client::new(request, self.token.clone()));
        self.answer()
    }

    /// The next answer, whichever it is.
    pub(super) fn answer(&mut self) -> Answer {
        let client = self.client.as_mut().unwrap();
        loop {
            let (mut byte, mut out) = ([0], Vec::new());
            assert_eq!(self.socket.recv_within(&mut byte, LIMIT).unwrap(), 1, "it ended without a word");
            let news = client.read(&mut byte.as_slice(), &mut out).unwrap();
            if !out.is_empty() {
                self.socket.send(&[IoSlice::new(&out)], false).unwrap();
            }
            if let Some(News::Answer(answer) | News::End(answer)) = news {
                return answer;
            }
        }
    }
}

/// A put of an upload that is known by one number.
pub(super) fn put(name: &str, size: usize, id: u8) -> Request {
    Request { size: size as u64, id: [id; NONCE], ..Request::new(Kind::Put, name) }
}
