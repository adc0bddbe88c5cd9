//! Frames over real sockets: all arrive that can, and not before the path lets them.

use super::{number, records};

#[test]
fn frames_go_over_datagrams_and_the_kernel() {
    // A hundred frames of voice and forty of video in two seconds; a tenth of the video is lost and sent again.
    let scenario = "name = 'frames'\nseconds = 4\ncontestants = ['cubic@udp', 'reno@tcp']\n\
        [down]\nrate = '20 Mbit/s'\ndelay = '10ms'\nloss = { burst = 1, every = 40 }\n[up]\ndelay = '10ms'\n\
        [[flows]]\nworkload = { media = [\
        { name = 'voice', fps = 50, size = '80B', count = 100, datagram = true, priority = 1 },\
        { name = 'video', fps = 20, size = '4kB', count = 40, priority = 2 } ] }\n\
        [[flows]]\nworkload = { media_rate = { fps = 25, least = '200 kbit/s', most = '2 Mbit/s' } }\n";
    let Some(records) = records("frames_go_over_datagrams_and_the_kernel", scenario) else { return };
    assert_eq!(records.len(), 2);
    for record in &records {
        let stream = |flow: usize, stream: usize| &record["flows"][flow]["frames"][stream];
        let [voice, video, encoded] = [stream(0, 0), stream(0, 1), stream(1, 0)];
        assert_eq!((number(voice, "/made"), number(video, "/made")), (100.0, 40.0), "{record}");
        assert_eq!((number(video, "/complete"), number(video, "/lost")), (40.0, 0.0), "{record}");
        assert_eq!(number(voice, "/complete") + number(voice, "/lost"), 100.0, "{record}");
        assert!(number(encoded, "/made") >= 90.0 && number(encoded, "/complete") > 60.0, "{record}");
        for stream in [voice, video, encoded] {
            assert!(number(stream, "/frame_ms/min") >= 10.0, "{record}");
        }
    }
    // The kernel sends again what is lost; a sender of datagrams leaves the voice's to be lost.
    assert_eq!(number(&records[1], "/flows/0/frames/0/lost"), 0.0);
}
