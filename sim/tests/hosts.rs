//! What sending and receiving hosts may do besides: marks that nobody answers yet.

mod common;

use common::{Dumbbell, bulk};
use paceline_cc::Time;
use paceline_sim::{Tap, Via};
use paceline_transport::{AckSegment, Sender};

/// Compares the window in force with the controller's while marks are not answered.
#[derive(Default)]
struct Windows {
    /// Marked acknowledgements until then.
    marked: u64,
    /// When the start-up was over.
    over: Option<Time>,
}

impl Tap for Windows {
    fn on_ack(&mut self, now: Time, _flow: u32, ack: &AckSegment, sender: &dyn Sender) {
        if !sender.controller().holds_against_marks() {
            self.over.get_or_insert(now);
        } else if self.over.is_none() {
            self.marked += u64::from(ack.ece);
            assert_eq!(sender.window(), sender.controller().window(), "at {now}");
        }
    }
}

#[test]
fn marks_do_not_take_the_window_from_a_chirping_start_up() {
    for policy in ["dctcp", "prague"] {
        let mut windows = Windows::default();
        let queue = Some("step:threshold=50us".parse().unwrap());
        let flows = vec![bulk(&format!("{policy}:start=chirp-q"), Via::Tcp)];
        Dumbbell { queue, ..Dumbbell::new(100.0, 15, flows) }.watch(1, Some(&mut windows));
        assert!(windows.marked > 20, "{policy}: {} marks", windows.marked);
        assert!(windows.over.is_some(), "{policy}: the start-up ends");
    }
}
