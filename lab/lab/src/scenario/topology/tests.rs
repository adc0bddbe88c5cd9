//! Scenarios with links: what they mean, and one clear line for each that cannot be.

use paceline_cc::{Nanos, Rate};

use super::super::{Options, Plan, Scenario, Source};

/// Two links in a row, a flow over both and one over the second.
const CHAIN: &str = r#"
name = "chain"
contestants = ["cubic@tcp"]
[links.b]
between = ["x", "y"]
rate = "10 Mbit/s"
delay = "5ms"
queue = "droptail:bdp=1"
[links.a]
between = ["y", "z"]
rate = "4 Mbit/s"
delay = "20ms"
back = { delay = "10ms" }
[[flows]]
from = "x"
to = "z"
[[flows]]
contestant = "reno@tcp"
from = "z"
to = "y"
workload = { rate = "1 Mbit/s" }
[[cross]]
from = "y"
to = "z"
rate = "1 Mbit/s"
"#;

fn plans(text: &str, set: &[&str]) -> Result<Vec<Plan>, String> {
    let set = set.iter().map(|text| (*text).to_owned()).collect();
    let options = Options { runs: Some(1), set, ..Options::default() };
    Source::from_text("s.toml", text, options).plans().map_err(|error| error.to_string())
}

fn plan(text: &str) -> Plan {
    plans(text, &[]).unwrap().remove(0)
}

fn names(plan: &Plan, index: usize) -> Vec<String> {
    let world = plan.world::<()>(&plan.scenario.contestants[0], None).unwrap();
    let graph = world.topology.graph();
    let route = graph.route(world.flows[index].way).unwrap();
    route.iter().map(|hop| graph.hops()[*hop as usize].name.clone()).collect()
}

#[test]
fn links_become_hops_and_flows_find_their_way() {
    let plan = plan(CHAIN);
    assert_eq!(names(&plan, 0), ["b", "a"]);
    assert_eq!(names(&plan, 1), ["a.back"]);
    let links = &plan.scenario.links;
    assert_eq!(links["b"].back(), &links["b"].there);
    assert_eq!((links["a"].back().delay, links["a"].back().rate), (Nanos::from_millis(10), None));
    // Of equal length there and back 5 + 20 + 10 + 5 ms for the flow over both, which passes every hop.
    let ways = plan.ways.clone();
    assert_eq!(plan.scenario.base_rtts(&plan.graph, &ways[..2]), [Nanos::from_millis(40); 4]);
    // No one passes the first link: it has its own round trip.
    assert_eq!(plan.scenario.base_rtts(&plan.graph, &ways[1..2])[2..], [Nanos::from_millis(10); 2]);
    assert_eq!(plan.own(), [true, false]);
}

#[test]
fn the_text_of_a_scenario_gives_it_again() {
    let scenario = plan(CHAIN).scenario;
    let again = plan(&scenario.to_toml()).scenario;
    assert_eq!(again, scenario);
    // With the values that stand for keys that are not given.
    let whole = plan(CHAIN).to_toml();
    assert_eq!(plan(&plan(&whole).to_toml()).scenario, plan(&whole).scenario);
    assert!(whole.contains("queue = \"droptail:bytes=2MB\""), "{whole}");
    assert_eq!((whole.matches("loss = 0.0").count(), whole.matches("duplicate = 0.0").count()), (3, 3), "{whole}");
    assert_eq!(whole.matches("queue = ").count(), 2, "what nothing limits has no queue: {whole}");
    assert!(!scenario.to_toml().contains("direction") && !scenario.to_toml().contains("[down]"));
}

#[test]
fn keys_of_links_are_set_and_hold_ranges() {
    let set = ["links.a.rate=6Mbit/s..8Mbit/s", "links.b.back.delay=1ms", "links.a.loss=0.1..0.2"];
    let plan = plans(CHAIN, &set).unwrap().remove(0);
    let rate = plan.scenario.links["a"].there.rate.unwrap();
    assert!(rate >= Rate::from_mbps(6.0) && rate <= Rate::from_mbps(8.0), "{rate:?}");
    assert_eq!(plan.scenario.links["b"].back().delay, Nanos::from_millis(1));
    assert_eq!(plan.drawn.keys().collect::<Vec<_>>(), ["links.a.loss", "links.a.rate"]);
    assert!(plan.to_toml().contains("6Mbit/s..8Mbit/s"));
}

