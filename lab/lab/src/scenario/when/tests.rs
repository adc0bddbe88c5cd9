use crate::scenario::{Options, Plan, ScenarioError, Source};

const HEAD: &str =
    "name = \"a\"\nseconds = 1\nruns = 2\ncontestants = [\"bbr3@tcp\"]\n\n[down]\nrate = \"10 Mbit/s\"\n\n";

fn plans(text: &str) -> Result<Vec<Plan>, ScenarioError> {
    Source::from_text("a.toml", &format!("{HEAD}{text}"), Options::default()).plans()
}

/// What is said of a `[[when]]` with these lines.
fn refused(when: &str) -> String {
    let error = plans(&format!("[[when]]\n{when}")).expect_err(when).to_string();
    assert!(!error.contains('\n') && error.starts_with("a.toml:"), "{error}");
    error
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line_and_key_and_the_way_out() {
    let set = "set = { \"down.rate\" = \"0.9x\" }";
    let cases = [
        (
            format!("is = {{ stat = 1 }}\n{set}"),
            "a.toml:10: when[0].is.stat: bbr3 does not describe 'stat'; it describes state,",
        ),
        (
            format!("is = {{ state = \"GONE\" }}\n{set}"),
            "a.toml:10: when[0].is.state: it has no value 'GONE'; it has Startup,",
        ),
        (format!("is = {{ rounds = \"UP\" }}\n{set}"), "its values have no names; write a number"),
        (format!("is = {{ rounds = {{ over = 1 }} }}\n{set}"), "{ above = x } or { below = x }"),
        (format!("is = {{}}\n{set}"), "a.toml:10: when[0].is: it asks for nothing"),
        (
            format!("flow = 1\nis = {{ state = \"UP\" }}\n{set}"),
            "a.toml:10: when[0].flow: there is no flow 1; the scenario has 1",
        ),
        (format!("for = \"0s\"\nis = {{ state = \"UP\" }}\n{set}"), "a.toml:10: when[0].for: 0 changes nothing"),
        (format!("is = {{ state = \"UP\" }}\nonce = true\n{set}"), "unknown key 'once'"),
    ];
    for (when, expected) in cases {
        let error = refused(&when);
        assert!(error.contains(expected), "{error}");
    }
    let sets = [
        ("\"up.rate\" = \"0.9x\"", "when[0].set.up.rate: this direction has no link with a rate"),
        ("\"up.outage\" = \"1s\"", "when[0].set.up.outage: this direction has no link with a rate"),
        ("\"down.rate\" = \"-1x\"", "a factor is above 0"),
        ("\"down.rate\" = \"fast\"", "is not a rate, such as \"10 Mbit/s\""),
        ("\"down.rate\" = \"0 Mbit/s\"", "write DIR.outage"),
        ("\"down.loss\" = 2.0", "give a number from 0 to 1"),
        ("\"down.outage\" = \"0s\"", "0 changes nothing"),
        ("\"down.reorder\" = { share = 0.1, delay = \"0s\" }", "a delay above 0"),
        ("\"down.queue\" = \"infinite\"", "that cannot change while a run goes on; what can is DIR.rate, DIR.delay,"),
        ("\"down.trace\" = \"a\"", "that cannot change while a run goes on"),
        ("\"down.policer.rate\" = \"1 Mbit/s\"", "this direction has no policer"),
        ("\"dwn.rate\" = \"1 Mbit/s\"", "there is no direction 'dwn'"),
        ("\"flows.3.workload\" = \"pause\"", "there is no flow '3'"),
        ("\"flows.0.workload\" = \"stop\"", "is not \"pause\", \"resume\" or a workload"),
        ("\"flows.0.workload\" = { rate = \"0 bit/s\" }", "a rate of 0 writes nothing"),
    ];
    for (set, expected) in sets {
        let error = refused(&format!("is = {{ state = \"UP\" }}\nset = {{ {set} }}"));
        assert!(error.starts_with("a.toml:11: when[0].set.") && error.contains(expected), "{error}");
    }
    assert!(refused("is = { state = \"UP\" }\nset = {}").contains("it changes nothing"));
    let contestants = HEAD.replace("bbr3@tcp\"", "bbr3@tcp\", \"cubic@tcp\"");
    let text = format!("{contestants}[[when]]\nis = {{ state = \"UP\" }}\n{set}");
    let error = Source::from_text("a.toml", &text, Options::default()).plans().unwrap_err().to_string();
    assert!(error.contains("cubic does not describe 'state'; it describes "), "{error}");
}

#[test]
fn the_effective_scenario_has_it_and_reads_back_and_ranges_are_drawn_once_a_run() {
    let text = "[[when]]\nis = { state = \"UP\", rounds = { above = 3 } }\nskip = 1\nafter = \"1s\"\ndelay = \"1ms\"\nfor = \"2s\"\n\
                set = { \"down.rate\" = \"1 Mbit/s..9 Mbit/s\", \"down.loss\" = \"0.01..0.02\", \"flows.0.workload\" = \"pause\" }\n";
    let plans = plans(text).unwrap();
    let effective = plans[0].to_toml();
    assert!(effective.contains("[[when]]") && effective.contains("1 Mbit/s..9 Mbit/s"), "{effective}");
    let again = Source::from_text("b.toml", &effective, Options::default()).plans().unwrap();
    // What stands there besides has the defaults written out.
    assert_eq!(again[0].scenario.when, plans[0].scenario.when);
    let drawn: Vec<_> = plans.iter().map(|plan| plan.drawn["when[0].set.down.rate"].clone()).collect();
    assert_ne!(drawn[0], drawn[1]);
    assert_ne!(plans[0].scenario.when[0].set["down.loss"], plans[1].scenario.when[0].set["down.loss"]);
}
