//! The example: a protocol of one's own on [`paceline_transport::Numbered`].

#[path = "../examples/own.rs"]
mod example;

#[test]
fn each_packet_of_a_protocol_of_ones_own_arrives_or_is_lost() {
    for controller in ["copa", "cubic", "bbr"] {
        let done = example::transfer(controller, 2000).unwrap();
        assert_eq!(done.delivered + done.lost, 2000, "{controller}: {done:?}");
        assert!(done.delivered > 1000, "{controller}: {done:?}");
    }
}
