//! `paceline icn publish` and `stat`.
use std::fs;

use serde_json::Value;

use crate::lab::{Lab, refusal};

fn printed(lab: &Lab, args: &[&str]) -> String {
    let output = lab.run(args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no bar where there is no terminal");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn json(lab: &Lab, args: &[&str]) -> Value {
    serde_json::from_str(&printed(lab, args)).unwrap()
}

#[test]
fn a_file_has_a_name_and_is_checked() {
    let lab = Lab::new();
    fs::write(lab.path("clip.mp4"), vec![7; 100_000]).unwrap();
    let name = printed(&lab, &["icn", "publish", "clip.mp4", "--store", "store"]);
    assert_eq!(name.len(), 53);
    let published = json(&lab, &["icn", "publish", "clip.mp4", "--store", "store", "--json"]);
    assert_eq!((published["name"].as_str(), published["length"].as_u64()), (Some(name.as_str()), Some(100_000)));
    let line = printed(&lab, &["icn", "stat", "--store", "store", &name]);
    assert_eq!(line, format!("{name}: 100000 bytes, 76 units, 2 levels, video/mp4, whole"));
    let line = printed(&lab, &["icn", "stat", "--store", "store", "--check"]);
    assert!(line.ends_with(", whole, verified"), "{line}");
    let stat = json(&lab, &["icn", "stat", "--store", "store", "--json", "--check"]);
    assert_eq!((stat["whole"].as_bool(), stat["genuine_units"].as_u64()), (Some(true), Some(76)));
    assert_eq!(stat["height"].as_u64(), Some(2));
    // One flipped bit in the file.
    let path = lab.path("store").join(&name);
    let mut bytes = fs::read(&path).unwrap();
    bytes[40 * 1400 + 3] ^= 1;
    fs::write(&path, bytes).unwrap();
    let line = refusal(&lab.run(&["icn", "stat", "--store", "store", "--check", &name]));
    assert!(line.contains("is damaged: unit 40 of 76"), "{line}");
}

#[test]
fn a_folder_and_a_signed_name() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("site/css")).unwrap();
    fs::write(lab.path("site/index.html"), "<p>").unwrap();
    fs::write(lab.path("site/css/a.css"), "p {}").unwrap();
    let signed = ["icn", "publish", "site", "--store", "store", "--key", "key", "--label", "site", "--json"];
    let first = json(&lab, &[&signed[..], &["--new-key", "--version", "1"]].concat());
    assert_eq!((first["files"].as_u64(), first["signed"]["version"].as_u64()), (Some(2), Some(1)));
    fs::write(lab.path("site/index.html"), "<b>").unwrap();
    let second = json(&lab, &[&signed[..], &["--version", "2"]].concat());
    assert_eq!(first["name"], second["name"]);
    assert_ne!(first["target"], second["target"]);
    let name = first["name"].as_str().unwrap();
    let stat = json(&lab, &["icn", "stat", "--store", "store", name, "--json"]);
    assert_eq!((&stat["target"], stat["version"].as_u64()), (&second["target"], Some(2)));
    let line = refusal(&lab.run(&[&signed[..], &["--version", "2"]].concat()));
    assert!(line.contains("the store has version 2; give --version 3 or more"), "{line}");
    let line = refusal(&lab.run(&[&signed[..], &["--new-key"]].concat()));
    assert!(line.contains("key: cannot be written (File exists"), "{line}");
    assert_eq!(printed(&lab, &["icn", "stat", "--store", "store"]).lines().count(), 6);
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let lab = Lab::new();
    lab.write_private("file", "x");
    fs::create_dir(lab.path("store")).unwrap();
    let before = lab.names();
    let absent = "aeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqc";
    let cases: [(&[&str], &str); 9] = [
        (&["publish", "absent", "--store", "store"], "absent: cannot be read (No such file"),
        (&["publish", "file", "--store", "file"], "file: is not a folder, and a store is one"),
        (&["publish", "file", "--store", "store", "--media-type", "a\nb"], "file: the media type has 3 bytes or"),
        (
            &["publish", "file", "--store", "store", "--key", "file", "--label", "a"],
            "file: is not an Ed25519 key in PKCS#8",
        ),
        (
            &["publish", "file", "--store", "store", "--key", "key"],
            "the following required arguments were not provided",
        ),
        (&["stat", "--store", "absent"], "absent: there is no such store"),
        (&["stat", "--store", "file"], "file: is not a folder"),
        (&["stat", "--store", "store", "video"], "invalid value 'video' for '[NAME]': 'video' is not a name"),
        (&["stat", "--store", "store", absent], "store: has no aeaqcaib"),
    ];
    for (args, expected) in cases {
        let line = refusal(&lab.run(&[&["icn"], args].concat()));
        assert!(line.starts_with(expected), "{args:?}\nfound    {line}\nexpected {expected}");
    }
    assert_eq!(lab.names(), before);
    assert_eq!(fs::read_dir(lab.path("store")).unwrap().count(), 0, "a refusal leaves nothing behind");
}
