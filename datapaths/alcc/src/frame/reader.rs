//! The client's end of a framed connection: it reads the application's bytes and acknowledges them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use paceline_cc::{ReceiverHalf, Time};
use paceline_linux::clock::{monotonic, span, wait};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use super::{Connection, News};

/// Bytes that one read asks the kernel for. 64 KiB: 5 ms at 100 Mbit/s (our choice).
const BUFFER: usize = 64 * 1024;

/// A framed connection that is read, for clients of a server in [`Mode::Framed`](crate::Mode::Framed). It needs no thread:
/// acknowledgements leave while [`Reader::read`] is called, or waits, so a client that stops reading stops the server.
/// Several threads cannot read at once.
pub struct Reader {
    fd: OwnedFd,
    connection: Connection,
    buffer: Vec<u8>,
    /// What of the buffer has been read from the socket and not been looked at, and when it came.
    at: usize,
    end: usize,
    came_at: Time,
    /// Acknowledgements that the kernel has not taken.
    out: Vec<u8>,
    ended: bool,
}

impl Reader {
    /// Takes a connected TCP socket. `half`: the receiver half of the server's controller, where it has one
    /// ([`paceline_cc::Spec::build_receiver`]).
    ///
    /// # Errors
    /// What the kernel says of a descriptor that is not a TCP socket.
    pub fn new(fd: OwnedFd, half: Option<Box<dyn ReceiverHalf>>) -> io::Result<Self> {
        // An acknowledgement is never kept back for more.
        sockopt::set_tcp_nodelay(&fd, true)?;
        Ok(Self {
            fd,
            connection: Connection::new(half),
            buffer: vec![0; BUFFER],
            at: 0,
            end: 0,
            came_at: Time::ZERO,
            out: Vec::new(),
            ended: false,
        })
    }

