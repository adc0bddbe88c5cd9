use paceline_lab::stats::Median;

use super::*;

const SWEEP: &str = "contestants = ['cubic@tcp', 'copa:delta=0.1@udp', 'reno@tcp']\nruns = 6\n\
                     [scenario]\nname = 'two'\ndown = { rate = '5 Mbit/s' }\n\
                     [grid]\ndown.delay = ['5ms', '20ms', '80ms']\n";

fn sweep(more: &str) -> Sweep {
    Sweep::parse(&format!("{SWEEP}{more}"), Path::new(".")).unwrap()
}

/// Cells with values that differ, one without a number, one with a failure.
fn cells(sweep: &Sweep) -> Vec<Cell> {
    let cell = |contestant: usize, number: usize| {
        let values = sweep.axes.iter().zip(sweep.values(number)).map(|(axis, value)| axis.text(value)).collect();
        let value = (contestant + 1) as f64 * 1.5 + number as f64;
        let median = |name: &str| match name {
            "throughput_mbps" if (contestant, number) != (1, 1) => {
                Some(Median { median: value, q25: value, q75: value, interval: Some((value - 0.1, value + 0.1)) })
            }
            "jain" => Some(Median { median: 1.0, q25: 1.0, q75: 1.0, interval: None }),
            _ => None,
        };
        Cell {
            contestant: sweep.contestants[contestant].clone(),
            cell: number,
            values,
            runs: 6,
            failed: if (contestant, number) == (1, 1) { 6 } else { usize::from((contestant, number) == (0, 1)) },
            medians: sweep.figures().map(|name| (name.to_owned(), median(name))).collect(),
        }
    };
    let all = sweep.cells();
    (0..sweep.contestants.len()).flat_map(|contestant| (0..all).map(move |number| cell(contestant, number))).collect()
}

fn shown(sweep: &Sweep) -> String {
    let cells = cells(sweep);
    let failed = Failed { point: sweep.point(7), problem: "a <panic>".to_owned() };
    page(Swept { sweep, cells: &cells, failures: &[failed], command: "paceline sweep <x>" }).unwrap()
}

#[test]
fn two_keys_are_maps_with_values_in_their_cells() {
    let sweep = sweep("down.queue = ['droptail:packets=50', 'droptail:packets=1000']\n");
    let page = shown(&sweep);
    // Three contestants, and the scale.
    assert_eq!(page.matches("class=\"panel k k").count(), 3);
    assert_eq!(page.matches("<g class=\"cell\"").count(), 3 * 6);
    assert_eq!(page.matches("class=\"scale\"").count(), 1);
    assert!(page.contains("down.queue: droptail:packets=\u{2026}") && page.contains(">1000</text>"));
    assert!(page.contains(">failed</text>") && page.contains("class=\"some on-"));
    assert!(page.contains("down.delay = 5ms\ndown.queue = droptail:packets=50\n1.5 Mbit/s (1.4 to 1.6)\n6 runs"));
    assert!(page.contains("Jain&#x27;s index in every cell: 1."), "one value needs no figure");
    assert!(page.contains("Most: reno@tcp in 6 of 6 cells, in all of these by more than the intervals."));
    assert!(page.contains("a &lt;panic&gt;") && page.contains("paceline sweep &lt;x&gt;") && !page.contains("NaN"));
    assert!(page.contains(&format!("<td>{}</td>", sweep.point(7).seed)));
    assert!(page.contains("data:text/csv;charset=utf-8,cell%2Cgrid.down.delay"));
}

#[test]
fn further_keys_are_more_maps() {
    let sweep = sweep("down.queue = ['codel', 'droptail:packets=10']\nup.delay = ['1ms', '2ms']\n");
    let page = shown(&sweep);
    assert_eq!(page.matches("class=\"panel k k").count(), 3 * 2);
    assert_eq!(page.matches("up.delay = 2ms</text>").count(), 3);
    assert_eq!(page.matches("<g class=\"cell\"").count(), 3 * 12, "every cell is drawn once");
}

#[test]
fn one_key_is_a_curve_for_each_contestant() {
    let page = shown(&sweep(""));
    // On a wide page and on a narrow one; the second contestant has no number in the second cell.
    assert_eq!(page.matches("class=\"interval\"").count(), 2 * 8);
    assert_eq!(page.matches("<g data-tip=").count(), 2 * 8);
    assert!(page.contains(">80ms</text>") && page.contains("Throughput, Mbit/s</text>"));
    assert!(page.contains("class=\"k k1 c-copa d1\""));
}

#[test]
fn one_cell_is_a_table() {
    let one = sweep("").to_json().replace(r#"["5ms","20ms","80ms"]"#, r#"["5ms"]"#);
    let sweep = Sweep::from_json(&one).unwrap();
    let page = shown(&sweep);
    assert!(!page.contains("<figure") && page.contains("<td>5ms</td>"));
}

#[test]
fn page_and_table_are_written() {
    let sweep = sweep("");
    let cells = cells(&sweep);
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("new");
    let swept = Swept { sweep: &sweep, cells: &cells, failures: &[], command: "" };
    assert_eq!(write(swept, &made).unwrap(), made.join(PAGE));
    assert_eq!(std::fs::read_to_string(made.join(TABLE)).unwrap().lines().count(), 1 + 9);
    assert!(!std::fs::read_to_string(made.join(PAGE)).unwrap().contains("What failed"));
}
