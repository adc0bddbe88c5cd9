//! Files to be drawn: a refusal is one line of bounded length; what is taken has finite points in the order of time, and becomes a page.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_lab::series::Format;
use paceline_logs::{Kind, kind_of, read_from};
use paceline_report::logs::{page, sheet};

fuzz_target!(|bytes: &[u8]| {
    let read = kind_of("file", bytes).and_then(|kind| match kind {
        Kind::Records | Kind::Series(Format::Parquet) => Ok(None),
        kind => read_from("file", bytes, kind, None).map(Some),
    });
    match read {
        Ok(None) => {}
        Ok(Some(log)) => {
            assert!(log.seconds.is_finite() && log.step_s > 0.0);
            for curve in log.charts.iter().flat_map(|chart| &chart.curves) {
                assert!(curve.points.len() <= 1000 && curve.points.windows(2).all(|pair| pair[0].0 <= pair[1].0));
                assert!(
                    curve.points.iter().all(|(t, y)| t.is_finite() && y.is_none_or(f64::is_finite)),
                    "{}",
                    curve.name
                );
            }
            assert!(!sheet(std::slice::from_ref(&log)).file().contains("NaN"));
            assert!(page(&[log], "paceline plot file").expect("a page").trim_end().ends_with("</html>"));
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("file") && line.len() < 1500 && !line.contains(char::is_control), "{line:?}");
        }
    }
});