    /// Reads bytes of the application: waits until there are some, and acknowledges meanwhile. 0 is the end.
    ///
    /// # Errors
    /// As [`Reader::try_read`], but never [`io::ErrorKind::WouldBlock`].
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.try_read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                result => return result,
            }
        }
    }

    /// As [`Reader::read`], without waiting. A caller that waits asks again when the descriptor can be read, and after
    /// [`Reader::next_timeout`].
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is nothing; [`io::ErrorKind::InvalidData`] with a
    /// [`Violation`](super::Violation) when the server breaks the format: the connection has to be closed; or what
    /// the kernel says.
    pub fn try_read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            let taken = self.take(bytes)?;
            if taken > 0 {
                return Ok(taken);
            }
            // Everything that the last read brought has been taken: one acknowledgement for it.
            self.acknowledge()?;
            if self.ended {
                return Ok(0);
            }
            match recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => {
                    self.connection.end().map_err(invalid)?;
                    self.ended = true;
                }
                Ok((_, count)) => (self.at, self.end, self.came_at) = (0, count.min(BUFFER), monotonic()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// How long after now an acknowledgement is due; `None` until something arrives.
    pub fn next_timeout(&self) -> Option<Duration> {
        let due = self.connection.next_timeout();
        (due < Time::NEVER).then(|| Duration::from_nanos((due - monotonic()).as_nanos()))
    }

    /// Delivers what the buffer holds.
    fn take(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut taken = 0;
        // Also with nothing left in the buffer: a frame may be complete that has not been reported.
        while taken < bytes.len() {
            // No more than fits: what is not looked at waits in the buffer.
            let upto = self.end.min(self.at + bytes.len() - taken);
            let mut input = &self.buffer[self.at..upto];
            let news = self.connection.read(self.came_at, &mut input).map_err(invalid)?;
            self.at = upto - input.len();
            match news {
                Some(News::Payload(payload)) => {
                    bytes[taken..taken + payload.len()].copy_from_slice(payload);
                    taken += payload.len();
                }
                // This end writes nothing that could be acknowledged.
                Some(News::Acked(_)) => {}
                None if self.at == self.end => break,
                None => {}
            }
        }
        Ok(taken)
    }

    /// Writes the acknowledgement that is due, or the rest of one.
    fn acknowledge(&mut self) -> io::Result<()> {
        if self.out.is_empty() && !self.ended {
            self.connection.ack(monotonic(), &mut self.out);
        }
        while !self.out.is_empty() {
            match send(&self.fd, &self.out, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                // The server listens no more; what it has sent can still be read.
                Err(Errno::PIPE | Errno::CONNRESET) => self.out.clear(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<()> {
        let mut events = PollFlags::IN;
        if !self.out.is_empty() {
            events |= PollFlags::OUT;
        }
        let due = self.connection.next_timeout();
        let longest = (due < Time::NEVER).then(|| span(due - monotonic()));
        wait(&mut [PollFd::new(&self.fd, events)], longest).map(drop)
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn invalid(violation: super::Violation) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, violation)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use paceline_cc::Nanos;

    use super::super::{ACK_EVERY, Ack, Violation};
    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, client)
    }

    /// Acknowledgements that come to `server`, until one has `position`.
    fn acks(server: &mut TcpStream, connection: &mut Connection, position: u64) -> Vec<Ack> {
        let (mut buffer, mut acks) = ([0; 256], Vec::new());
        while connection.acked() < position {
            let count = server.read(&mut buffer).unwrap();
            let mut input = &buffer[..count];
            while let Some(news) = connection.read(monotonic(), &mut input).unwrap() {
                if let News::Acked(ack) = news {
                    acks.push(ack);
                }
            }
        }
        acks
    }

    #[test]
    fn every_byte_comes_and_is_acknowledged() {
        let (mut server, client) = pair();
        let mut reader = Reader::new(client.into(), None).unwrap();
        let client = std::thread::spawn(move || {
            let (mut all, mut buffer) = (Vec::new(), [0; 700]);
            loop {
                match reader.read(&mut buffer).unwrap() {
                    0 => return all,
                    count => all.extend_from_slice(&buffer[..count]),
                }
            }
        });
        let (mut connection, mut wire, mut sent) = (Connection::new(None), Vec::new(), Vec::new());
        for number in 0..500_u32 {
            let payload = vec![number as u8; (number * 7 % 1500) as usize];
            connection.data(payload.len() as u32, 0, &mut wire).unwrap();
            wire.extend_from_slice(&payload);
            sent.extend_from_slice(&payload);
        }
        server.write_all(&wire).unwrap();
        let acks = acks(&mut server, &mut connection, sent.len() as u64);
        assert!(acks.iter().all(|ack| ack.delay < Nanos::from_secs(10)));
        server.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(client.join().unwrap() == sent);
    }

    #[test]
    fn the_last_acknowledgement_waits_for_its_turn_and_comes() {
        let (mut server, client) = pair();
        let mut reader = Reader::new(client.into(), None).unwrap();
        let (mut connection, mut wire, mut buffer) = (Connection::new(None), Vec::new(), [0; 8]);
        for payload in [b"one!", b"two!"] {
            connection.data(4, 0, &mut wire).unwrap();
            wire.extend_from_slice(payload);
            server.write_all(&wire).unwrap();
            wire.clear();
            assert_eq!(reader.read(&mut buffer).unwrap(), 4);
            assert_eq!(reader.try_read(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        let left = reader.next_timeout();
        assert!(left.is_none_or(|left| left <= Duration::from_nanos(ACK_EVERY.as_nanos())));
        reader.wait().unwrap();
        let _ = reader.try_read(&mut buffer);
        assert_eq!(acks(&mut server, &mut connection, 8).last().unwrap().position, 8);
    }

    #[test]
    fn a_stranger_is_refused_in_one_line() {
        let (mut server, client) = pair();
        let mut reader = Reader::new(client.into(), None).unwrap();
        server.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
        let error = reader.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(error.to_string(), Violation::Version(b'H').to_string());
    }
}
