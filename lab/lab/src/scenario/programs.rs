//! `[programs]`: programs that are not ours, who of the contestants is one, and what of a flow holds for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use paceline_cc::foreign::printable;
use paceline_cc::names::is_plain;
use paceline_experiment::Program;
use paceline_experiment::program::ProgramError;
use serde::Deserialize;

use super::places::Places;
use super::{Flow, KeyError, Scenario, ScenarioError, Who, Workload};
use crate::contestant::Contestant;
use crate::input::{self, Bounds};

/// What a scenario says of programs.
#[derive(Deserialize)]
struct Tables {
    #[serde(default)]
    programs: BTreeMap<String, Program>,
    #[serde(default)]
    programs_from: Option<String>,
}

/// A file of programs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramsFile {
    #[serde(default)]
    programs: BTreeMap<String, Program>,
}

/// The programs of a scenario: its own, and below them those of the file that it names.
///
/// # Errors
/// What is wrong with a table or with the file, at its place.
pub(super) fn read(places: &Places<'_>, folder: &Path) -> Result<BTreeMap<String, Program>, ScenarioError> {
    let Tables { programs, programs_from } = places.read()?;
    let mut all = match programs_from {
        Some(name) => {
            let path = folder.join(&name);
            let text = input::read_text(&path, Bounds::SCENARIO);
            of_file(&path, &text.map_err(|error| places.at("programs_from", unreadable(&path, &error)))?)?
        }
        None => BTreeMap::new(),
    };
    all.extend(named(places, programs)?);
    Ok(all)
}

/// The programs of a file that `option` names, by their names.
///
/// # Errors
/// When it cannot be read, or is wrong: at its place.
pub fn read_programs(option: &str, path: &Path) -> Result<BTreeMap<String, Program>, ScenarioError> {
    let wrong = |error| ScenarioError::Option { option: option.to_owned(), problem: unreadable(path, &error) };
    of_file(path, &input::read_text(path, Bounds::SCENARIO).map_err(wrong)?)
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    let path = printable(&path.display().to_string(), 200);
    format!("{path} cannot be read ({error}); name a file with tables [programs.NAME]")
}

fn of_file(path: &Path, text: &str) -> Result<BTreeMap<String, Program>, ScenarioError> {
    let file = path.display().to_string();
    let places = Places::parse(&file, text, &[])?;
    named(&places, places.read::<ProgramsFile>()?.programs)
}

/// Programs that know their names, each checked.
fn named(places: &Places<'_>, programs: BTreeMap<String, Program>) -> Result<BTreeMap<String, Program>, ScenarioError> {
    let one = |(name, program): (String, Program)| {
        let key = format!("programs.{name}");
        if !is_plain(&name) {
            let problem = "a contestant cannot have this name; write letters, digits, '-', '_', '.' and '+'";
            return Err(places.at(&key, problem));
        }
        let program = Program { name: name.clone(), ..program };
        match program.check() {
            Ok(()) => Ok((name, program)),
            Err(ProgramError::Key { key: below, problem }) => Err(places.at(&format!("{key}.{below}"), problem)),
            Err(other) => Err(places.at(&key, other.to_string())),
        }
    };
    programs.into_iter().map(one).collect()
}

