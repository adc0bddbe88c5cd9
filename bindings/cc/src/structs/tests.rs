//! The structures of the header, as a C compiler lays them out, are those of Rust.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use super::layout;

/// The structures of the header: their names and those of their members, in order.
fn of_header(header: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    for text in header.split("\nstruct ").skip(1) {
        let (name, rest) = text.split_once(" {\n").expect("a structure has members");
        let (members, _) = rest.split_once("\n};").expect("a structure ends");
        let declarations = members.lines().filter_map(|line| Some(line.split_once(';')?.0));
        found.push((name, declarations.filter_map(|text| text.rsplit([' ', '*']).next()).collect()));
    }
    found
}

#[test]
fn a_c_compiler_lays_structures_out_as_rust_does() {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if !Command::new(&compiler).arg("--version").output().is_ok_and(|output| output.status.success()) {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: a_c_compiler_lays_structures_out: it needs a C compiler ({compiler})"
        );
        return;
    }
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let header = std::fs::read_to_string(include.join("paceline_cc.h")).unwrap();
    let mut source = "#include <paceline_cc.h>\n#include <stdio.h>\nint main(void) {\n".to_owned();
    for (name, members) in of_header(&header) {
        writeln!(source, "printf(\"{name} %lu\\n\", (unsigned long)sizeof(struct {name}));").unwrap();
        for member in members {
            writeln!(
                source,
                "printf(\"  {member} %lu %lu\\n\", (unsigned long)offsetof(struct {name}, {member}), \
                 (unsigned long)sizeof(((struct {name} *)0)->{member}));"
            )
            .unwrap();
        }
    }
    source.push_str("return 0;\n}\n");
    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&file, source).unwrap();
    let compiled = Command::new(compiler).arg("-I").arg(include).arg("-o").arg(&program).arg(file).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let of_c = String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap();

    let mut of_rust = String::new();
    for (name, size, members) in layout() {
        writeln!(of_rust, "{name} {size}").unwrap();
        for (member, offset, size) in members {
            writeln!(of_rust, "  {member} {offset} {size}").unwrap();
        }
    }
    assert_eq!(of_c, of_rust);
}

#[test]
#[cfg(target_pointer_width = "64")]
fn sizes_are_those_that_programs_were_compiled_with() {
    let sizes: Vec<_> = layout().into_iter().map(|(name, size, _)| (name, size)).collect();
    for known in [
        ("paceline_env", 24),
        ("paceline_nature", 32),
        ("paceline_permit", 48),
        ("paceline_sent", 48),
        ("paceline_stamp", 16),
        ("paceline_acked", 40),
        ("paceline_ack", 152),
        ("paceline_lost", 32),
        ("paceline_loss", 56),
        ("paceline_timeout", 48),
        ("paceline_hop", 72),
        ("paceline_telemetry", 72),
        ("paceline_counters", 168),
        ("paceline_state", 96),
        ("paceline_arrived", 24),
        ("paceline_news", 80),
    ] {
        assert!(sizes.contains(&known), "{known:?}: {sizes:?}");
    }
}
