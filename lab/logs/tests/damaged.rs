//! Files that are cut off or damaged anywhere: curves of what is left, or one line.

use std::path::Path;

use paceline_lab::series::Format;
use paceline_logs::{Kind, kind_of, read_from};
use paceline_report::logs::page;

fn taken(bytes: &[u8]) -> bool {
    let read = kind_of("file", bytes).and_then(|kind| match kind {
        Kind::Records | Kind::Series(Format::Parquet) => Ok(None),
        kind => read_from("file", bytes, kind, None).map(Some),
    });
    match read {
        Ok(None) => false,
        Ok(Some(log)) => {
            let curves = || log.charts.iter().flat_map(|chart| &chart.curves);
            assert!(curves().all(|curve| curve.points.len() <= 1000));
            assert!(
                curves().flat_map(|curve| &curve.points).all(|(t, y)| t.is_finite() && y.is_none_or(f64::is_finite))
            );
            assert!(page(&[log], "plot").unwrap().trim_end().ends_with("</html>"));
            true
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("file") && line.len() < 1500 && !line.contains(char::is_control), "{line:?}");
            false
        }
    }
}

#[test]
fn cut_off_or_damaged_anywhere() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/logs");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 7);
    for file in files {
        let whole = std::fs::read(&file).unwrap();
        assert!(taken(&whole), "{}", file.display());
        for at in (0..whole.len()).step_by(11) {
            taken(&whole[..at]);
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            taken(&damaged);
        }
    }
}
