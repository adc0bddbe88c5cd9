//! A named video in programs that know nothing of names: ffmpeg takes the HLS playlist, a browser plays.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::gateway;
use crate::place::Shop;

/// More than a busy machine takes to play two seconds.
const PATIENCE: Duration = Duration::from_secs(90);

struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn skipped(test: &str, why: &str) {
    // Not by a macro, whose output is not shown for tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

/// Ten seconds of a test picture, as HLS and as one WebM file; false where there is no ffmpeg.
fn make_video(folder: &Path) -> bool {
    let source = ["-f", "lavfi", "-i", "testsrc=duration=10:size=320x180:rate=15"];
    let webm = ["-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "300k", "film.webm"];
    let hls = [
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-pix_fmt",
        "yuv420p",
        "-g",
        "30",
        "-f",
        "hls",
        "-hls_time",
        "2",
        "-hls_playlist_type",
        "vod",
        "-hls_segment_type",
        "fmp4",
        "film.m3u8",
    ];
    let run = |format: &[&str]| {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-nostdin", "-loglevel", "error"]).args(source).args(format).current_dir(folder);
        ffmpeg.output().is_ok_and(|output| output.status.success())
    };
    run(&webm) && run(&hls)
}

#[test]
fn a_named_video_plays_in_a_browser_and_its_playlist_in_ffmpeg() {
    let test = "a_named_video_plays";
    let shop = Shop::new();
    let folder = shop.path("film");
    fs::create_dir(&folder).unwrap();
    if !make_video(&folder) {
        return skipped(test, "it needs ffmpeg with libvpx and libx264");
    }
    // The page says here how far it is. Not every browser takes playlists (Chromium does from version 142 on).
    let heard = TcpListener::bind("127.0.0.1:0").unwrap();
    let page = format!(
        "<!doctype html><video muted autoplay></video><script>\
         const video = document.querySelector('video');\
         const say = text => {{ new Image().src = 'http://{}/' + text; }};\
         const films = ['film.m3u8', 'film.webm'];\
         const next = () => {{ if (films.length) video.src = films.shift(); else say('error-' + video.error.message); }};\
         video.onerror = next;\
         video.ontimeupdate = () => {{ if (video.currentTime > 2) say('played-' + video.currentTime + '-' + video.currentSrc); }};\
         next();\
         </script>",
        heard.local_addr().unwrap()
    );
    fs::write(folder.join("index.html"), page).unwrap();
    let name = shop.store.publish(&folder, None, &mut |_| ()).unwrap().name;
    let server = shop.serve();
    let gateway = gateway::start(vec![server.address()], PATIENCE);
    let site = format!("http://{}/{name}/", gateway.address);

    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-stats", "-i", &format!("{site}film.m3u8"), "-f", "null", "-"]);
    let output = ffmpeg.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.contains("frame=  150"), "{errors}");

    let profile = shop.path("profile");
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--mute-audio"]);
    chromium.args(["--autoplay-policy=no-user-gesture-required", "--disable-background-networking"]);
    chromium.arg(format!("--user-data-dir={}", profile.display())).arg("--remote-debugging-port=0").arg(&site);
    let Ok(child) = chromium.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        return skipped(test, "it needs chromium for the part in the browser");
    };
    let _browser = Browser(child);
    let (said, saying) = channel();
    std::thread::spawn(move || {
        for stream in heard.incoming() {
            let mut line = String::new();
            let _ = stream.map(BufReader::new).and_then(|mut stream| stream.read_line(&mut line));
            if said.send(line).is_err() {
                return;
            }
        }
    });
    let line = saying.recv_timeout(PATIENCE).unwrap_or_else(|_| "nothing".to_owned());
    assert!(line.starts_with("GET /played-2."), "the page says: {line}");
}
