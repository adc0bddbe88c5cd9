//! Interests and Data.

use std::fmt;

use paceline_cc::Nanos;
use sha2::{Digest, Sha256};

use super::name::{NAME, NdnName, SEGMENT};
use super::tlv::{BadNdn, Elements, integer, only, put, put_integer};

/// Type of an Interest.
pub(super) const INTEREST: u32 = 5;
/// Type of a Data.
pub(super) const DATA: u32 = 6;
const NONCE: u32 = 10;
const LIFETIME: u32 = 12;
const MUST_BE_FRESH: u32 = 18;
const META_INFO: u32 = 20;
const CONTENT: u32 = 21;
const SIGNATURE_INFO: u32 = 22;
const SIGNATURE_VALUE: u32 = 23;
const CONTENT_TYPE: u32 = 24;
const FRESHNESS: u32 = 25;
const FINAL_BLOCK: u32 = 26;
const SIGNATURE_TYPE: u32 = 27;
const FORWARDING_HINT: u32 = 30;
const CAN_BE_PREFIX: u32 = 33;

/// What asks for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Of what.
    pub name: NdnName,
    /// A packet whose name begins with it will do.
    pub can_be_prefix: bool,
    /// One that a cache holds longer than its producer said will not.
    pub must_be_fresh: bool,
    /// Drawn anew for each, so that forwarders find loops.
    pub nonce: [u8; 4],
    /// How long forwarders keep it, in milliseconds on the wire.
    pub lifetime: Nanos,
}

impl Interest {
    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut value = Vec::with_capacity(64);
        self.name.put(&mut value);
        if self.can_be_prefix {
            put(&mut value, CAN_BE_PREFIX, &[]);
        }
        if self.must_be_fresh {
            put(&mut value, MUST_BE_FRESH, &[]);
        }
        put(&mut value, NONCE, &self.nonce);
        put_integer(&mut value, LIFETIME, self.lifetime.as_nanos() / 1_000_000);
        put(out, INTEREST, &value);
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// [`BadNdn`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BadNdn> {
        let packet = only(bytes, "Interest")?;
        if packet.kind != INTEREST {
            return Err(BadNdn::Unexpected { kind: packet.kind, within: "link" });
        }
        let mut elements = Elements::of(packet.value, "Interest");
        let name = NdnName::read(elements.need(NAME, "name")?.value)?;
        if name.is_empty() {
            return Err(BadNdn::Missing { what: "component of its name", within: "Interest" });
        }
        let can_be_prefix = elements.take(CAN_BE_PREFIX)?.is_some();
        let must_be_fresh = elements.take(MUST_BE_FRESH)?.is_some();
        elements.take(FORWARDING_HINT)?;
        let nonce = elements.need(NONCE, "nonce")?.value;
        let nonce = nonce.try_into().map_err(|_| BadNdn::Length { what: "nonce", length: nonce.len() })?;
        let lifetime = elements.take(LIFETIME)?;
        let lifetime = lifetime.map(|lifetime| integer(lifetime.value, "lifetime")).transpose()?;
        elements.end()?;
        // Packet format, section 3.6: 4 s where nothing is said.
        let lifetime = Nanos::from_nanos(lifetime.unwrap_or(4000).saturating_mul(1_000_000));
        Ok(Self { name, can_be_prefix, must_be_fresh, nonce, lifetime })
    }
}

/// What a Data is signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// Its SHA-256, which was checked: the packet is whole. It does not say who made it.
    Digest,
    /// By this number of the packet format, which was not checked.
    Unchecked(u64),
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Digest => return f.write_str("digest-sha256, checked"),
            Self::Unchecked(1) => "sha256-with-rsa",
            Self::Unchecked(3) => "sha256-with-ecdsa",
            Self::Unchecked(4) => "hmac-with-sha256",
            Self::Unchecked(5) => "ed25519",
            Self::Unchecked(200) => "null",
            Self::Unchecked(kind) => return write!(f, "type {kind}, not checked"),
        };
        write!(f, "{kind}, not checked")
    }
}

/// What a Data carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentKind {
    /// Bytes.
    Blob,
    /// The producer says that what was asked for is not there.
    Nack,
    /// Something else, by the number of the packet format: a link, a key.
    Other(u64),
}

/// What answers an Interest.
#[derive(Clone, Debug)]
pub struct NdnData<'a> {
    /// Its name.
    pub name: NdnName,
    /// What it carries.
    pub kind: ContentKind,
    /// The last segment of its object, where it says so.
    pub last: Option<u64>,
    /// The bytes that it carries.
    pub content: &'a [u8],
    /// What it is signed with.
    pub signature: Signature,
    whole: &'a [u8],
}

