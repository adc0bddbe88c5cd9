//! What goes between hosts, in which packets, and what is reported of it.

use super::*;

#[test]
fn a_distribution_is_its_mean_and_what_lies_below_each_hundredth() {
    assert!(values(&Distribution::new(3)).is_empty());
    let mut distribution = Distribution::new(3);
    (1..=1000).for_each(|ms| distribution.record(Nanos::from_millis(ms)));
    let values = values(&distribution);
    assert_eq!((values.len(), values[0], values[1], values[VALUES - 1]), (VALUES, 500_500, 1000, 1_000_000));
    assert!(values[1..].is_sorted() && values[51].abs_diff(500_000) < 2000, "{values:?}");
}

#[test]
fn what_does_not_go_between_hosts_is_refused_with_a_fix() {
    let flow = |controller: &str, via| Flow::bulk(controller.parse().unwrap(), via);
    use paceline_experiment::Via;
    assert!(check(&flow("copa", Via::udp())).unwrap().is_none());
    assert_eq!(check(&flow("reno", Via::tcp(None))).unwrap().unwrap().kernel.name, "reno");
    let refused = |flow: &Flow, what: &str| {
        let error = check(flow).unwrap_err().to_string();
        assert!(error.contains(what) && !error.contains('\n'), "{error}");
    };
    refused(&flow("reno", Via::quic()), "reno@quic: races between hosts go over udp, tcp and alcc; write reno@udp");
    refused(&flow("copa", Via::tcp(None)), "copa@tcp: this kernel's TCP has no copa");
    refused(&flow("copa", Via::tcp(Some(DrivenBy::Agent))), "the kernel runs what it has of its own");
    refused(&flow("reno:ecn=on", Via::tcp(None)), "net.ipv4.tcp_ecn");
}

#[test]
fn packets_fit_the_path_with_all_their_headers() {
    let udp = Flow::bulk("copa".parse().unwrap(), paceline_experiment::Via::udp());
    for (ipv4, overhead) in [(true, 0), (true, 16), (false, 16)] {
        let (flow, headers) = fitted(&udp, 1500, ipv4, overhead);
        assert_eq!(flow.mss + headers, 1500);
    }
    let tcp = Flow::bulk("reno".parse().unwrap(), paceline_experiment::Via::tcp(None));
    assert_eq!((fitted(&tcp, 1500, true, 16).0.mss, fitted(&tcp, 1500, false, 0).1), (1448, 72));
}
