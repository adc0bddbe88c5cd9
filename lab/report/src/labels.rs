//! Direct labels that do not overlap: each takes the best of its candidate places, given where the others are.

use super::svg::{Anchor, Rect};

/// A place where a label could stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Where its text is anchored, on the base line.
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) anchor: Anchor,
    /// Smaller is better where nothing overlaps.
    pub(crate) rank: f64,
}

/// A label that looks for a place.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) candidates: Vec<Candidate>,
}

impl Label {
    fn rect(&self, place: &Candidate) -> Rect {
        let x = match place.anchor {
            Anchor::Start => place.x,
            Anchor::Middle => place.x - self.width / 2.0,
            Anchor::End => place.x - self.width,
        };
        Rect { x, y: place.y - self.height * 0.8, w: self.width, h: self.height }
    }
}

/// Where a label stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) at: Candidate,
    /// How much of it is outside, on another label or on an obstacle: 0 to 1, or more where these overlap.
    pub(crate) covered: f64,
}

/// Chooses a candidate for each label: outside `bounds` is worst, on another label is bad, on an obstacle is poor.
/// Labels without a candidate are not allowed. Three rounds settle the pictures that a race gives.
pub(crate) fn place(labels: &[Label], obstacles: &[Rect], bounds: Rect) -> Vec<Placed> {
    let mut chosen: Vec<Option<usize>> = vec![None; labels.len()];
    for _ in 0..3 {
        for (i, label) in labels.iter().enumerate() {
            let cost = |candidate: &Candidate| {
                let [outside, others, blocked] =
                    lost(label.rect(candidate), &rects(labels, &chosen, i), obstacles, bounds);
                candidate.rank + 20.0 * outside + 10.0 * others + blocked
            };
            chosen[i] = (0..label.candidates.len())
                .min_by(|a, b| cost(&label.candidates[*a]).total_cmp(&cost(&label.candidates[*b])));
        }
    }
    let placed = |(i, label): (usize, &Label)| {
        let at = label.candidates[chosen[i]?];
        let rect = label.rect(&at);
        let lost: f64 = lost(rect, &rects(labels, &chosen, i), obstacles, bounds).iter().sum();
        Some(Placed { at, covered: lost / (rect.w * rect.h) })
    };
    labels.iter().enumerate().filter_map(placed).collect()
}

/// Where the labels but one stand.
fn rects(labels: &[Label], chosen: &[Option<usize>], but: usize) -> Vec<Rect> {
    let all = labels.iter().zip(chosen).enumerate().filter(|(i, _)| *i != but);
    all.filter_map(|(_, (label, choice))| choice.map(|choice| label.rect(&label.candidates[choice]))).collect()
}

/// What of an area is outside the bounds, on others and on obstacles.
fn lost(rect: Rect, others: &[Rect], obstacles: &[Rect], bounds: Rect) -> [f64; 3] {
    let on = |all: &[Rect]| all.iter().map(|other| rect.overlap(*other)).sum();
    [rect.w * rect.h - rect.overlap(bounds), on(others), on(obstacles)]
}

/// Candidates around a point: near ones first, then farther ones for crowds.
pub(crate) fn around(x: f64, y: f64) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (ring, distance) in [9.0, 20.0, 34.0, 50.0, 68.0, 90.0].into_iter().enumerate() {
        let (far, down) = (distance, distance + 4.0);
        let places = [
            (far, 4.0, Anchor::Start),
            (-far, 4.0, Anchor::End),
            (0.0, -far, Anchor::Middle),
            (0.0, down + 4.0, Anchor::Middle),
            (far * 0.7, -far * 0.7, Anchor::Start),
            (far * 0.7, down * 0.7 + 4.0, Anchor::Start),
            (-far * 0.7, -far * 0.7, Anchor::End),
            (-far * 0.7, down * 0.7 + 4.0, Anchor::End),
        ];
        for (order, (dx, dy, anchor)) in places.into_iter().enumerate() {
            candidates.push(Candidate { x: x + dx, y: y + dy, anchor, rank: ring as f64 * 40.0 + order as f64 * 2.0 });
        }
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_one_point_are_kept_apart_and_inside() {
        let label = Label { width: 60.0, height: 14.0, candidates: around(100.0, 100.0) };
        let labels = vec![label; 6];
        let bounds = Rect { x: 0.0, y: 0.0, w: 200.0, h: 200.0 };
        let places = place(&labels, &[], bounds);
        let rects: Vec<Rect> = labels.iter().zip(&places).map(|(l, p)| l.rect(&p.at)).collect();
        for (i, a) in rects.iter().enumerate() {
            assert!((a.overlap(bounds) - a.w * a.h).abs() < 1e-6, "{a:?} leaves the picture");
            for b in &rects[..i] {
                assert!(a.overlap(*b) < 1e-6, "{a:?} covers {b:?}");
            }
        }
        assert!(places.iter().all(|place| place.covered < 1e-6));
        let crowded = place(&labels, &[bounds], bounds);
        assert!(crowded.iter().all(|place| place.covered > 0.99), "an obstacle is everywhere");
    }
}
