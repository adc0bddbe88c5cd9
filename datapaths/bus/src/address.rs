//! Which bus, as people write it.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where the sockets of the local bus are, unless said otherwise.
const FOLDER: &str = "/run/paceline/int";

/// Which bus.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// Sockets of this machine, in a folder: `local`, `local:FOLDER`.
    Local(PathBuf),
    /// A NATS server: `nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT]`, or `tls://...`.
    Nats(String),
}

impl Default for Address {
    fn default() -> Self {
        Self::Local(FOLDER.into())
    }
}

/// What an address cannot be. It has nothing of the text: wherever a mistake is, a password may be taken for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It begins otherwise.
    #[error(
        "it is not a bus; give local, local:/FOLDER or nats://HOST:PORT (tls:// with a certificate), in small letters"
    )]
    Scheme,
    /// There is more than one.
    #[error("it has a comma; give one server, such as nats://HOST:PORT")]
    List,
    /// White space or a control character.
    #[error("it has white space or a control character; give local, local:/FOLDER or nats://HOST:PORT")]
    Space,
    /// Nothing before the `@`, or no user before the password.
    #[error("it has no user before its @; give nats://USER:PASSWORD@HOST:PORT, or TOKEN@ before the host")]
    User,
    /// No host.
    #[error("it has no host; give one: nats://HOST:PORT")]
    Host,
    /// Letters that no host has.
    #[error("its host is neither a name nor an address; give nats://HOST:PORT, with nothing behind the port")]
    Name,
    /// IPv6 without brackets, or with one of them.
    #[error("an IPv6 address stands in brackets; give one such as nats://[2001:db8::10]:4222")]
    Brackets,
    /// The port.
    #[error("its port is not a number from 1 to 65535; give one such as nats://HOST:4222")]
    Port,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text.split_once(':') {
            _ if text.contains(char::is_control) => Err(AddressError::Space),
            None if text == "local" => Ok(Self::default()),
            Some(("local", folder)) if folder.starts_with('/') => Ok(Self::Local(folder.into())),
            Some(("nats" | "tls", rest)) => {
                server(rest.strip_prefix("//").ok_or(AddressError::Scheme)?)?;
                Ok(Self::Nats(text.to_owned()))
            }
            _ => Err(AddressError::Scheme),
        }
    }
}

/// Checks what stands behind the scheme. Of a password everything is taken as it is, an `@` too.
fn server(text: &str) -> Result<(), AddressError> {
    let (who, server) = text.rsplit_once('@').map_or((None, text), |(who, server)| (Some(who), server));
    if text.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
        return Err(AddressError::Space);
    }
    if server.contains(',') || text.contains(",nats://") || text.contains(",tls://") {
        return Err(AddressError::List);
    }
    if who.is_some_and(|who| who.is_empty() || who.starts_with(':')) {
        return Err(AddressError::User);
    }
    let port = match server.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or(AddressError::Brackets)?;
            address.parse::<Ipv6Addr>().map_err(|_| AddressError::Brackets)?;
            if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(AddressError::Name)?) }
        }
        None if server.contains(['[', ']']) || server.parse::<Ipv6Addr>().is_ok() => {
            return Err(AddressError::Brackets);
        }
        None => {
            let (host, port) = server.split_once(':').map_or((server, None), |(host, port)| (host, Some(port)));
            if host.is_empty() {
                return Err(AddressError::Host);
            }
            let numbers = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            if !is_host(host) || numbers && host.parse::<Ipv4Addr>().is_err() {
                return Err(AddressError::Name);
            }
            port
        }
    };
    let digits =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    if port.is_some_and(|port| !digits(port)) { Err(AddressError::Port) } else { Ok(()) }
}

/// RFC 1123 section 2.1, and `_`, which names within a site have.
fn is_host(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(letter);
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

impl Address {
    /// Whether there may be something on it: of a folder, that it exists.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Local(folder) => folder.is_dir(),
            Self::Nats(_) => true,
        }
    }

    /// Whether it has a password or a token in it.
    pub fn has_credentials(&self) -> bool {
        matches!(self, Self::Nats(url) if url.contains('@'))
    }
}

impl fmt::Display for Address {
    /// Without the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(folder) => write!(f, "local:{}", folder.display()),
            Self::Nats(url) => {
                let (scheme, rest) = url.split_once("//").unwrap_or(("nats:", url));
                write!(f, "{scheme}//{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host))
            }
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_credentials() {
        for (text, shown) in [
            ("local", "local:/run/paceline/int"),
            ("local:/tmp/bus", "local:/tmp/bus"),
            ("nats://a", "nats://a"),
            ("nats://a.example.:65535", "nats://a.example.:65535"),
            ("tls://int:SECRET@192.0.2.1:4222", "tls://192.0.2.1:4222"),
            ("nats://int:SEC@RE/T@[2001:db8::10]", "nats://[2001:db8::10]"),
            ("nats://TOKEN@my_host:1", "nats://my_host:1"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.to_string(), format!("{address:?}")), (shown.to_owned(), shown.to_owned()));
            assert_eq!(address.has_credentials(), text.contains('@'));
        }
    }

    #[test]
    fn what_can_never_be_is_refused_and_no_password_is_said() {
        use AddressError::{Brackets, Host, List, Name, Port, Scheme, Space, User};
        for (text, why) in [
            ("", Scheme),
            ("kafka://a", Scheme),
            ("locl", Scheme),
            ("local:folder", Scheme),
            ("local:/folder\n", Space),
            ("NATS://int:SECRET@a", Scheme),
            ("Tls://a", Scheme),
            ("nats:a", Scheme),
            ("nats:/int:SECRET@a", Scheme),
            ("nats", Scheme),
            (" nats://a", Scheme),
            ("int:SECRET@a", Scheme),
            ("nats://a,nats://b", List),
            ("nats://int:SECRET@a,nats://int:SECRET@b", List),
            ("nats://a,b", List),
            ("nats://a b", Space),
            ("nats://int:SECRET\n@a", Space),
            ("nats://@a", User),
            ("nats://:SECRET@a", User),
            ("nats://", Host),
            ("nats://int:SECRET@", Host),
            ("nats://:4222", Host),
            ("nats://a:99999", Port),
            ("nats://a:0", Port),
            ("nats://a:", Port),
            ("nats://a:+1", Port),
            ("nats://int:SECRET", Port),
            ("nats://127.0.0.1:4222/SECRET", Port),
            ("nats://[::1]:65536", Port),
            ("nats://a:1:2", Port),
            ("nats://2001:db8::10", Brackets),
            ("nats://[2001:db8::10", Brackets),
            ("nats://2001:db8::10]", Brackets),
            ("nats://[a]", Brackets),
            ("nats://[::1]4222", Name),
            ("nats://a/b", Name),
            ("nats://a?b", Name),
            ("nats://nats://a", Port),
            ("nats://a..b", Name),
            ("nats://256.0.0.1", Name),
            ("nats://ü", Name),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error, why, "{text}");
            let said = error.to_string();
            assert!(!said.contains("SECRET") && said.contains("; give "), "{said}");
        }
    }
}
