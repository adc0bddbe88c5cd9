use super::*;

/// Section 2 of what an evaluation must ask: every clause by its section.
const SECTIONS: [&str; 33] = [
    "3.1", "3.2", "4", "5", "5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.1.5", "5.2", "5.2", "5.2.1", "5.2.2", "5.2.3",
    "5.3.1", "5.3.2", "6", "6.1", "6.2", "6.3", "6.4", "7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7", "7.8", "7.9",
    "7.10", "7.11", "8",
];

fn rows(statements: &Statements) -> Vec<ClauseRow> {
    clauses::rows(statements, false, |_| None)
}

#[test]
fn every_clause_has_a_row_in_order_also_where_nothing_was_asked() {
    let rows = rows(&Statements::NONE);
    assert_eq!(rows.iter().map(|row| row.clause).collect::<Vec<_>>(), SECTIONS);
    for row in rows {
        let words = ["3.1", "3.2", "4", "5.3.1", "5.3.2", "8"].contains(&row.clause);
        let wanted = match row.clause {
            _ if words => "not stated",
            "7.10" => "does not apply",
            _ => "not asked",
        };
        assert_eq!(row.verdict.word(), wanted, "{}", row.clause);
    }
}

#[test]
fn a_question_names_clauses_that_exist_by_their_sections() {
    let mut ids: Vec<&str> = Vec::new();
    for question in questions::all() {
        assert!(!question.clauses.is_empty() && !ids.contains(&question.id), "{}", question.id);
        ids.push(question.id);
        let source = question.source();
        for id in question.clauses {
            let clause = CLAUSES.iter().find(|clause| clause.id == *id);
            let clause = clause.unwrap_or_else(|| panic!("{}: there is no clause {id}", question.id));
            assert!(source.contains(clause.section()), "{}: {source}", question.id);
        }
    }
}

#[test]
fn no_figure_makes_a_missing_statement_met() {
    let holds = [Check::said("5.3.1", "used under loss", ClauseVerdict::Met)];
    let heard = |id: &str| (id == "loss").then_some(&holds[..]);
    let verdict = |statements: &Statements| {
        let rows = clauses::rows(statements, false, heard);
        rows.into_iter().find(|row| row.clause == "5.3.1").map(|row| row.verdict)
    };
    assert_eq!(verdict(&Statements::NONE), Some(ClauseVerdict::NotStated));
    let stated = Statements { deviations: "None.", ..Statements::NONE };
    assert_eq!(verdict(&stated), Some(ClauseVerdict::Met));
}

#[test]
fn what_is_not_met_wants_a_reason() {
    let fails = [Check::said("5.1.2", "queue", ClauseVerdict::NotMet)];
    let criteria = |all, checks: &'static str| {
        let heard = |id: &str| (id == checks).then_some(&fails[..]);
        let rows = clauses::rows(&Statements::NONE, all, heard);
        rows.into_iter().find(|row| row.clause == "5").map(|row| (row.verdict.word(), row.statement))
    };
    let said = Some("One clause is not met, without a reason beside it yet.".to_owned());
    assert_eq!(criteria(true, "alone"), Some(("not stated", said)));
    assert_eq!(criteria(true, ""), Some(("does not apply", None)));
    assert_eq!(criteria(false, "alone").map(|(word, _)| word), Some("not asked"));
}

#[test]
fn questions_are_named_by_themselves_and_by_sections() {
    let ids = |only: &[&str]| {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        wanted(&only).map(|questions| questions.iter().map(|question| question.id).collect::<Vec<_>>())
    };
    assert_eq!(ids(&[]).unwrap().len(), questions::all().count());
    assert_eq!(ids(&["far", "itself"]).unwrap(), ["itself", "far"]);
    assert_eq!(ids(&["5.2.1"]).unwrap(), ["rivals"]);
    assert!(ids(&["5.1"]).unwrap().contains(&"alone") && !ids(&["5.1"]).unwrap().contains(&"harm"));
    assert_eq!(ids(&["8"]).unwrap(), ["cheats"]);
    assert_eq!(ids(&["3.2"]).unwrap(), [""; 0]);
    let refused = ids(&["far", "harms"]).unwrap_err().to_string();
    assert!(
        refused.starts_with("--only: there is no question or section 'harms'; name some of collapse, alone"),
        "{refused}"
    );
    assert!(ids(&["5.9"]).is_err() && ids(&[""]).is_err());
}

#[test]
fn the_form_has_every_statement() {
    let text = form("mine", &Statements { security: "Examined.", ..Statements::NONE });
    assert_eq!((text.matches("(not stated)").count(), text.matches("Examined.").count()), (5, 1), "{text}");
    assert!(text.contains("3.2 status (must, should)"), "{text}");
}

/// Those that it must live with are raced and named by their list alone.
#[test]
fn every_rival_is_raced_against_it_and_against_cubic() {
    let rivals = questions::all().find(|question| question.id == "rivals").unwrap();
    let contestant = "copa@udp".parse().unwrap();
    let cells = (rivals.cells)(&contestant, Effort::QUICK);
    for (name, prose) in questions::RIVALS {
        let keyed = |key: &str| cells.iter().filter(|cell| cell.key == key).count();
        assert!(keyed(name) > 0 && keyed(name) == keyed(&format!("cubic/{name}")), "{name}");
        assert!((rivals.setup)(Effort::QUICK).contains(prose), "{name}");
    }
}
