//! What a file is, by the ending of its name: `mime-infer` has the table of it, of IANA's registry and what is in use beside.

use std::path::Path;

/// Media of streams, which the table has under other names or not at all: RFC 8216 section 10, RFC 4337, ISO/IEC 23000-19.
const STREAMS: [(&str, &str); 4] = [
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("ts", "video/mp2t"),
];

/// The media type of a file by the ending of its name; `application/octet-stream` (bytes of any kind) for one that is not known.
pub fn media_type_of(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let stream =
        STREAMS.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending)).map(|(_, media_type)| *media_type);
    stream.or_else(|| mime_infer::from_ext(ending).first_raw()).unwrap_or("application/octet-stream")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_say_what_files_are() {
        for (name, media_type) in [
            ("a/index.M3U8", "application/vnd.apple.mpegurl"),
            ("segment0.ts", "video/mp2t"),
            ("0.m4s", "video/iso.segment"),
            ("film.mp4", "video/mp4"),
            ("film.mkv", "video/matroska"),
            ("manifest.mpd", "application/dash+xml"),
            ("a.js", "text/javascript"),
            ("a.MJS", "text/javascript"),
            ("a.css", "text/css"),
            ("a.html", "text/html"),
            ("a.wasm", "application/wasm"),
            ("a.woff2", "font/woff2"),
            ("a.avif", "image/avif"),
            ("a.svg", "image/svg+xml"),
            ("a.txt", "text/plain"),
            ("README", "application/octet-stream"),
            ("a.unheard-of", "application/octet-stream"),
            (".mjs", "application/octet-stream"),
        ] {
            assert_eq!(media_type_of(Path::new(name)), media_type, "{name}");
            assert_eq!(paceline_icn::manifest::check_media_type(media_type), Ok(()));
        }
    }
}
