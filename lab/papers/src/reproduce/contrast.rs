//! What our own answer to a paper holds and the paper's contestants miss, and what it misses, in sentences.

use super::Claim;

/// A claim made of several contestants, by the names that sentences use.
struct Contrast {
    claim: String,
    /// Where, of a grid's columns.
    columns: Vec<String>,
    holds: bool,
    /// Others that miss it.
    missed: Vec<&'static str>,
}

/// Sentences about the claims that ours and others are held to; none where there are none. `rivals`: which part of a contestant's
/// name identifies it, and what to call it, ours last.
pub(super) fn sentences(claims: &[Claim], rivals: &[(&'static str, &'static str)]) -> Vec<String> {
    let Some((ours, others)) = rivals.split_last() else { return Vec::new() };
    let own: Vec<&Claim> = claims.iter().filter(|claim| claim.contestant.contains(ours.0)).collect();
    if own.is_empty() {
        return Vec::new();
    }
    let mut contrasts: Vec<Contrast> = Vec::new();
    for claim in &own {
        let misses = |(part, name): &(&str, &'static str)| {
            let same = |other: &&Claim| other.claim == claim.claim && other.contestant.contains(part);
            claims.iter().any(|other| same(&other) && !other.holds()).then_some(*name)
        };
        let missed: Vec<&str> = others.iter().filter_map(misses).collect();
        if claim.holds() && missed.is_empty() {
            continue;
        }
        let (title, column) = match &claim.place {
            Some(place) => (brief(&place.grid), Some(place.column.clone())),
            None => (brief(&claim.claim), None),
        };
        let same = |one: &&mut Contrast| (&*one.claim, one.holds, &one.missed) == (title, claim.holds(), &missed);
        match contrasts.iter_mut().find(same) {
            Some(one) => one.columns.extend(column),
            None => contrasts.push(Contrast {
                claim: title.to_owned(),
                columns: column.into_iter().collect(),
                holds: claim.holds(),
                missed,
            }),
        }
    }
    if contrasts.is_empty() {
        let names: Vec<&str> = others.iter().map(|(_, name)| *name).collect();
        return match listed(&names) {
            none if none.is_empty() => vec!["Ours holds every claim here.".to_owned()],
            names => vec![format!("Ours holds every claim here, and so do {names}.")],
        };
    }
    let held = own.iter().filter(|claim| claim.holds()).count();
    let mut text = vec![format!("Ours holds {held} of {} claims here.", own.len())];
    text.extend(of_kind(&contrasts, others.len(), true));
    text.extend(of_kind(&contrasts, others.len(), false));
    text
}

/// One sentence for all that ours holds, or misses, together with the same others.
fn of_kind(contrasts: &[Contrast], rivals: usize, holds: bool) -> Vec<String> {
    let mut groups: Vec<(&[&str], Vec<String>)> = Vec::new();
    for one in contrasts.iter().filter(|one| one.holds == holds) {
        let columns = if one.columns.is_empty() { String::new() } else { format!(" ({})", one.columns.join(", ")) };
        let claim = format!("{}{columns}", one.claim);
        match groups.iter_mut().find(|(missed, _)| *missed == one.missed) {
            Some((_, claims)) => claims.push(claim),
            None => groups.push((&one.missed, vec![claim])),
        }
    }
    let sentence = |(missed, claims): (&[&str], Vec<String>)| {
        let miss = if missed.len() == 1 { "misses" } else { "miss" };
        let opening = match (holds, missed.is_empty()) {
            (true, _) => format!("Ours holds what {} {miss}", listed(missed)),
            (false, true) if rivals == 0 => "Ours misses".to_owned(),
            (false, true) => "Ours misses what the others hold".to_owned(),
            (false, false) => format!("Ours misses what {} {miss} too", listed(missed)),
        };
        format!("{opening}: {}.", claims.join("; "))
    };
    groups.into_iter().map(sentence).collect()
}

/// A claim without the remark at its end on who set it.
pub(super) fn brief(claim: &str) -> &str {
    if claim.ends_with(')') { claim.rsplit_once(" (").map_or(claim, |(claim, _)| claim) } else { claim }
}

/// `P, Q and R`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, Place};
    use super::*;

    const RIVALS: &[(&str, &str)] = &[("=p@", "P"), ("=q@", "Q"), ("=x@", "ours")];

    fn claim(text: &str, who: &str, holds: bool) -> Claim {
        let cell = Cell { setup: String::new(), ours: String::new(), holds, command: String::new() };
        Claim::new(text, format!("start={who}@tcp"), "").got("", vec![cell])
    }

    #[test]
    fn holds_and_misses_are_told_apart() {
        let claims = [
            claim("a (ours)", "p", false),
            claim("a (ours)", "q", false),
            claim("a (ours)", "x", true),
            claim("b", "p", true),
            claim("b", "x", true),
            claim("c", "p", true),
            claim("c", "x", false),
            claim("d", "q", false),
            claim("d", "x", false),
        ];
        assert_eq!(
            sentences(&claims, RIVALS),
            [
                "Ours holds 2 of 4 claims here.",
                "Ours holds what P and Q miss: a.",
                "Ours misses what the others hold: c.",
                "Ours misses what Q misses too: d."
            ]
        );
        assert_eq!(sentences(&claims[3..5], RIVALS), ["Ours holds every claim here, and so do P and Q."]);
        assert!(sentences(&claims[..2], RIVALS).is_empty(), "ours is not held to it");
    }

    #[test]
    fn columns_of_a_grid_are_named_together() {
        let at = |column: &str, who: &str, holds| {
            let place = Place { grid: "15 ms: at most".to_owned(), column: column.to_owned(), figure: String::new() };
            Claim { place: Some(place), ..claim(&format!("15 ms, {column}: at most"), who, holds) }
        };
        let claims = [at("10 %", "p", false), at("10 %", "x", true), at("80 %", "p", false), at("80 %", "x", true)];
        assert_eq!(sentences(&claims, RIVALS)[1], "Ours holds what P misses: 15 ms: at most (10 %, 80 %).");
    }
}
