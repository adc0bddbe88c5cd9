//! What a file is, by the ending of its name.

use std::path::Path;

/// Endings and media types (IANA's registry; for `ts` and `m3u8` RFC 8216, section 10). The others are left out on purpose: whoever
/// publishes says what they are.
const TYPES: [(&str, &str); 26] = [
    ("aac", "audio/aac"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("md", "text/markdown"),
    ("mkv", "video/matroska"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("ts", "video/mp2t"),
    ("txt", "text/plain"),
    ("vtt", "text/vtt"),
    ("wasm", "application/wasm"),
    ("webm", "video/webm"),
];

/// The media type of a file by the ending of its name; `application/octet-stream` (bytes of any kind) for one that is not known.
pub fn media_type_of(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    TYPES.iter().find(|(known, _)| *known == ending).map_or("application/octet-stream", |(_, media_type)| media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_say_what_files_are() {
        assert_eq!(media_type_of(Path::new("a/index.M3U8")), "application/vnd.apple.mpegurl");
        assert_eq!(media_type_of(Path::new("segment0.ts")), "video/mp2t");
        assert_eq!(media_type_of(Path::new("README")), "application/octet-stream");
        for (_, media_type) in TYPES {
            assert_eq!(paceline_icn::manifest::check_media_type(media_type), Ok(()));
        }
    }
}
