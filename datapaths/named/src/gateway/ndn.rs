//! `/ndn/NAME`: objects of NDN.
//!
//! They have no length before their end, no ranges and no tag. What was checked of them stands in headers; a document among them may run
//! no scripts of this origin.

use std::path::Path;

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use paceline_icn::ndn::NdnName;

use super::GatewayError;
use super::answer::{empty, put};
use super::body::Content;
use super::objects::Objects;
use crate::ndn::Opened;
use crate::store::media_type_of;

/// The object's name, with its version.
const NAME: HeaderName = HeaderName::from_static("ndn-name");

/// What its packets are signed with, and whether that was checked.
const SIGNATURE: HeaderName = HeaderName::from_static("ndn-signature");

/// What a path of NDN names; `None` for other paths.
pub(super) fn name(path: &str) -> Option<Result<NdnName, GatewayError>> {
    let name = path.strip_prefix("/ndn").filter(|name| name.is_empty() || name.starts_with('/'))?;
    let name = if name.is_empty() { "/" } else { name };
    let parsed = name.parse().map_err(|error: paceline_icn::ndn::BadNdnName| error.to_string());
    let named = |name: NdnName| {
        if name.is_empty() { Err("ask for /ndn/NAME, such as /ndn/example/file".to_owned()) } else { Ok(name) }
    };
    Some(parsed.and_then(named).map_err(GatewayError::NotFound))
}

pub(super) async fn found(
    objects: &Objects,
    name: Result<NdnName, GatewayError>,
    wanted: bool,
) -> Result<Response<Content>, GatewayError> {
    let (reader, place) = objects.open_ndn(&name?).await?;
    let mut answer = empty(StatusCode::OK);
    let headers = answer.headers_mut();
    let Opened { name, signature, length } = reader.opened();
    put(headers, NAME, &name.to_string());
    put(headers, SIGNATURE, &signature.to_string());
    let file = name.file_name().unwrap_or_default();
    put(headers, header::CONTENT_TYPE, media_type_of(Path::new(&file)));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("none"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, (*length).into());
    }
    if wanted {
        let left = *length;
        *answer.body_mut() = Content::Ndn { reader: Box::new(reader), left, place };
    }
    Ok(answer)
}
