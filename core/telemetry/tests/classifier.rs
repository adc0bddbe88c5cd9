//! The classifier on random queues: how many losses of each kind it names right.

use crate::model::{Counters, Matrix, Setting, run};

const BUFFERS: [u32; 3] = [16, 60, 250];
const LOSSES: [f64; 3] = [0.01, 0.05, 0.2];
/// Runs of each setting.
const SEEDS: u64 = 2;

/// All buffers, losses and bursts, with `seeds` runs of 20 s each.
fn matrix(flows: u32, counters: Counters, knows: bool, seeds: u64) -> Vec<(String, Matrix)> {
    settings(&BUFFERS, false, (flows, false), counters, knows, seeds)
}

fn settings(
    buffers: &[u32],
    whole: bool,
    (flows, shown): (u32, bool),
    counters: Counters,
    knows: bool,
    seeds: u64,
) -> Vec<(String, Matrix)> {
    let mut rows = Vec::new();
    for &buffer in buffers {
        for loss in LOSSES {
            for burst in [1.0, 4.0] {
                let mut sum = Matrix::default();
                for seed in 0..seeds {
                    let seed = seed * 7919 + u64::from(buffer);
                    sum.add(run(Setting { buffer, loss, burst, flows, counters, shown, whole, knows, seed }));
                }
                let row = format!("{flows} flows, {counters:?}, buffer {buffer}, loss {loss}, bursts of {burst}");
                rows.push((row, sum));
            }
        }
    }
    rows
}

fn sum(rows: &[(String, Matrix)]) -> Matrix {
    let mut sum = Matrix::default();
    rows.iter().for_each(|(_, row)| sum.add(*row));
    sum
}

/// 99 % of what the medium lost and 95 % of what the queue dropped, in each setting.
fn right(rows: &[(String, Matrix)]) {
    for (row, Matrix { medium, queue }) in rows {
        assert!(medium.all > 50 && medium.share() >= 0.99, "{row}: medium {medium:?}");
        assert!(queue.all == 0 || queue.share() >= 0.95, "{row}: queue {queue:?}");
    }
    assert!(sum(rows).queue.all > 500, "too few drops to say anything");
}

#[test]
fn a_flows_own_counter_names_losses_right_among_any_flows() {
    right(&matrix(1, Counters::Own, true, SEEDS));
    right(&matrix(4, Counters::Own, true, SEEDS));
    right(&matrix(4, Counters::Own, false, SEEDS));
}

#[test]
fn a_queues_counter_names_losses_right_for_a_flow_that_is_alone() {
    right(&matrix(1, Counters::All(1), true, SEEDS));
}

/// Rooms alone do not part a burst of the medium from one of drops where the queue is as short as the burst.
#[test]
fn rooms_name_drops_right_and_single_losses_where_the_queue_is_not_short() {
    let rows = matrix(1, Counters::None, true, SEEDS);
    for (row, Matrix { medium, queue }) in &rows {
        assert!(queue.share() >= 0.95, "{row}: queue {queue:?}");
        let single = row.ends_with("bursts of 1") && !row.contains("buffer 16");
        assert!(!single || medium.share() >= 0.985, "{row}: medium {medium:?}");
    }
    assert!(sum(&rows).medium.share() >= 0.94, "{:?}", sum(&rows));
}

/// Where all flows of a queue end at one host, what they saw of it between two packets of one of them names its losses.
#[test]
fn what_a_hosts_flows_saw_of_a_queue_names_losses_that_one_flow_cannot() {
    for counters in [Counters::None, Counters::Octets] {
        let all = |shown| sum(&settings(&[60, 250], false, (4, shown), counters, true, SEEDS));
        let (Matrix { medium, queue }, apart) = (all(true), all(false).medium);
        let what = format!("{counters:?}: {medium:?}, {queue:?}; apart {apart:?}");
        assert!(medium.share() >= 0.9 && medium.share() >= apart.share() + 0.1, "{what}");
        // Without a limit nothing is known to be full; what is not known is taken for it.
        assert!(queue.all > 500 && queue.right + queue.unknown >= queue.all * 95 / 100, "{what}");
    }
}

/// Counters in every eighth packet, or of all flows, are better than none.
#[test]
fn a_counter_that_is_not_the_flows_own_or_comes_seldom_names_most_losses_right() {
    for (flows, counters) in [(1, Counters::All(8)), (4, Counters::All(1))] {
        let Matrix { medium, queue } = sum(&matrix(flows, counters, true, SEEDS));
        assert!(medium.share() >= 0.95 && queue.share() >= 0.92, "{flows} flows: {medium:?}, {queue:?}");
    }
}

/// Buffers of up to forty packets that the queue drops whole, with room for all but one of them.
#[test]
fn drops_of_whole_buffers_are_the_queues() {
    for (flows, counters, drops) in
        [(1, Counters::Own, 0.99), (1, Counters::All(8), 0.95), (1, Counters::None, 0.95), (4, Counters::Own, 0.99)]
    {
        let rows = settings(&[60, 250], true, (flows, false), counters, true, SEEDS);
        let Matrix { medium, queue } = sum(&rows);
        let what = format!("{flows} flows, {counters:?}: {medium:?}, {queue:?}");
        assert!(queue.all > 500 && queue.share() >= drops && medium.share() >= 0.9, "{what}");
    }
}

/// `cargo test -p paceline-telemetry --release -- --ignored --nocapture matrix`: the figures of docs/design/telemetry-wire.md.
#[test]
#[ignore = "prints a table; the other tests hold its bounds"]
fn matrix_for_the_page() {
    println!("| flows | counters | buffer | medium, named right | drops, named right |\n|---|---|---|---|---|");
    for (flows, counters) in [
        (1, Counters::Own),
        (4, Counters::Own),
        (1, Counters::All(1)),
        (4, Counters::All(1)),
        (1, Counters::All(8)),
        (1, Counters::None),
        (4, Counters::None),
    ] {
        let rows = matrix(flows, counters, true, 30);
        for buffer in BUFFERS {
            let named = format!("buffer {buffer},");
            let rows: Vec<_> = rows.iter().filter(|(row, _)| row.contains(&named)).cloned().collect();
            let worst = |of: fn(&Matrix) -> f64| rows.iter().map(|(_, row)| 100.0 * of(row)).fold(100.0, f64::min);
            let Matrix { medium, queue } = sum(&rows);
            println!(
                "| {flows} | {counters:?} | {buffer} | {:.1} % of {} (worst {:.1}) | {:.1} % of {} (worst {:.1}) |",
                100.0 * medium.share(),
                medium.all,
                worst(|row| row.medium.share()),
                100.0 * queue.share(),
                queue.all,
                worst(|row| row.queue.share()),
            );
        }
    }
}