impl Scenario {
    /// Binds flows with a contestant of their own to these programs, and keeps those that run, wherever they came from: as it is written
    /// again, the scenario stands alone.
    pub(super) fn bind(&mut self, programs: &BTreeMap<String, Program>) -> Result<(), KeyError> {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            if let Who::Fixed(contestant) = &mut flow.contestant {
                let bound = contestant.as_ref().clone().bound(programs);
                **contestant =
                    bound.map_err(|error| KeyError::new(format!("flows[{index}].contestant"), error.to_string()))?;
            }
        }
        let run: BTreeSet<String> = self.programs().into_iter().map(|program| program.name.clone()).collect();
        self.programs = programs
            .iter()
            .filter(|(name, _)| run.contains(*name))
            .map(|(name, program)| (name.clone(), program.clone()))
            .collect();
        self.programs_from = None;
        Ok(())
    }

    /// Those who race, then those of flows with a contestant of their own.
    pub(crate) fn everyone(&self) -> impl Iterator<Item = &Contestant> {
        let fixed = self.flows.iter().filter_map(|flow| match &flow.contestant {
            Who::Fixed(contestant) => Some(&**contestant),
            Who::Each => None,
        });
        self.contestants.iter().chain(fixed)
    }

    /// The programs of flows with a contestant of their own.
    pub(crate) fn fixed_programs(&self) -> impl Iterator<Item = &Arc<Program>> {
        self.everyone().skip(self.contestants.len()).filter_map(|contestant| contestant.via.program())
    }

    /// The bytes of the first flow of a program that has an end.
    pub(crate) fn bytes_of_programs(&self) -> Option<u64> {
        let mut flows = self.flows.iter().filter(|flow| self.of_program(flow));
        flows.find_map(|flow| if let Workload::Bytes(bytes) = flow.workload { Some(bytes.0) } else { None })
    }

    /// The programs that run, with their options, each once.
    pub fn programs(&self) -> Vec<Arc<Program>> {
        let mut programs: Vec<Arc<Program>> = Vec::new();
        for program in self.everyone().filter_map(|contestant| contestant.via.program()) {
            if !programs.contains(program) {
                programs.push(Arc::clone(program));
            }
        }
        programs
    }

    /// Whether this flow is one of a program, with any contestant.
    fn of_program(&self, flow: &Flow) -> bool {
        match &flow.contestant {
            Who::Each => self.contestants.iter().any(Contestant::is_program),
            Who::Fixed(contestant) => contestant.is_program(),
        }
    }

    /// Whether what is written for flows of programs can be done with them.
    pub(super) fn check_programs(&self) -> Result<(), KeyError> {
        for (index, flow) in self.flows.iter().enumerate().filter(|(_, flow)| self.of_program(flow)) {
            let wrong = |key: &str, problem: &str| Err(KeyError::new(format!("flows[{index}].{key}"), problem));
            if !matches!(flow.workload, Workload::Bulk | Workload::Bytes(_)) {
                let problem = "a program has no application of ours; write \"bulk\" or { bytes = \"10MB\" }";
                return wrong("workload", problem);
            }
            if flow.object.is_some() || !flow.sources.is_empty() {
                let key = if flow.object.is_some() { "object" } else { "sources" };
                return wrong(key, "a program fetches nothing from content routers; take it out");
            }
        }
        if self.tunnel.is_some() && self.everyone().any(Contestant::is_program) {
            let problem = "a program's packets do not travel inside it; take it out, or the programs";
            return Err(KeyError::new("tunnel", problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Options, Plan, Source};

    const OWN: &str = "[programs.own]\nsender = \"exec s\"\nreceiver = \"exec r\"\noptions = { cc = \"cubic\" }\n";

    fn scenario(top: &str, rest: &str) -> String {
        format!("name = \"a\"\nruns = 1\n{top}\n[down]\nrate = \"1 Mbit/s\"\n{rest}")
    }

    fn plan(text: &str) -> Result<Plan, String> {
        let source = Source::from_text("a.toml", text, Options::default());
        source.plan(1).map_err(|error| error.to_string())
    }

    #[test]
    fn contestants_and_flows_run_programs_of_the_scenario() {
        let flows = "[[flows]]\n[[flows]]\ncontestant = \"own@program\"\n";
        let top = "contestants = [\"own:cc=bbr@program\", \"cubic@tcp\"]";
        let first = plan(&scenario(top, &format!("{OWN}{flows}"))).unwrap();
        let names: Vec<String> = first.scenario.contestants.iter().map(Contestant::to_string).collect();
        assert_eq!(names, ["own:cc=bbr@program", "cubic@tcp"]);
        let programs = first.scenario.programs();
        let with: Vec<&str> = programs.iter().map(|program| program.options["cc"].as_str()).collect();
        assert_eq!(with, ["bbr", "cubic"]);
        // What is written again has the same programs.
        let text = first.to_toml();
        assert!(text.contains("[programs.own]") && text.contains("port = 20000"), "{text}");
        let again = plan(&text).unwrap().scenario;
        assert_eq!((&again.programs, again.programs()), (&first.scenario.programs, programs));
    }

    #[test]
    fn tables_come_from_a_file_and_the_scenarios_own_win() {
        let folder = tempfile::tempdir().unwrap();
        let other = OWN.replace("own", "other").replace("exec s", "exec other");
        std::fs::write(folder.path().join("programs.toml"), format!("{OWN}{other}")).unwrap();
        let top = "programs_from = \"programs.toml\"\ncontestants = [\"own@program\", \"other@program\"]";
        let read = |text: &str| {
            let source = Source::from_text("a.toml", text, Options::default()).in_folder(folder.path());
            source.plan(1).map_err(|error| error.to_string())
        };
        let plan = read(&scenario(top, &OWN.replace("exec s", "exec mine"))).unwrap();
        let senders: Vec<&str> = plan.scenario.programs.values().map(|program| program.sender.as_str()).collect();
        assert_eq!(senders, ["exec other", "exec mine"]);
        assert!(!plan.to_toml().contains("programs_from"));
        let used = read(&scenario("programs_from = \"programs.toml\"\ncontestants = [\"own@program\"]", "")).unwrap();
        assert_eq!(used.scenario.programs.keys().collect::<Vec<_>>(), ["own"], "those that run are kept");

        std::fs::write(folder.path().join("programs.toml"), "\n[programs.own]\nsender = \"s\"\n").unwrap();
        let error = read(&scenario(top, "")).unwrap_err();
        assert!(error.ends_with("programs.toml:2: programs.own.receiver: this key is missing; add it"), "{error}");
        let error = read(&scenario("programs_from = \"program.toml\"\ncontestants = [\"cubic@tcp\"]", "")).unwrap_err();
        assert!(error.starts_with("a.toml:3: programs_from: ") && error.contains("did you mean"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_the_way_out() {
        let top = "contestants = [\"own@program\"]";
        for (text, wrong) in [
            (
                scenario("contestants = [\"ow@program\"]", OWN),
                "a.toml:3: contestants[0]: 'ow@program': no program 'ow'; did you mean own?",
            ),
            (
                scenario("contestants = [\"own:c=bbr@program\"]", OWN),
                "a.toml:3: contestants[0]: 'own:c=bbr@program': own has no option 'c'; did you mean cc?",
            ),
            (
                scenario(top, &format!("{OWN}port = 0\n")),
                "a.toml:10: programs.own.port: 0 is not a port; write one such as 20000",
            ),
            (
                scenario(top, &format!("{OWN}prot = 1\n")),
                "a.toml:10: programs.own.prot: unknown key 'prot'; did you mean port?",
            ),
            (
                scenario(top, &format!("{OWN}server = \"sendr\"\n")),
                "a.toml:10: programs.own.server: unknown value 'sendr'; did you mean sender?",
            ),
            (
                scenario(top, &format!("{OWN}stop = \"TRM\"\n")),
                "a.toml:10: programs.own.stop: unknown value 'TRM'; did you mean TERM?",
            ),
            (
                scenario(top, &format!("{OWN}figures = {{ a = \"/etc/passwd#\" }}\n")),
                "a.toml:10: programs.own.figures.a: '/etc/passwd#' is not FILE#/JSON/pointer",
            ),
            (
                scenario(top, &format!("{OWN}[[flows]]\nworkload = {{ rate = \"1 Mbit/s\" }}\n")),
                "a.toml:11: flows[0].workload: a program has no application of ours",
            ),
            (
                scenario(top, &format!("{OWN}[[flows]]\n[[flows]]\ncontestant = \"on@program\"\n")),
                "a.toml:12: flows[1].contestant: 'on@program': no program 'on'; did you mean own?",
            ),
            (
                scenario(&format!("{top}\ntunnel = \"cubic\""), OWN),
                "a.toml:4: tunnel: a program's packets do not travel inside it",
            ),
        ] {
            let error = plan(&text).unwrap_err();
            assert!(error.starts_with(wrong), "{error}\n{wrong}");
        }
        let error = plan(&scenario(top, "")).unwrap_err();
        assert!(error.contains("add a table [programs.own], or programs_from"), "{error}");
    }
}
