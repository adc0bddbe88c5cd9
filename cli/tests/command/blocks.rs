//! `scripts/test-docs`, which runs the command blocks of the pages: what it runs, and what it refuses.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::lab::Lab;

/// Its output and exit status; `None` without Python.
fn test_docs(lab: &Lab, args: &[&str]) -> Option<(String, Option<i32>)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/test-docs");
    let mut command = Command::new("python3");
    command.arg(script).args(args).env("PACELINE", env!("CARGO_BIN_EXE_paceline")).current_dir(lab.folder.path());
    let Ok(output) = command.output() else {
        eprintln!("skipped: test_docs: there is no python3");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((text, output.status.code()))
}

/// A folder with one page.
fn page(text: &str) -> Lab {
    let lab = Lab::new();
    fs::create_dir(lab.path("scenarios")).unwrap();
    fs::write(lab.path("scenarios/page.md"), text).unwrap();
    lab
}

#[test]
fn every_block_of_the_pages_is_run_or_says_why_not() {
    let Some((text, status)) = test_docs(&Lab::new(), &["--list"]) else { return };
    assert_eq!(status, Some(0), "{text}");
    assert!(text.lines().count() > 100, "{text}");
}

#[test]
fn a_block_that_is_neither_run_nor_says_why_not_is_refused() {
    for (text, problem) in [
        ("```bash\ntrue\n```\n", "scenarios/page.md:1: a block of bash is never run; write sh"),
        ("```console\n$ true\n```\n", "a block of console is never run"),
        ("<!-- not run: -->\n\n    true\n", "scenarios/page.md:3: not run: say why"),
        ("<!-- run: often -->\n\n    true\n", "scenarios/page.md:3: run: 'often' is not one of"),
        ("<!-- not run: minutes -->\nText.\n\n    true\n", "a comment for a block of commands, and no such block"),
    ] {
        let lab = page(text);
        let Some((said, status)) = test_docs(&lab, &["--root", ".", "--list"]) else { return };
        assert!(status == Some(1) && said.contains(problem), "{text}: {said}");
    }
    let lab = page("    true\n");
    for (named, problem) in
        [("scenarios/none.md", "there is no such page"), ("scenarios/page.md:7", "no block begins there")]
    {
        let Some((said, status)) = test_docs(&lab, &["--root", ".", named]) else { return };
        assert!(status == Some(1) && said.contains(problem), "{said}");
    }
}

#[test]
fn blocks_pass_fail_or_are_skipped_for_a_reason() {
    let lab = page(
        "    echo one >file\n\n```sh\n$ cat file\none\n```\n\n<!-- run: exit 3 -->\n\n    exit 3\n\n\
         <!-- before: echo two >file -->\n<!-- with: FILE=file -->\n\n    grep two FILE\n\n\
         <!-- run: for 1 s -->\n\n    sleep 60\n\nText.\n\n    false; echo on\n\n<!-- not run: minutes -->\n\n    false\n\n\
         <!-- run: needs no-such-program -->\n\n    false\n\n<!-- run: 99 s -->\n\n    true\n\n```text\nfalse\n```\n",
    );
    let Some((said, status)) = test_docs(&lab, &["--root", "."]) else { return };
    assert_eq!(status, Some(1), "{said}");
    let verdicts: Vec<&str> = said.lines().filter(|line| line.contains(" scenarios/page.md:")).collect();
    let words: Vec<&str> = verdicts.iter().filter_map(|line| line.split_whitespace().next()).collect();
    let expected = ["passed", "passed", "passed", "passed", "passed", "failed", "skipped", "skipped", "skipped"];
    assert_eq!(words, expected, "{said}");
    assert!(
        said.contains("exit status 1, ")
            && said.contains(": not run: minutes")
            && said.contains(": needs no-such-program")
    );
    assert!(said.contains(": may take 99 s") && said.ends_with("5 passed, 1 failed, 3 skipped\n"), "{said}");
}