impl<'a> NdnData<'a> {
    /// Reads a packet, and checks its digest where it has one.
    ///
    /// # Errors
    /// [`BadNdn`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, BadNdn> {
        let packet = only(bytes, "Data")?;
        if packet.kind != DATA {
            return Err(BadNdn::Unexpected { kind: packet.kind, within: "link" });
        }
        if bytes.len() > super::MAX_PACKET {
            return Err(BadNdn::Long(bytes.len() as u64));
        }
        let mut elements = Elements::of(packet.value, "Data");
        let name = elements.need(NAME, "name")?;
        let meta = elements.take(META_INFO)?;
        let (kind, last) = meta.map_or(Ok((ContentKind::Blob, None)), |meta| meta_info(meta.value))?;
        let content = elements.take(CONTENT)?.map_or(&[][..], |content| content.value);
        let info = elements.need(SIGNATURE_INFO, "signature")?;
        // What is signed stands from the name to the information on the signature.
        let signed = &packet.value[..packet.value.len() - elements.left()];
        let value = elements.need(SIGNATURE_VALUE, "signature's value")?;
        elements.end()?;
        let name = NdnName::read(name.value)?;
        let signed_with = Elements::of(info.value, "signature").need(SIGNATURE_TYPE, "type")?;
        let signature = match integer(signed_with.value, "signature's type")? {
            0 if Sha256::digest(signed).as_slice() == value.value => Signature::Digest,
            0 => return Err(BadNdn::Digest),
            other => Signature::Unchecked(other),
        };
        Ok(Self { name, kind, last, content, signature, whole: bytes })
    }

    /// The digest of the whole packet, by which a name can ask for this one alone.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.whole).into()
    }

    /// The name that stands in its content, where it is metadata (RDR).
    pub(super) fn named(&self) -> Result<NdnName, BadNdn> {
        NdnName::read(Elements::of(self.content, "metadata").need(NAME, "name")?.value)
    }
}

/// A Data as a producer makes it.
#[derive(Clone, Debug)]
pub struct Produced<'a> {
    /// Its name.
    pub name: NdnName,
    /// What it carries.
    pub kind: ContentKind,
    /// How long a cache may give it to who asks for what is fresh.
    pub fresh_for: Nanos,
    /// The last segment of its object, where that is said.
    pub last: Option<u64>,
    /// The bytes that it carries.
    pub content: &'a [u8],
    /// What it is signed with. Only a digest is made; others are 32 zeros.
    pub signature: Signature,
}

impl<'a> Produced<'a> {
    /// A Data that carries these bytes, is fresh for 10 s (as `ndnputchunks` has it), and has its digest.
    pub fn new(name: NdnName, content: &'a [u8]) -> Self {
        let (kind, signature) = (ContentKind::Blob, Signature::Digest);
        Self { name, kind, fresh_for: Nanos::from_secs(10), last: None, content, signature }
    }

    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut value = Vec::with_capacity(self.content.len() + 128);
        self.name.put(&mut value);
        let mut meta = Vec::new();
        match self.kind {
            ContentKind::Blob => {}
            ContentKind::Nack => put_integer(&mut meta, CONTENT_TYPE, 3),
            ContentKind::Other(kind) => put_integer(&mut meta, CONTENT_TYPE, kind),
        }
        put_integer(&mut meta, FRESHNESS, self.fresh_for.as_nanos() / 1_000_000);
        if let Some(last) = self.last {
            let mut component = Vec::new();
            put_integer(&mut component, SEGMENT, last);
            put(&mut meta, FINAL_BLOCK, &component);
        }
        put(&mut value, META_INFO, &meta);
        put(&mut value, CONTENT, self.content);
        let mut info = Vec::new();
        let kind = if let Signature::Unchecked(kind) = self.signature { kind } else { 0 };
        put_integer(&mut info, SIGNATURE_TYPE, kind);
        put(&mut value, SIGNATURE_INFO, &info);
        let signature = if kind == 0 { Sha256::digest(&value).to_vec() } else { vec![0; 32] };
        put(&mut value, SIGNATURE_VALUE, &signature);
        put(out, DATA, &value);
    }
}

fn meta_info(value: &[u8]) -> Result<(ContentKind, Option<u64>), BadNdn> {
    let mut elements = Elements::of(value, "MetaInfo");
    let kind = match elements.take(CONTENT_TYPE)? {
        None => ContentKind::Blob,
        Some(kind) => match integer(kind.value, "content's type")? {
            0 => ContentKind::Blob,
            3 => ContentKind::Nack,
            other => ContentKind::Other(other),
        },
    };
    elements.take(FRESHNESS)?;
    let last = match elements.take(FINAL_BLOCK)? {
        None => None,
        Some(last) => {
            let component = only(last.value, "FinalBlockId")?;
            // Objects that are not cut into numbered segments end otherwise.
            (component.kind == SEGMENT).then(|| integer(component.value, "segment")).transpose()?
        }
    };
    elements.end()?;
    Ok((kind, last))
}
