//! From a request to an answer.

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use paceline_icn::name::NameKind;
use paceline_icn::{Manifest, Name};
use paceline_scrape::Names;
use percent_encoding::percent_decode_str;

use super::body::Content;
use super::objects::Objects;
use super::range::{Asked, asked};
use super::{GatewayError, ndn};

/// What an object is whose publisher does not say.
const UNKNOWN_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The file of a collection that stands for it.
const INDEX: &str = "index.html";

/// Methods that are served (RFC 9110 section 10.2.1).
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");

/// Answers a request that came to an address with these names.
pub(super) async fn answer<B>(objects: &Objects, request: &Request<B>, names: Names) -> Response<Content> {
    let mut answer = match (may_ask(request, names), request.method()) {
        (Err((status, why)), _) => refusal(status, why),
        (Ok(()), method @ (&Method::GET | &Method::HEAD)) => {
            let wanted = method == Method::GET;
            let found = match ndn::name(request.uri().path()) {
                Some(name) => ndn::found(objects, name, wanted).await,
                None => found(objects, request, wanted).await,
            };
            found.unwrap_or_else(|error| refusal(error.status(), &error.to_string()))
        }
        (Ok(()), &Method::OPTIONS) => {
            let mut answer = empty(StatusCode::NO_CONTENT);
            answer.headers_mut().insert(header::ALLOW, METHODS);
            answer
        }
        (Ok(()), _) => {
            let mut answer = refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET, HEAD and OPTIONS are served");
            answer.headers_mut().insert(header::ALLOW, METHODS);
            answer
        }
    };
    if request.method() == Method::HEAD && matches!(answer.body(), Content::Text(_)) {
        *answer.body_mut() = Content::Text(None);
    }
    answer
}

/// Whether a request names a host of ours: that of its target, where it has one (RFC 9112 section 3.2.2), else of its only `Host`.
fn may_ask<B>(request: &Request<B>, names: Names) -> Result<(), (StatusCode, &'static str)> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    if another.is_some() || host.is_none() && request.version() == Version::HTTP_11 {
        return Err((StatusCode::BAD_REQUEST, "a request has one line 'Host' (RFC 9112 section 3.2)"));
    }
    let named = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let host = named.or(host.map(HeaderValue::as_bytes));
    if names == Names::Any || host.is_some_and(|host| names.admit(host)) {
        return Ok(());
    }
    Err((StatusCode::FORBIDDEN, "at this address only requests to localhost or an address are answered"))
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

/// What a path leads to.
enum Led {
    To(Named),
    /// A folder, whose path has a slash at its end: whether it is this one for ever.
    Folder {
        fixed: bool,
    },
}

async fn named(objects: &Objects, path: &str) -> Result<Led, GatewayError> {
    let path = path.trim_start_matches('/');
    let (first, inner) = path.split_once('/').map_or((path, None), |(first, inner)| (first, Some(inner)));
    if first.is_empty() {
        return Err(GatewayError::NotFound("ask for /NAME, or /NAME/FILE of a published folder".into()));
    }
    let asked: Name =
        first.parse().map_err(|error: paceline_icn::name::NoName| GatewayError::NotFound(error.to_string()))?;
    let fixed = asked.kind() == NameKind::Object;
    let name = objects.target(&asked).await?;
    let Some(inner) = inner else { return Ok(Led::To(Named { name, within: None, fixed })) };
    let inner = percent_decode_str(inner).decode_utf8_lossy().into_owned();
    let inner = if inner.is_empty() || inner.ends_with('/') { inner + INDEX } else { inner };
    let collection = objects.collection(&name).await?;
    match collection.find(&inner) {
        Some(file) => Ok(Led::To(Named { name: *file, within: Some(name), fixed })),
        None if collection.has_folder(&inner) => Ok(Led::Folder { fixed }),
        None => Err(GatewayError::NotFound(format!("{name} has no file '{inner}'"))),
    }
}

async fn found<B>(objects: &Objects, request: &Request<B>, wanted: bool) -> Result<Response<Content>, GatewayError> {
    let (uri, headers) = (request.uri(), request.headers());
    let Named { name, within, fixed } = match named(objects, uri.path()).await? {
        Led::To(named) => named,
        Led::Folder { fixed } => return Ok(moved(uri, fixed)),
    };
    let within = within.as_ref();
    let tag = format!("\"{name}\"");
    match held_against(headers, &tag) {
        Condition::Holds => {}
        // What is not there does not fail, it is not found (RFC 9110 section 13.2.1).
        Condition::Other => {
            objects.manifest(&name, within).await?;
            return Ok(refusal(StatusCode::PRECONDITION_FAILED, &format!("it is {tag}")));
        }
        Condition::Same { any } => {
            if any {
                objects.manifest(&name, within).await?;
            }
            let mut answer = empty(StatusCode::NOT_MODIFIED);
            describe(answer.headers_mut(), &tag, fixed);
            return Ok(answer);
        }
    }
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let mut answer = empty(StatusCode::OK);
    describe(answer.headers_mut(), &tag, fixed);
    // Ranges are of GET alone (RFC 9110 section 14.2). A part of another version is of no use to who has a part of this one, and objects
    // have no date (section 13.1.5).
    let range = text(header::RANGE).filter(|_| wanted);
    let range = range.filter(|_| headers.get(header::IF_RANGE).is_none_or(|had| had.as_bytes() == tag.as_bytes()));
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

/// How what a client holds compares with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// The request is to be answered.
    Holds,
    /// It is for another version: 412.
    Other,
    /// The client has this one, or wants nothing that is there: 304.
    Same { any: bool },
}

