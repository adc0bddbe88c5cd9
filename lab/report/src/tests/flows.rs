//! Own flows, flows beside them, and cross traffic.

use super::*;

/// One contestant whose first flow is another's, with as many own flows after it.
fn beside_one(own: usize) -> Race {
    let mut race = race(&[("cubic@tcp", 0.98, 1200.0)], 6);
    for run in &mut race.runs {
        run.own = std::iter::once(false).chain(vec![true; own]).collect();
        run.record.own_throughput_mbps = Some(run.record.throughput_mbps / 4.0);
        let mine = FlowRecord { loss: 0.25, retransmits: Some(1), ..run.record.flows[0].clone() };
        run.record.flows.extend(vec![mine; own]);
        if let Some(series) = &mut run.series {
            let mut window = vec![0.0; 100];
            window.resize(series.capacity_mbps.len(), 7.0);
            for index in 1..=own {
                let first = series.flows[0].clone();
                series.flows.push(FlowSeries { index, window_packets: window.clone(), ..first });
            }
        }
    }
    race
}

#[test]
fn a_sentence_speaks_of_the_own_flow_while_it_lives() {
    let sentence = |own| reading::variables(&Data::of_race(beside_one(own).shown()).contestants[0]);
    let said = "ranged from 7 to 7 packets, 7 on average; the path dropped 25 % of its packets, 1 was sent again.";
    assert_eq!(sentence(1), format!("Its window {said}"));
    assert_eq!(sentence(2), format!("The window of its first flow {said}"));
}

#[test]
fn each_own_flow_has_a_line_in_the_legend() {
    let legend = |own| {
        let race = beside_one(own);
        let figures = figures::figures(&Data::of_race(race.shown()));
        figures.iter().find(|f| f.id == "throughput").unwrap().legend.iter().map(|key| key.text).collect::<Vec<_>>()
    };
    let (first, last) = ("its own flows, together", ["flows beside it, together", "what the path could carry"]);
    assert_eq!(legend(1), [&[first], &last[..]].concat());
    assert_eq!(legend(2), [&[first, "its first flow", "its second"], &last[..]].concat());
    let page = page_of(&beside_one(2));
    for mark in ["part ink f1", "part ink f2"] {
        // Of throughput, and of the variables.
        assert_eq!(page.matches(mark).count(), 2, "{mark}");
    }
}

#[test]
fn what_was_used_is_said_to_be_without_cross_traffic() {
    let mut race = race(&[("cubic@tcp", 0.8, 1200.0), ("sprout@udp", 0.5, 25.0)], 6);
    assert_eq!(page_of(&race).matches("without cross traffic").count(), 0);
    for run in &mut race.runs {
        run.cross_mbps = run.series.iter().flat_map(|series| vec![1.5; series.capacity_mbps.len()]).collect();
    }
    // In the sentence, and in both panels of the used share.
    assert_eq!(page_of(&race).matches("without cross traffic").count(), 1 + 2);
}

#[test]
fn draws_are_said_as_people_say_them_and_a_seed_where_there_are_several() {
    let mut race = race(&[("cubic@tcp", 0.98, 1200.0)], 2);
    for (run, draw) in race.runs.iter_mut().zip(["55849595ns", "4090796853ns"]) {
        run.record.drawn.insert("flows[0].start".to_owned(), draw.to_owned());
        run.record.drawn.insert("down.loss".to_owned(), "0.00125".to_owned());
    }
    let page = page_of(&race);
    for cell in ["title=\"55849595ns\">55.8 ms<", "title=\"4090796853ns\">4.09 s<", "<td>0.00125<"] {
        assert!(page.contains(cell), "{cell}");
    }
    assert!(!page.contains(">seed<"));
    race.runs[1].record.seed = 2;
    assert!(page_of(&race).contains(">seed<"));
}

#[test]
fn beside_others_throughput_is_called_own() {
    let mut race = race(&[("cubic@tcp", 0.98, 1200.0), ("sprout@udp", 0.5, 25.0)], 6);
    let sentence = |race: &Race| reading::trade_off(&Data::of_race(race.shown()));
    assert!(sentence(&race).contains(" % throughput"), "{}", sentence(&race));
    for run in &mut race.runs {
        run.record.own_throughput_mbps = Some(run.record.throughput_mbps / 4.0);
    }
    assert!(sentence(&race).contains(" % own throughput"), "{}", sentence(&race));
}
