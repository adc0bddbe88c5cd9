//! Which keys of a grid are the axes of figures, and how their values are written beside them.

use paceline_lab::sweep::Sweep;

/// A key of the grid as an axis of figures.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Its number in the grid; of keys that are linked that of the first.
    pub(super) number: usize,
    /// What stands beside it: the key, and what all values begin with.
    pub(super) title: String,
    /// What distinguishes its values.
    pub(super) labels: Vec<String>,
    /// Its values as numbers in one unit, where they are all.
    pub(super) numbers: Option<Vec<f64>>,
}

/// What figures show.
#[derive(Clone, Debug)]
pub(super) enum Layout {
    /// One cell: nothing to draw.
    Cell,
    /// Curves over one key.
    Curves(Axis),
    /// Maps over two keys: across, upwards; and a map for each combination of the others.
    Maps(Axis, Axis, Vec<Others>),
}

/// Values of the keys that are no axes of a map.
#[derive(Clone, Debug)]
pub(super) struct Others {
    /// Number of the key, number of the value.
    pub(super) values: Vec<(usize, usize)>,
    /// `down.loss = 0.01`.
    pub(super) title: String,
}

/// Longest label, in characters (our choice: what fits beside a small map).
const LABEL: usize = 18;

impl Axis {
    /// Of keys that take their values together; of most there is one.
    fn of(sweep: &Sweep, keys: &[usize]) -> Self {
        let texts: Vec<String> = (0..steps(sweep, keys)).map(|index| text(sweep, keys, index)).collect();
        let (common, key) = (common(&texts), names(sweep, keys));
        let title = if common.is_empty() { key } else { format!("{key}: {common}\u{2026}") };
        let labels = texts.iter().map(|text| cut(&text[common.len()..])).collect();
        Self { number: keys[0], title, labels, numbers: numbers(&texts) }
    }

    fn longest(&self) -> usize {
        self.labels.iter().map(|label| label.chars().count()).max().unwrap_or(0)
    }
}

impl Layout {
    /// Over the two keys with most values; the one with the longer labels goes upwards, since these stand beside the map.
    pub(super) fn of(sweep: &Sweep) -> Self {
        let varied = sweep.together.iter().filter(|keys| steps(sweep, keys) > 1);
        let mut varied: Vec<&[usize]> = varied.map(Vec::as_slice).collect();
        varied.sort_by_key(|keys| std::cmp::Reverse(steps(sweep, keys)));
        match varied[..] {
            [] => Layout::Cell,
            [only] => Layout::Curves(Axis::of(sweep, only)),
            [first, second, ..] => {
                let mut others = varied[2..].to_vec();
                others.sort_unstable();
                let (a, b) = (Axis::of(sweep, first), Axis::of(sweep, second));
                let (x, y) = if a.longest() > b.longest() { (b, a) } else { (a, b) };
                Layout::Maps(x, y, combinations(sweep, &others))
            }
        }
    }

    /// What its figures are, for the page.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Layout::Cell => "cell",
            Layout::Curves(_) => "curves",
            Layout::Maps(..) => "maps",
        }
    }
}

/// Every combination of the values of these keys, the first outermost.
fn combinations(sweep: &Sweep, others: &[&[usize]]) -> Vec<Others> {
    let mut all = vec![Others { values: Vec::new(), title: String::new() }];
    for keys in others {
        let with = |others: &Others, value: usize| {
            let mut values = others.values.clone();
            values.push((keys[0], value));
            let gap = if others.title.is_empty() { "" } else { ", " };
            let (names, text) = (names(sweep, keys), text(sweep, keys, value));
            Others { values, title: format!("{}{gap}{names} = {text}", others.title) }
        };
        all = all.iter().flat_map(|others| (0..steps(sweep, keys)).map(move |value| with(others, value))).collect();
    }
    all
}

/// How many values linked keys have; there is at least one key.
fn steps(sweep: &Sweep, keys: &[usize]) -> usize {
    sweep.axes[keys[0]].values.len()
}

/// Linked keys by name.
fn names(sweep: &Sweep, keys: &[usize]) -> String {
    let names: Vec<&str> = keys.iter().map(|key| sweep.axes[*key].key.as_str()).collect();
    names.join(", ")
}

/// Their values of this number: once where it is the same.
fn text(sweep: &Sweep, keys: &[usize], index: usize) -> String {
    let mut texts: Vec<String> = keys.iter().map(|key| sweep.axes[*key].text(index)).collect();
    texts.dedup();
    texts.join(", ")
}

/// What all texts begin with, up to a sign that ends a word: `droptail:bdp=`.
fn common(texts: &[String]) -> String {
    let Some(first) = texts.first() else { return String::new() };
    let same = |text: &String| first.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    let length = texts.iter().map(same).min().unwrap_or(0);
    let end = first.as_bytes()[..length].iter().rposition(|byte| b":=/".contains(byte)).map_or(0, |at| at + 1);
    // A label is left of every text.
    if texts.iter().any(|text| text.len() <= end) { String::new() } else { first[..end].to_owned() }
}

/// Without its middle, where it is long: values often differ at their ends.
fn cut(text: &str) -> String {
    const END: usize = LABEL / 2;
    let count = text.chars().count();
    if count <= LABEL {
        return text.to_owned();
    }
    text.chars().take(LABEL - 1 - END).chain(['\u{2026}']).chain(text.chars().skip(count - END)).collect()
}

/// The texts as numbers, where all are numbers with the same unit behind them, each larger than the one before.
fn numbers(texts: &[String]) -> Option<Vec<f64>> {
    let split = |text: &String| {
        let end = text.find(|c: char| !(c.is_ascii_digit() || ".-".contains(c))).unwrap_or(text.len());
        Some((text[..end].parse::<f64>().ok()?, text[end..].trim().to_owned()))
    };
    let all: Vec<(f64, String)> = texts.iter().map(split).collect::<Option<_>>()?;
    let same = all.windows(2).all(|pair| pair[0].1 == pair[1].1 && pair[0].0 < pair[1].0);
    same.then(|| all.into_iter().map(|(number, _)| number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_all_values_begin_with_stands_once() {
        assert_eq!(common(&texts(&["droptail:bdp=0.25", "droptail:bdp=1"])), "droptail:bdp=");
        assert_eq!(common(&texts(&["../traces/a.mahi", "../traces/b.mahi"])), "../traces/");
        assert_eq!(common(&texts(&["5ms", "50ms"])), "");
        assert_eq!(common(&texts(&["codel:", "codel:target=5ms"])), "");
        assert_eq!(cut("a very long value of some key"), "a very l\u{2026} some key");
    }

    #[test]
    fn values_in_one_unit_are_numbers() {
        assert_eq!(numbers(&texts(&["5ms", "20ms", "80ms"])), Some(vec![5.0, 20.0, 80.0]));
        assert_eq!(numbers(&texts(&["0.0", "0.01"])), Some(vec![0.0, 0.01]));
        assert_eq!(numbers(&texts(&["500kbit/s", "1Mbit/s"])), None);
        assert_eq!(numbers(&texts(&["20ms", "5ms"])), None);
        assert_eq!(numbers(&texts(&["bulk", "web"])), None);
    }
}
