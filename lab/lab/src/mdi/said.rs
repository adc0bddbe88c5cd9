//! What a model is like, and how near it comes to what it was trained on, in words and in JSON.

use std::fmt::Write as _;

use paceline_cc::mdi::grid::Axis;
use paceline_cc::mdi::{Delays, Model};
use serde_json::{Value, json};

use super::against::{Comparison, Pair};
use super::analysis::{Analysis, MIXED, answers};

fn delays(model: &Model) -> &'static str {
    if model.settings().delays == Delays::Level { "level" } else { "change" }
}

/// The model of this name, for people; `against` is the controller that it is held against.
pub fn text(name: &str, model: &Model, analysis: &Analysis, against: Option<(&str, &Comparison)>) -> String {
    let (grid, settings) = (model.grid(), model.settings());
    let axis = |axis: Axis| format!("{} to {} by {} ({})", axis.min(), axis.max(), axis.step(), axis.count());
    let mut text = format!("{name}\n");
    let mut say = |line: String| {
        text.push_str("  ");
        text.push_str(&line);
        text.push('\n');
    };
    model.provenance().iter().for_each(|line| say(line.clone()));
    say(format!("moves of the window  {}", axis(grid.windows)));
    say(format!("moves of the delay   {}, {}", axis(grid.delays), delays(model)));
    say(format!("states               {}, {} empty", grid.states(), model.empty_states()));
    say(format!("blocks               {}, {} seen", model.blocks(), model.filled()));
    say(format!("epoch                {} ms", settings.epoch.as_millis_f64()));
    let rtt = settings.rtt.as_millis_f64();
    say(format!("round trip           up to {rtt} ms; on a longer one epochs are as much longer"));
    say(format!("outside the grid     below: {} packets more, above: times {}", settings.up, settings.down));
    say(format!("expected moves       delay {:.2}, window {:.2}", analysis.delay, analysis.window));
    let steps = |time: &Option<u32>| time.map_or_else(|| "never".to_owned(), |steps| steps.to_string());
    let times: Vec<String> =
        analysis.mixing.iter().zip(MIXED).map(|(time, to)| format!("{} (to {to:e})", steps(time))).collect();
    say(format!("mixing, epochs       {}", times.join(", ")));
    say("next move of the delay, and the window's mean move then".to_owned());
    for (index, mean) in answers(model).iter().enumerate() {
        let mean = mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.2}"));
        say(format!("  {:>6} {mean:>8}", grid.delays.value(index)));
    }
    if let Some((original, comparison)) = against {
        text.push_str(&compared(original, comparison));
    }
    text
}

/// The same for programs.
pub fn json(name: &str, model: &Model, analysis: &Analysis, against: Option<(&str, &Comparison)>) -> Value {
    let (grid, settings) = (model.grid(), model.settings());
    let axis = |axis: Axis| json!([axis.min(), axis.max(), axis.step()]);
    let mut object = json!({
        "model": name,
        "provenance": model.provenance(),
        "windows": axis(grid.windows),
        "delays": axis(grid.delays),
        "state": delays(model),
        "states": grid.states(),
        "empty_states": model.empty_states(),
        "blocks": model.blocks(),
        "filled_blocks": model.filled(),
        "epoch_ms": settings.epoch.as_millis_f64(),
        "rtt_ms": settings.rtt.as_millis_f64(),
        "up": settings.up,
        "down": settings.down,
        "expected_delay_move": analysis.delay,
        "expected_window_move": analysis.window,
        "mixing_epochs": analysis.mixing,
        "stationary": analysis.stationary,
        "window_move_by_delay_move": answers(model),
    });
    if let Some((original, comparison)) = against {
        object["against"] = compared_json(original, comparison);
    }
    object
}

/// A model and its original over unseen traces, for people.
pub fn compared(original: &str, comparison: &Comparison) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "  against {original}, {} unseen traces: link, {original} and the model in Mbit/s; median delays in ms",
        comparison.pairs.len()
    );
    for pair in &comparison.pairs {
        let _ = writeln!(
            text,
            "    {:>7.2} {:>7.2} {:>7.2} {:>9.1} {:>9.1}",
            pair.link_mbps, pair.original.0, pair.model.0, pair.original.1, pair.model.1
        );
    }
    let _ = writeln!(
        text,
        "  median ratios: throughput {:.3}, delay {:.3}; divergence {:.3} bits",
        comparison.throughput, comparison.delay, comparison.divergence
    );
    text
}

/// The same for programs.
pub fn compared_json(original: &str, comparison: &Comparison) -> Value {
    let pair = |pair: &Pair| {
        json!({
            "link_mbps": pair.link_mbps,
            "original_mbps": pair.original.0,
            "original_delay_ms": pair.original.1,
            "model_mbps": pair.model.0,
            "model_delay_ms": pair.model.1,
        })
    };
    json!({
        "controller": original,
        "traces": comparison.pairs.iter().map(pair).collect::<Vec<_>>(),
        "throughput_ratio": comparison.throughput,
        "delay_ratio": comparison.delay,
        "divergence_bits": comparison.divergence,
    })
}
