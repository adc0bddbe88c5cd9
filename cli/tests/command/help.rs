//! What a shell and man(1) get, and the short list of controllers.

use std::fs;

use crate::lab::Lab;

fn said(lab: &Lab, arguments: &[&str]) -> String {
    let output = lab.run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn shells_complete_commands_and_options() {
    let lab = Lab::new();
    for (shell, begins) in [("bash", "_paceline()"), ("zsh", "#compdef paceline"), ("fish", "# Print an optspec")] {
        let text = said(&lab, &["completions", shell]);
        assert!(text.starts_with(begins), "{shell}: {}", &text[..60]);
        assert!(text.contains("contestants") && text.contains("controllers"), "{shell}");
    }
}

#[test]
fn each_command_has_a_manual_page() {
    let lab = Lab::new();
    said(&lab, &["manual", "man"]);
    let page = |name: &str| fs::read_to_string(lab.path("man").join(name)).unwrap();
    assert!(page("paceline.1").contains("paceline\\-race(1)") && page("paceline-race.1").contains("\\-\\-contestants"));
    assert!(page("paceline-mdi-train.1").contains("\\-\\-synthetic"));
}

#[test]
fn help_is_a_command_and_an_option() {
    let lab = Lab::new();
    assert_eq!(said(&lab, &["help", "race"]), said(&lab, &["race", "--help"]));
}

#[test]
fn controllers_are_a_short_list_and_a_long_one() {
    let lab = Lab::new();
    let (short, all) = (said(&lab, &["controllers"]), said(&lab, &["controllers", "--all"]));
    assert!(short.lines().count() < 30 && short.contains("\ncopa "), "{short}");
    assert!(all.contains("\ncopa  ") && all.contains("  source: ") && all.lines().count() > 100);
}

#[test]
fn pages_of_controllers_are_made_from_runs() {
    let lab = Lab::new();
    let pages = |folder: &str, threads: &str| {
        let output = lab.run(&["controllers", "copa", "--pages", folder, "--threads", threads]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let mut files: Vec<_> = fs::read_dir(lab.path(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.iter().map(|path| fs::read_to_string(path).unwrap()).collect::<Vec<_>>()
    };
    let first = pages("first", "1");
    assert_eq!(first.len(), 8, "a page, an index, six pictures");
    assert!(first.iter().any(|text| text.starts_with("# copa\n") && text.contains("## On six paths")));
    assert!(first == pages("second", "2"), "the same bytes on any number of threads");
    let refused = lab.run(&["controllers", "copaa", "--pages", "third"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("did you mean copa"));
}
