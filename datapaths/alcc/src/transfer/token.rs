//! Permission: a token is a secret that the server's key makes of a time and a scope, so that the server remembers nothing.
//!
//! What travels is a proof that the client holds the secret, over the server's nonce and the whole request: a listener on the way can
//! neither use it again nor change the request. HMAC-SHA256 is that of RFC 2104 and FIPS 198-1.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;
use ring::hmac::{self, HMAC_SHA256};

use super::{MAX_SCOPE, NONCE, Request};

/// Bytes of a key, of a secret and of a proof: those of SHA-256.
pub const PROOF: usize = 32;
/// That a client holds a secret.
pub type Proof = [u8; PROOF];

/// What makes a secret of our key one of these tokens, and nothing else.
const PURPOSE: &[u8] = b"paceline token 1";
/// What a token begins with.
const PREFIX: &str = "plt1";

/// A server's key, which makes tokens.
pub struct Key(hmac::Key);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// The key of these bytes.
    pub fn new(bytes: &[u8; PROOF]) -> Self {
        Self(hmac::Key::new(HMAC_SHA256, bytes))
    }

    /// A token until `expiry` (seconds since 1970; 0 for no end), for names that begin with `scope`.
    ///
    /// # Errors
    /// [`TokenError::Scope`].
    pub fn token(&self, expiry: u64, scope: &str) -> Result<Token, TokenError> {
        if scope.len() > MAX_SCOPE || scope.chars().any(char::is_control) {
            return Err(TokenError::Scope);
        }
        Ok(Token { expiry, scope: scope.to_owned(), secret: self.secret(expiry, scope) })
    }

    fn secret(&self, expiry: u64, scope: &str) -> Proof {
        let message = [PURPOSE, &expiry.to_be_bytes(), scope.as_bytes()].concat();
        bytes_of(hmac::sign(&self.0, &message))
    }

    /// Whether a request that came in answer to `nonce` may be granted at `now` (seconds since 1970).
    ///
    /// # Errors
    /// Why not. A client without a token learns only that.
    pub fn check(&self, request: &Request, nonce: &[u8; NONCE], now: u64) -> Result<(), Denied> {
        let secret = hmac::Key::new(HMAC_SHA256, &self.secret(request.expiry, &request.scope));
        let message = [nonce, request.signed().as_slice()].concat();
        hmac::verify(&secret, &message, &request.proof).map_err(|_| Denied::Token)?;
        if request.expiry != 0 && now >= request.expiry {
            return Err(Denied::Expired);
        }
        if request.kind.has_name() && !request.name.starts_with(&request.scope) {
            return Err(Denied::Scope(request.scope.clone()));
        }
        Ok(())
    }
}

/// Why a request is not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It proves no token of this server's key.
    #[error("this needs a token of this server; ask its operator for one (paceline alcc token)")]
    Token,
    /// The token was good once.
    #[error("the token has expired; ask for a new one")]
    Expired,
    /// The token is for other names.
    #[error("the token is for names that begin with '{0}'")]
    Scope(String),
}

/// No token, in the text that people pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It has another form.
    #[error("a token is plt1.EXPIRY.SCOPE.SECRET, as `paceline alcc token` prints it; copy all of it")]
    Form,
    /// The scope is too long, or no text.
    #[error("a scope is a text of at most {MAX_SCOPE} bytes without control characters; give a shorter one")]
    Scope,
}

/// What a client holds. Its text is `plt1.EXPIRY.SCOPE.SECRET`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    expiry: u64,
    scope: String,
    secret: Proof,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("expiry", &self.expiry).field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl Token {
    /// What names have to begin with.
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// Until when it is good, in seconds since 1970; 0 for no end.
    pub fn expiry(&self) -> u64 {
        self.expiry
    }

    /// Puts the proof into a request that answers `nonce`.
    pub fn sign(&self, request: &mut Request, nonce: &[u8; NONCE]) {
        (request.expiry, request.scope) = (self.expiry, self.scope.clone());
        let key = hmac::Key::new(HMAC_SHA256, &self.secret);
        request.proof = bytes_of(hmac::sign(&key, &[nonce, request.signed().as_slice()].concat()));
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encode = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        write!(f, "{PREFIX}.{}.{}.{}", self.expiry, encode(self.scope.as_bytes()), encode(&self.secret))
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let parts: Vec<&str> = text.split('.').collect();
        let [PREFIX, expiry, scope, secret] = parts.as_slice() else { return Err(TokenError::Form) };
        let number = expiry.parse().ok().filter(|number: &u64| number.to_string() == *expiry);
        let expiry = number.filter(|number| *number < crate::frame::LIMIT).ok_or(TokenError::Form)?;
        // One spelling for the same bytes: it checks the last bits.
        let decode = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes()).ok();
        let scope = decode(scope).and_then(|scope| String::from_utf8(scope).ok()).ok_or(TokenError::Form)?;
        let secret = decode(secret).and_then(|secret| secret.try_into().ok()).ok_or(TokenError::Form)?;
        if scope.len() > MAX_SCOPE || scope.chars().any(char::is_control) {
            return Err(TokenError::Scope);
        }
        Ok(Self { expiry, scope, secret })
    }
}

fn bytes_of(tag: hmac::Tag) -> Proof {
    let mut bytes = [0; PROOF];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}
