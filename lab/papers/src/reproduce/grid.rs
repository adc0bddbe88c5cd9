//! Claims that differ in one number, side by side: a row per contestant, a column for each value of the number.

use serde::Serialize;

use super::{Cell, Claim, Findings};

/// Figures of someone no claim of the grid is about, to compare with.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    pub(super) grid: String,
    pub(super) name: String,
    /// For each column.
    pub(super) figures: Vec<String>,
}

/// The claims of one title.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Grid<'a> {
    pub(super) title: &'a str,
    pub(super) columns: Vec<&'a str>,
    pub(super) rows: Vec<Row<'a>>,
}

/// The claims about one contestant, or figures to compare with.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row<'a> {
    pub(super) name: &'a str,
    pub(super) entries: Vec<Entry<'a>>,
}

/// One claim.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry<'a> {
    pub(super) figure: &'a str,
    /// `None`: a figure to compare with.
    pub(super) holds: Option<bool>,
    pub(super) claim: &'a str,
    pub(super) stated: &'a str,
    pub(super) cells: &'a [Cell],
}

/// The grids of an experiment, in the order of their first claims.
pub(super) fn grids(findings: &Findings) -> Vec<Grid<'_>> {
    let mut grids: Vec<Grid<'_>> = Vec::new();
    for claim in &findings.claims {
        let Some(place) = &claim.place else { continue };
        let at = grids.iter().position(|grid| grid.title == place.grid).unwrap_or_else(|| {
            grids.push(Grid { title: &place.grid, columns: Vec::new(), rows: Vec::new() });
            grids.len() - 1
        });
        let grid = &mut grids[at];
        if !grid.columns.contains(&place.column.as_str()) {
            grid.columns.push(&place.column);
        }
        let entry = Entry {
            figure: &place.figure,
            holds: Some(claim.holds()),
            claim: &claim.claim,
            stated: &claim.ours,
            cells: &claim.cells,
        };
        match grid.rows.iter_mut().find(|row| row.name == claim.contestant) {
            Some(row) => row.entries.push(entry),
            None => grid.rows.push(Row { name: &claim.contestant, entries: vec![entry] }),
        }
    }
    for grid in &mut grids {
        for beside in findings.beside.iter().filter(|beside| beside.grid == grid.title) {
            let entry = |figure| Entry { figure, holds: None, claim: "", stated: "", cells: &[] };
            let entries = beside.figures.iter().map(|figure| entry(figure)).collect();
            grid.rows.push(Row { name: &beside.name, entries });
        }
    }
    grids
}

/// Claims that stand in no grid.
pub(super) fn alone(findings: &Findings) -> impl Iterator<Item = &Claim> {
    findings.claims.iter().filter(|claim| claim.place.is_none())
}

#[cfg(test)]
mod tests {
    use super::super::Place;
    use super::*;

    #[test]
    fn claims_find_their_rows_and_columns() {
        let claim = |who: &str, column: &str| {
            let place = Place { grid: "g".to_owned(), column: column.to_owned(), figure: format!("{who}{column}") };
            Claim { place: Some(place), ..Claim::new(column, who, "") }
        };
        let claims = vec![claim("a", "1"), claim("b", "1"), claim("a", "2"), claim("b", "2"), Claim::new("", "c", "")];
        let beside =
            Beside { grid: "g".to_owned(), name: "z".to_owned(), figures: vec!["5".to_owned(), "6".to_owned()] };
        let findings = Findings { claims, beside: vec![beside], ..Findings::default() };
        let grids = grids(&findings);
        assert_eq!((grids.len(), &grids[0].columns), (1, &vec!["1", "2"]));
        let text = |row: &Row<'_>| row.entries.iter().map(|entry| entry.figure).collect::<Vec<_>>().join(" ");
        assert_eq!(grids[0].rows.iter().map(text).collect::<Vec<_>>(), ["a1 a2", "b1 b2", "5 6"]);
        assert_eq!(alone(&findings).count(), 1);
    }
}
