//! The page: for each figure the paper's claim, ours, whether it holds, and the command that runs it alone.

use std::path::{Path, PathBuf};

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, context};

use super::{Claim, Contrast, Paper, ReproduceError, Section, contrasts};
use crate::measure::VERSION;
use crate::report::{self, ReportError};

/// Writes the page into a folder, made where it is missing, and gives its path.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write(paper: &Paper, sections: &[Section], folder: &Path) -> Result<PathBuf, ReproduceError> {
    let page = render(paper, sections).map_err(ReportError::from)?;
    Ok(report::store(folder, report::PAGE, &page)?)
}

fn render(paper: &Paper, sections: &[Section]) -> Result<String, minijinja::Error> {
    let mut env = Environment::new();
    env.set_auto_escape_callback(|_| AutoEscape::Html);
    env.add_template("page", include_str!("page.html"))?;
    let claims = || sections.iter().flat_map(Section::claims);
    let mut contestants: Vec<&str> = Vec::new();
    for claim in claims() {
        if !contestants.contains(&claim.contestant.as_str()) {
            contestants.push(&claim.contestant);
        }
    }
    // How many claims of each figure hold for each contestant.
    let score = |section: &Section, contestant: &str| {
        let all = section.claims().iter().filter(|claim| claim.contestant == contestant);
        let (held, all) = all.fold((0, 0), |(held, all), claim| (held + u32::from(claim.holds), all + 1));
        if all == 0 { "\u{2013}".to_owned() } else { format!("{held} of {all}") }
    };
    let scores: Vec<(&str, Vec<String>)> = contestants
        .iter()
        .map(|contestant| (*contestant, sections.iter().map(|section| score(section, contestant)).collect()))
        .collect();
    let all: Vec<&Claim> = claims().collect();
    let (better, worse): (Vec<Contrast>, Vec<Contrast>) =
        contrasts(&all, paper.ours).into_iter().partition(|contrast| contrast.holds);
    env.get_template("page")?.render(context! {
        title => paper.title,
        name => paper.name,
        about => Serde(paper.about),
        version => VERSION,
        style => concat!(include_str!("page.css")),
        house => report::STYLE,
        held => claims().filter(|claim| claim.holds).count(),
        all => all.len(),
        better => Serde(better),
        worse => Serde(worse),
        scores => Serde(scores),
        sections => Serde(sections),
    })
}
