//! The page: for each figure the paper's claim, ours, whether it holds, and the command that runs it alone.

use std::path::{Path, PathBuf};

use minijinja::context;
use minijinja::value::Serde;
use serde::Serialize;

use super::grid::{Grid, alone, grids};
use super::{Claim, Paper, PaperSettings, ReproduceError, Section};
use paceline_lab::version::VERSION;
use paceline_report::{self, PageError};

/// Writes the page into a folder, made where it is missing, and gives its path; beside it the picture that stands for the
/// paper, `NAME.svg`, and pages of single experiments, where those ran.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write(
    paper: &Paper,
    settings: &PaperSettings,
    sections: &[Section],
    folder: &Path,
) -> Result<PathBuf, ReproduceError> {
    let page = render(paper, settings, sections).map_err(PageError::from)?;
    if let Some(figure) = sections.iter().find_map(|section| section.findings.figure.as_ref()) {
        paceline_report::store(folder, &format!("{}.svg", paper.name), figure)?;
    }
    for (name, text) in sections.iter().filter_map(|section| section.findings.page.as_ref()) {
        paceline_report::store(folder, name, text)?;
    }
    // A page of all experiments needs all of them.
    if let Some(page) = paper.page.filter(|_| sections.len() == paper.experiments.len()) {
        paceline_report::store(folder, page.file, &(page.text)(settings, sections))?;
    }
    Ok(paceline_report::store(folder, paceline_report::PAGE, &page)?)
}

/// A section as the page shows it.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    section: &'a Section,
    grids: Vec<Grid<'a>>,
    alone: Vec<&'a Claim>,
}

impl<'a> Shown<'a> {
    fn of(section: &'a Section) -> Self {
        let findings = &section.findings;
        Self { section, grids: grids(findings), alone: alone(findings).collect() }
    }
}

fn render(paper: &Paper, settings: &PaperSettings, sections: &[Section]) -> Result<String, minijinja::Error> {
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
        let (held, all) = all.fold((0, 0), |(held, all), claim| (held + u32::from(claim.holds()), all + 1));
        if all == 0 { "\u{2013}".to_owned() } else { format!("{held} of {all}") }
    };
    let scores: Vec<(&str, Vec<String>)> = contestants
        .iter()
        .map(|contestant| (*contestant, sections.iter().map(|section| score(section, contestant)).collect()))
        .collect();
    let command = match sections {
        [one] => one.command.clone(),
        _ => {
            let world = paper.runs.option(settings.world);
            format!("paceline reproduce {}{world}{}", paper.name, settings.again())
        }
    };
    paceline_report::html(
        include_str!("page.html"),
        context! {
            title => paper.name,
            heading => paper.title,
            about => Serde(paper.about),
            version => VERSION,
            style => format!("{}{}", paceline_report::STYLE, include_str!("page.css")),
            script => paceline_report::SCRIPT,
            held => claims().filter(|claim| claim.holds()).count(),
            all => claims().count(),
            command => command,
            scores => Serde(scores),
            real => settings.world.is_real(),
            sections => Serde(sections.iter().map(Shown::of).collect::<Vec<_>>()),
        },
    )
}
