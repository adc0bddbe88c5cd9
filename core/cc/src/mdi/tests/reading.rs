//! Texts that are models, and texts that are not.

use std::io;

use proptest::prelude::*;

use super::*;
use crate::Spec;
use crate::mdi::models::{self, SHIPPED};
use crate::mdi::text::Problem;

/// Random blocks, some empty.
fn any_model() -> impl Strategy<Value = Model> {
    let share = prop_oneof![Just(0.0), 0.0..1.0];
    (1_i64..5, 1_i64..4, prop::collection::vec(share, 2000), 1_u64..100).prop_map(|(nw, nd, shares, epoch)| {
        let grid = grid((-7, -7 + 3 * (nw - 1), 3), (-2, -2 + nd - 1, 1));
        let [epoch, rtt] = [epoch, 7 * epoch].map(Nanos::from_millis);
        let settings = Settings { epoch, rtt, delays: Delays::Level, up: shares[0] * 50.0, down: 0.9 };
        let mut model = Model::new(grid, settings, vec!["first".to_owned(), "second: line".to_owned()]);
        let mut shares = shares.chunks_exact(grid.windows.count());
        for _ in 0..model.blocks() {
            let block = shares.next().unwrap();
            let sum: f64 = block.iter().sum();
            model
                .push(&block.iter().map(|share| if sum > 0.0 { share / sum } else { 0.0 }).collect::<Vec<_>>())
                .unwrap();
        }
        model
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(model in any_model()) {
        prop_assert_eq!(&Model::read(&model.text(false)).unwrap(), &model);
        let plain = Model::read(&model.text(true).replace('\n', "\r\n")).unwrap();
        prop_assert_eq!(plain.settings(), Settings::default());
        let mut again = plain;
        again.settings = model.settings;
        again.provenance.clone_from(&model.provenance);
        prop_assert_eq!(again, model);
    }

    #[test]
    fn nothing_panics(text in "[0-9,.eE\n#: a-]{0,300}") {
        if let Err(error) = Model::read(&text) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}

/// The layouts of the four published files, with some blocks filled.
#[test]
fn the_published_layouts_are_read() {
    for (delays, header) in [
        ((-25, 15, 5), "25,-60,60,5,9,-25,15,5\n"),
        ((-5, 5, 5), "25,-60,60,5,3,-5,5,5\n"),
        ((-10, 10, 2), "21,-20,20,2,11,-10,10,2\n"),
    ] {
        let windows = if delays.2 == 2 { (-20, 20, 2) } else { (-60, 60, 5) };
        let grid = grid(windows, delays);
        let made = model(grid, |row, next| {
            let mut block = vec![0.0; grid.windows.count()];
            if (row + next) % 3 != 0 {
                block[row % grid.windows.count()] = 0.99999;
                block[0] += 1e-5;
            }
            block
        });
        let text = made.text(true).replace("0.00001", "1e-05").replace(",1,", ",1.0,");
        assert!(text.starts_with(header), "{header}");
        for text in [text.clone(), text.trim_end().to_owned(), text + "\n\r\n"] {
            let read = Model::read(&text).unwrap();
            assert_eq!(read.grid(), grid);
            assert_eq!((read.filled(), read.settings()), (made.filled(), Settings::default()));
        }
    }
}

#[test]
fn errors_name_line_and_column() {
    let rows = |cell: &str| format!("# made\n2,0,1,1,1,0,0,1\n1,0\n0.5,{cell}\n");
    assert!(Model::read(&rows("0.5")).is_ok());
    let cases = [
        (rows("0.4"), "line 4, column 1: the block that begins here sums to 0.9, and must sum to 1"),
        (
            "2,0,1,1,1,0,0,1\n1e-304,0\n".to_owned(),
            "line 2, column 1: the block that begins here sums to 1e-304, and must",
        ),
        (rows("-0.5"), "line 4, column 2: '-0.5' is not a number from 0 to 1"),
        (rows("NaN"), "line 4, column 2: 'NaN' is not a number from 0 to 1"),
        (rows("inf"), "line 4, column 2: 'inf' is not"),
        (rows(""), "line 4, column 2: '' is not"),
        (rows("0.5,0"), "line 4, column 2: the row has 3 numbers instead of 2"),
        (rows("0.5\n0,0"), "line 5, column 1: there is more text behind the last of 2 rows"),
        ("2,0,1,1,1,0,0,1\n1,0\n".to_owned(), "line 3, column 1: the text ends before row 2 of 2"),
        ("2,0,1,1,1,0,0,1\n1\n".to_owned(), "line 2, column 1: the row has 1 numbers instead of 2"),
        (String::new(), "line 1, column 1: the text ends before its header NW,Wmin"),
        ("2,0,1,1,1,0,0\n".to_owned(), "line 1, column 7: the header has 7 values instead of the 8"),
        ("2,0,x,1,1,0,0,1\n".to_owned(), "line 1, column 3: 'x' is not a whole number"),
        (
            "3,0,1,1,1,0,0,1\n".to_owned(),
            "line 1, column 1: the header counts 3 values, and its bounds and step give 2",
        ),
        ("2,0,1,1,1,0,0,0\n".to_owned(), "line 1, column 6: no axis goes from 0 to 0 by 0"),
        ("2000,0,1999,1,1,0,0,1\n".to_owned(), "line 1, column 1: 1 delay moves times 2000 window moves are more"),
        ("#up: -1\n".to_owned(), "line 1, column 1: up is '-1' and must be from 0 to 10000"),
        ("# rtt_ms: 0\n".to_owned(), "line 1, column 1: rtt_ms is '0' and must be from 0.1 to 60000"),
        ("\n# epoch_ms: 0.5\n".to_owned(), "line 2, column 1: epoch_ms is '0.5' and must be a whole number"),
    ];
    for (text, error) in cases {
        let read = Model::read(&text).unwrap_err().to_string();
        assert!(read.starts_with(error), "{read}");
    }
    let long = "#".repeat(text::MAX_TEXT + 1);
    assert_eq!(Model::read(&long).unwrap_err().problem, Problem::TooLong);
}

#[test]
fn comments_are_kept_without_control_characters() {
    let read = Model::read("#\u{1}first\tline \n#\u{1}up: 3\n1,0,0,1,1,0,0,1\n1\n").unwrap();
    assert_eq!((read.provenance(), read.settings().up), (&["first line".to_owned()][..], 3.0));
    assert_eq!(Model::read(&read.text(false)).unwrap(), read);
}

#[test]
fn what_is_shipped_is_read_and_says_how_it_was_made() {
    for (name, text) in SHIPPED {
        let model = Model::read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(model.provenance().iter().any(|line| line.contains("paceline mdi train")), "{name}");
        assert!(text.len() < 200_000, "{name}: {} bytes", text.len());
        let spec: Spec = format!("mdi:model={name}").parse().unwrap();
        assert_eq!(spec.to_string(), if *name == "verus" { "mdi".to_owned() } else { format!("mdi:model={name}") });
    }
}

#[test]
fn a_file_comes_in_with_its_text() {
    let refused = |text: &str| text.parse::<Spec>().unwrap_err().to_string();
    let unread = refused("mdi:model=mine.csv");
    assert_eq!(
        unread,
        "controller 'mdi': model=mine.csv is not one of verus, copa, sprout, or a file of this machine that its user names"
    );
    let text = always(published(), 13).text(false);
    let read = |_: &str| Ok(text.clone());
    let spec = Spec::read("mdi:model=mine.csv,up=3", read).unwrap();
    assert_eq!(spec.to_string(), "mdi:model=mine.csv,up=3");
    // From now on the process knows it.
    assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec);
    assert_eq!(Spec::read("mdi:model=mine.csv,up=3", read).unwrap(), spec);
    let other = always(published(), 11).text(false);
    assert_ne!(Spec::read("mdi:model=mine.csv,up=3", |_| Ok(other.clone())).unwrap(), spec);
    let error = Spec::read("mdi:model=a/b.csv", |_| Ok("2,0\n".to_owned())).unwrap_err().to_string();
    assert!(error.starts_with("controller 'mdi': model=a/b.csv: line 1, column 2: the header has 2 values"), "{error}");
    let error = Spec::read("mdi:model=gone", |_| Err(io::Error::other("it is gone"))).unwrap_err().to_string();
    assert_eq!(
        error,
        "controller 'mdi': model=gone: cannot be read (it is gone); name a shipped model or a file that you may read"
    );
    assert!(Spec::read("mdi:model=copa", |_| unreachable!()).is_ok());
    assert!(models::find("copa").is_some() && models::find("none").is_none());
}