/// A dumbbell written with links is the same world, but for its seeds.
#[test]
fn the_short_form_and_the_long_one_are_one_world() {
    let short = plan(
        "name = \"s\"\ncontestants = [\"reno@tcp\"]\n[down]\nrate = \"8 Mbit/s\"\ndelay = \"5ms\"\n[up]\ndelay = \"7ms\"\n",
    );
    let long = plan(
        "name = \"s\"\ncontestants = [\"reno@tcp\"]\n[links.path]\nbetween = [\"network\", \"user\"]\nrate = \"8 Mbit/s\"\n\
         delay = \"5ms\"\nback = { delay = \"7ms\" }\n[[flows]]\nfrom = \"network\"\nto = \"user\"\n",
    );
    let run = |plan: &Plan| {
        let world = plan.world(&plan.scenario.contestants[0], None).unwrap();
        let outcome = paceline_sim::run(world, None);
        (outcome.flows[0].wire_bytes_arrived, outcome.flows[0].packets_dropped, outcome.events)
    };
    assert_eq!(run(&short), run(&long));
}

#[test]
fn what_cannot_be_is_one_line_with_its_place() {
    let with = |from: &str, to: &str| CHAIN.replacen(from, to, 1);
    let more = |text: &str| format!("{CHAIN}{text}\n");
    let cases = [
        (
            more("[links.c]\nbetween = [\"z\", \"x\"]\ndelay = \"1ms\""),
            "s.toml:27: links.c.between: it closes a loop (a, b, c); ways must be unique, take one of these links out",
        ),
        (
            more("[links.c]\nbetween = [\"y\", \"x\"]"),
            "s.toml:27: links.c.between: it closes a loop (b, c); ways must be unique, take one of these links out",
        ),
        (with("to = \"z\"", "to = \"w\""), "s.toml:16: flows[0].to: no link has the node 'w'; known are y, z, x"),
        (
            with("from = \"y\"", "from = \"xx\""),
            "s.toml:23: cross[0].from: no link has the node 'xx'; known are y, z, x",
        ),
        (
            more("[links.a]\nbetween = [\"z\", \"w\"]"),
            "s.toml:26: this name is given twice; rename one of the two, or take it out",
        ),
        (with("\"y\", \"z\"", "\"z\", \"z\""), "s.toml:10: links.a.between: it joins z with itself; name two nodes"),
        (
            with("between = [\"y\", \"z\"]", "between = [\"w\", \"z\"]"),
            "s.toml:16: flows[0].to: no way leads from x to z; join them by [links]",
        ),
        (
            with("[links.b]", "[down]\ndelay = \"1ms\"\n[links.b]"),
            "s.toml:4: down: the scenario has [links] too; keep one of them, since two paths are the short form of one link",
        ),
        (
            with("to = \"z\"", ""),
            "s.toml:14: flows[0].to: this key is missing; name the node, since the scenario has [links]",
        ),
        (
            with("to = \"z\"", "to = \"x\""),
            "s.toml:16: flows[0].to: it is the node that the data comes from; name another",
        ),
        (
            with("to = \"z\"", "to = \"z\"\ndirection = \"up\""),
            "s.toml:17: flows[0].direction: the scenario has [links], so that a direction has no meaning; write from and to",
        ),
        (with("between = [\"x\", \"y\"]\n", ""), "s.toml:4: links.b.between: this key is missing; add it"),
        (
            with("rate = \"10 Mbit/s\"", "rte = \"1 Mbit/s\""),
            "s.toml:6: links.b.rte: unknown key 'rte'; did you mean rate?",
        ),
        (
            with("rate = \"10 Mbit/s\"", "rate = \"0bit/s\""),
            "s.toml:6: links.b.rate: a link of rate 0 carries nothing; give a rate above 0, such as 12 Mbit/s",
        ),
        (
            with("back = { delay = \"10ms\" }", "back = { queue = \"pie\" }"),
            "s.toml:13: links.a.back.queue: there is no link for it to wait at; give rate, schedule or trace, or leave out the queue",
        ),
        (
            with("[\"x\", \"y\"]", "[\"x\", \"y\", \"z\"]"),
            "s.toml:5: links.b.between: a link joins two nodes, not 3; write [\"a\", \"b\"]",
        ),
        (
            with("[links.b]", "[links.\"b b\"]"),
            "s.toml:4: links.b b: 'b b' is not a name; names of nodes and links have letters, digits, - and _",
        ),
        (
            with(
                "[[flows]]\ncontestant = \"reno@tcp\"\nfrom = \"z\"",
                "[[flows]]\ncontestant = \"reno@tcp\"\nfrom = \"y\"",
            ),
            "s.toml:20: flows[1].to: it is the node that the data comes from; name another",
        ),
        (
            "name = \"s\"\ncontestants = [\"reno@tcp\"]\n[down]\nrate = \"1 Mbit/s\"\n[[flows]]\nfrom = \"a\"\n"
                .to_owned(),
            "s.toml:6: flows[0].from: there are no [links], so that no node has a name; write direction",
        ),
        (
            "name = \"s\"\ncontestants = [\"reno@tcp\"]\n[links.a]\nbetween = [\"x\", \"y\"]\nrate = \"1 Mbit/s\"\n"
                .to_owned(),
            "s.toml:3: links: a scenario with links has no flows by itself; add [[flows]] with from and to",
        ),
    ];
    let mut wrong = Vec::new();
    for (text, expected) in &cases {
        let found = plans(text, &[]).expect_err(expected);
        if found.contains('\n') || !found.starts_with(expected) {
            wrong.push(format!("found    {found}\nexpected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    // Nothing limits the second flow.
    let endless = plans(&with("workload = { rate = \"1 Mbit/s\" }\n", ""), &[]).unwrap_err();
    assert!(
        endless.starts_with("s.toml:17: flows[1]: there is no link, and a flow that sends without end"),
        "{endless}"
    );
    let trace = Options { trace: Some("x.trace".into()), ..Options::default() };
    let refused = Source::from_text("s.toml", CHAIN, trace).plans().unwrap_err().to_string();
    assert!(refused.starts_with("--trace: the scenario has [links]; write --set links.NAME.trace=FILE"), "{refused}");
}

#[test]
fn no_scenario_without_links_changes_its_text() {
    let scenario = plan("name = \"s\"\ncontestants = [\"reno@tcp\"]\n[down]\nrate = \"1 Mbit/s\"\n").scenario;
    let again: Scenario = toml::from_str(&scenario.to_toml()).unwrap();
    assert_eq!(again, scenario);
    assert!(!scenario.to_toml().contains("links"));
}

#[test]
fn the_effective_text_has_the_flow_that_runs_where_none_is_given() {
    let short = plan("name = \"s\"\ncontestants = [\"reno@tcp\"]\n[down]\nrate = \"1 Mbit/s\"\nloss = 0.1\n");
    let whole = short.to_toml();
    assert_eq!(whole.matches("[[flows]]").count(), 1, "{whole}");
    assert!(whole.contains("loss = 0.1") && whole.contains("mss = 1448"), "{whole}");
    let again = plan(&whole);
    assert_eq!((again.scenario.flows(), again.own()), (short.scenario.flows(), short.own()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_real_race_runs_over_links_but_takes_no_tunnel_there_and_no_more_than_packets_can_cross() {
    use std::fmt::Write;

    let check = |text: &str| {
        let plans = plans(text, &[]).unwrap();
        crate::real::check(&plans[0].scenario.contestants, &plans)
    };
    // Every Linux has Reno.
    let chain = CHAIN.replace("cubic@tcp", "reno@tcp");
    check(&chain).unwrap();
    let refused = check(&format!("tunnel = \"reno\"\n{chain}")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "tunnel: it joins two ends, and the scenario has [links]; take it out, or write [down] and [up]"
    );
    let delayed = "tunnel = \"reno\"\nname = \"s\"\ncontestants = [\"reno@tcp\"]\n[down]\nrate = \"1 Mbit/s\"\n\
                   [[flows]]\nextra_delay = \"1ms\"\n";
    let refused = check(delayed).unwrap_err().to_string();
    assert!(refused.starts_with("tunnel: it joins two ends, and a flow with an extra_delay"), "{refused}");
    let mut long = chain;
    for link in 0..58 {
        write!(long, "\n[links.l{link}]\nbetween = [\"z{link}\", \"z{}\"]\n", link + 1).unwrap();
    }
    check(&long).unwrap();
    // And one for the delay of its flow.
    let refused = check(&format!("{long}[[flows]]\nfrom = \"x\"\nto = \"y\"\nextra_delay = \"1ms\"\n")).unwrap_err();
    let expected =
        "--real: 61 links, with one for each extra_delay to a node, are more than 60; write fewer, or leave out --real";
    assert_eq!(refused.to_string(), expected);
}
