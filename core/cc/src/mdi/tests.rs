//! Properties of `mdi.md`: numbers worked by hand, and models made for one property each.

mod moves;
mod reading;

use super::grid::{Axis, Grid};
use super::*;
use crate::controller::{Cause, Lost};
use crate::testing::ack;

const RTT: Nanos = Nanos::from_millis(40);

/// A grid of -60..60 by 5 for windows and -25..15 by 5 for delays: that of the published matrix of Verus.
fn published() -> Grid {
    grid((-60, 60, 5), (-25, 15, 5))
}

fn grid(windows: (i64, i64, i64), delays: (i64, i64, i64)) -> Grid {
    let axis = |(min, max, step)| Axis::new(min, max, step).unwrap();
    Grid::new(axis(windows), axis(delays)).unwrap()
}

/// A model whose blocks `fill` says: from row and next delay to probabilities of moves.
fn model(grid: Grid, fill: impl Fn(usize, usize) -> Vec<f64>) -> Model {
    let mut model = Model::new(grid, Settings::default(), vec!["made by a test".to_owned()]);
    for row in 0..grid.states() {
        (0..grid.delays.count()).for_each(|delay| model.push(&fill(row, delay)).unwrap());
    }
    model
}

/// All mass on one move of the window.
fn always(grid: Grid, window: usize) -> Model {
    let mut block = vec![0.0; grid.windows.count()];
    block[window] = 1.0;
    model(grid, |_, _| block.clone())
}

/// The controller after its first RTT.
fn mdi(model: &Model, seed: u64) -> Mdi {
    let table = Arc::new(Table::from(model));
    let config = Config::of(&table);
    let mut mdi = Mdi::new(&Env { seed, ..Env::default() }, table, config);
    mdi.on_ack(&ack(Time::ZERO, RTT, 0));
    mdi
}

/// Packets lost, the first of them sent at `sent_at` under a window of 80.
fn lose(mdi: &mut Mdi, now: Time, sent_at: Time, count: usize) {
    let packets = vec![Lost { seq: 0, bytes: 1448, sent_at, tag: 80, cause: Cause::Unknown }; count];
    let bytes = 1448 * count as u64;
    mdi.on_loss(&Loss { now, packets: &packets, bytes, prior_in_flight: 0, in_flight: 0, new_episode: true });
}

fn acked() -> Acked {
    Acked {
        seq: 0,
        bytes: 1448,
        sent_at: Time::ZERO,
        tag: 80,
        retransmitted: false,
        app_limited: false,
        ce: false,
        received_at: None,
    }
}

/// Packets acknowledged that were sent an `RTT` ago.
fn deliver(mdi: &mut Mdi, now: Time, count: usize) {
    let sent_at = Time::from_nanos(now.as_nanos().saturating_sub(RTT.as_nanos()));
    let packet = Acked { sent_at, ..acked() };
    mdi.on_ack(&Ack { packets: &vec![packet; count], ..ack(now, RTT, count as u32) });
}

/// An epoch with one acknowledgement of `rtt`.
fn epoch(mdi: &mut Mdi, rtt: Nanos) {
    let at = mdi.next_tick();
    mdi.on_ack(&ack(at, rtt, 0));
    mdi.on_tick(at);
}