/// The conditions of a request in their order (RFC 9110 section 13.2.2). Those by date do not count, since objects have none.
fn held_against(headers: &HeaderMap, tag: &str) -> Condition {
    let tags = |name| headers.get_all(name).iter().filter_map(|tags: &HeaderValue| tags.to_str().ok());
    let lists = |name, weakly| {
        tags(name).flat_map(|tags| tags.split(',')).any(|one| {
            let one = one.trim();
            (if weakly { one.strip_prefix("W/").unwrap_or(one) } else { one }) == tag
        })
    };
    let any = |name| tags(name).any(|tags| tags.trim() == "*");
    if headers.contains_key(header::IF_MATCH) && !any(header::IF_MATCH) && !lists(header::IF_MATCH, false) {
        return Condition::Other;
    }
    let any = any(header::IF_NONE_MATCH);
    if any || lists(header::IF_NONE_MATCH, true) { Condition::Same { any } } else { Condition::Holds }
}

/// An answer to a folder without a slash at its end: paths within it are relative to that.
fn moved(uri: &Uri, fixed: bool) -> Response<Content> {
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    // Two slashes at its begin would name a host.
    let place = format!("/{}/{query}", uri.path().trim_start_matches('/'));
    let mut answer = refusal(StatusCode::MOVED_PERMANENTLY, &format!("it is a folder: {place}"));
    let headers = answer.headers_mut();
    put(headers, header::LOCATION, &place);
    headers.insert(header::CACHE_CONTROL, cached(fixed));
    answer
}

/// What is said of every object.
fn describe(headers: &mut HeaderMap, tag: &str, fixed: bool) {
    put(headers, header::ETAG, tag);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, cached(fixed));
}

/// RFC 8246: the bytes of a name never change; what a signed name stands for does.
fn cached(fixed: bool) -> HeaderValue {
    HeaderValue::from_static(if fixed { "public, max-age=31536000, immutable" } else { "no-cache" })
}

pub(super) fn put(headers: &mut HeaderMap, name: header::HeaderName, text: &str) {
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

pub(super) fn empty(status: StatusCode) -> Response<Content> {
    let mut answer = Response::new(Content::Text(None));
    *answer.status_mut() = status;
    answer
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
    fn conditions_count_in_the_order_of_the_rfc() {
        let (holds, other) = (Condition::Holds, Condition::Other);
        let same = |any| Condition::Same { any };
        for (lines, expected) in [
            (&[][..], holds),
            (&[("if-match", "\"b\"")], holds),
            (&[("if-match", "*")], holds),
            (&[("if-match", "\"a\", \"b\"")], holds),
            (&[("if-match", "\"a\""), ("if-match", "\"b\"")], holds),
            (&[("if-match", "\"a\"")], other),
            (&[("if-match", "W/\"b\"")], other),
            (&[("if-match", "")], other),
            (&[("if-match", "\"a\""), ("if-none-match", "\"b\"")], other),
            (&[("if-none-match", "\"a\"")], holds),
            (&[("if-none-match", "\"a\", W/\"b\"")], same(false)),
            (&[("if-none-match", "\"a\""), ("if-none-match", "\"b\"")], same(false)),
            (&[("if-none-match", "*")], same(true)),
            (&[("if-match", "*"), ("if-none-match", "\"b\"")], same(false)),
            // An object has no date.
            (&[("if-modified-since", "Thu, 01 Jan 2099 00:00:00 GMT")], holds),
            (&[("if-unmodified-since", "Thu, 01 Jan 1970 00:00:00 GMT")], holds),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(*name, HeaderValue::from_static(value));
            }
            assert_eq!(held_against(&headers, "\"b\""), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_folder_is_where_its_path_has_a_slash() {
        let place = |uri: &'static str| moved(&Uri::from_static(uri), true).headers()[header::LOCATION].clone();
        assert_eq!(place("/N/a%20b"), "/N/a%20b/");
        assert_eq!(place("http://x/N/a?b=/c"), "/N/a/?b=/c");
        assert_eq!(place("//evil.example/a"), "/evil.example/a/");
    }
}
