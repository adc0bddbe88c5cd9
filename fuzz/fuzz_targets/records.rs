//! Records from a file: a refusal is one line; what is taken is written as the same records again, and becomes a page.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_lab::record::{read_json, write_json};
use paceline_report::write_records;

fuzz_target!(|bytes: &[u8]| {
    match read_json("records", bytes) {
        Ok(records) => {
            let mut written = Vec::new();
            write_json(&records, &mut written).expect("memory takes it");
            assert!(read_json("again", &written[..]).expect("it was written") == records);
            let folder = std::env::temp_dir().join(format!("fuzz-records-{}", std::process::id()));
            let page = write_records(&records, &folder).unwrap_or_else(|error| panic!("{error}"));
            let page = std::fs::read_to_string(page).expect("it was written");
            std::fs::remove_dir_all(&folder).expect("it is ours");
            assert!(page.trim_end().ends_with("</html>") && !page.contains("<script>alert"), "{page}");
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error}"),
    }
});
