//! From a request to an answer.

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use paceline_icn::name::Kind;
use paceline_icn::{Manifest, Name};

use super::GatewayError;
use super::body::Content;
use super::objects::Objects;
use super::range::{Asked, asked};

/// What an object is whose publisher does not say.
const UNKNOWN_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The file of a collection that stands for it.
const INDEX: &str = "index.html";

/// Answers a request.
pub(super) async fn answer<B>(objects: &Objects, request: &Request<B>) -> Response<Content> {
    let wanted = match *request.method() {
        Method::GET => true,
        Method::HEAD => false,
        _ => {
            let mut answer = refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are served");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
    };
    let answer = found(objects, request.uri().path(), request.headers(), wanted).await;
    answer.unwrap_or_else(|error| {
        let mut answer = refusal(error.status(), &error.to_string());
        if !wanted {
            *answer.body_mut() = Content::Text(None);
        }
        answer
    })
}

/// What a path names.
struct Named {
    /// The object.
    name: Name,
    /// The collection it belongs to.
    within: Option<Name>,
    /// It is this one for ever.
    fixed: bool,
}

async fn named(objects: &Objects, path: &str) -> Result<Named, GatewayError> {
    let path = path.trim_start_matches('/');
    let (first, inner) = path.split_once('/').map_or((path, None), |(first, inner)| (first, Some(inner)));
    if first.is_empty() {
        return Err(GatewayError::NotFound("ask for /NAME, or /NAME/FILE of a published folder".into()));
    }
    let asked: Name =
        first.parse().map_err(|error: paceline_icn::name::NoName| GatewayError::NotFound(error.to_string()))?;
    let fixed = asked.kind() == Kind::Object;
    let name = objects.target(&asked).await?;
    let Some(inner) = inner else { return Ok(Named { name, within: None, fixed }) };
    let inner = decoded(inner);
    let inner = if inner.is_empty() || inner.ends_with('/') { inner + INDEX } else { inner };
    let collection = objects.collection(&name).await?;
    let missing = || GatewayError::NotFound(format!("{name} has no file '{inner}'"));
    let file = collection.find(&inner).ok_or_else(missing)?;
    Ok(Named { name: *file, within: Some(name), fixed })
}

/// A path without its percent signs (RFC 3986 section 2.1). What is none is left as it is.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn found(
    objects: &Objects,
    path: &str,
    headers: &HeaderMap,
    wanted: bool,
) -> Result<Response<Content>, GatewayError> {
    let Named { name, within, fixed } = named(objects, path).await?;
    let tag = format!("\"{name}\"");
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let mut answer = Response::new(Content::Text(None));
    describe(answer.headers_mut(), &tag, fixed);
    if text(header::IF_NONE_MATCH).is_some_and(|tags| lists(tags, &tag)) {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(answer);
    }
    // A part of another version is of no use to who has a part of this one.
    let range = text(header::RANGE).filter(|_| text(header::IF_RANGE).is_none_or(|had| had.trim() == tag));
    let within = within.as_ref();
    let (manifest, part) = match range {
        None => (None, None),
        Some(range) => {
            let manifest = objects.manifest(&name, within).await?;
            match asked(range, manifest.length) {
                Asked::Whole => (Some(manifest), None),
                Asked::Part(part) => (Some(manifest), Some(part)),
                Asked::Nothing => {
                    let length = manifest.length;
                    let mut answer =
                        refusal(StatusCode::RANGE_NOT_SATISFIABLE, &format!("{range}: the object has {length} bytes"));
                    put(answer.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{length}"));
                    return Ok(answer);
                }
            }
        }
    };
    let (manifest, reader) = if wanted {
        let (reader, place) = objects.open(&name, within, part.clone().unwrap_or(0..u64::MAX)).await?;
        (reader.manifest().clone(), Some((reader, place)))
    } else {
        match manifest {
            Some(manifest) => (manifest, None),
            None => (objects.manifest(&name, within).await?, None),
        }
    };
    let length = part.as_ref().map_or(manifest.length, |part| part.end - part.start);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, media_type(&manifest));
    headers.insert(header::CONTENT_LENGTH, length.into());
    if let Some(part) = part {
        let text = format!("bytes {}-{}/{}", part.start, part.end - 1, manifest.length);
        put(headers, header::CONTENT_RANGE, &text);
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    if let Some((reader, place)) = reader {
        *answer.body_mut() = Content::Object { reader: Box::new(reader), left: length, place };
    }
    Ok(answer)
}

/// Whether a list of tags has this one (RFC 9110 section 13.1.2: compared weakly).
fn lists(tags: &str, tag: &str) -> bool {
    tags.trim() == "*" || tags.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)
}

/// What is said of every object.
fn describe(headers: &mut HeaderMap, tag: &str, fixed: bool) {
    put(headers, header::ETAG, tag);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // RFC 8246: the bytes of a name never change; what a signed name stands for does.
    let cached = if fixed { "public, max-age=31536000, immutable" } else { "no-cache" };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cached));
}

fn put(headers: &mut HeaderMap, name: header::HeaderName, text: &str) {
    // Ours have nothing in them that is refused.
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

fn media_type(manifest: &Manifest) -> HeaderValue {
    if manifest.media_type.is_empty() {
        return UNKNOWN_TYPE;
    }
    HeaderValue::from_str(&manifest.media_type).unwrap_or(UNKNOWN_TYPE)
}

fn refusal(status: StatusCode, why: &str) -> Response<Content> {
    let text = Bytes::from(format!("{why}\n"));
    let mut answer = Response::new(Content::Text(Some(text)));
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_and_lists_of_tags() {
        assert_eq!(decoded("a%20b/%C3%A9.ts"), "a b/é.ts");
        assert_eq!(decoded("100%/%zz%2"), "100%/%zz%2");
        assert!(lists("\"a\", W/\"b\"", "\"b\"") && lists("*", "\"b\"") && !lists("\"a\"", "\"b\""));
    }
}
