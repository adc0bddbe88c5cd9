//! A script's text as its lines. Errors name the word, and what stands there instead.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER_PERMISSIVE;
use paceline_cc::names::is_plain;
use paceline_cc::{Cause, Env, Spec, SpecError};

use super::events::{
    COUNT, SPAN, WHOLE, acked, cause, count, mss, named, packets, sent, sign, telemetry, time, value, which,
};
use super::statement::{Expectation, Expected, Statement, Tolerance, What, When, Which};
use super::value::{ANSWERS, Asked, RELATIONS, Unit, Value, fits, wanted};
use super::words::Words;
use super::{Place, Script, ScriptError};

/// Deepest repetition in a repetition (our choice).
const DEEPEST: usize = 8;

/// Words that begin a line.
#[derive(Clone, Copy)]
enum Verb {
    Sent,
    Acked,
    Lost,
    Timeout,
    Spurious,
    Cause,
    Mss,
    AppLimited,
    Telemetry,
    SharedRtt,
    Feedback,
    Expect,
    Let,
    Repeat,
    End,
}

const VERBS: [(&str, Verb); 15] = [
    ("sent", Verb::Sent),
    ("acked", Verb::Acked),
    ("lost", Verb::Lost),
    ("timeout", Verb::Timeout),
    ("spurious", Verb::Spurious),
    ("cause", Verb::Cause),
    ("mss", Verb::Mss),
    ("app_limited", Verb::AppLimited),
    ("telemetry", Verb::Telemetry),
    ("shared_rtt", Verb::SharedRtt),
    ("feedback", Verb::Feedback),
    ("expect", Verb::Expect),
    ("let", Verb::Let),
    ("repeat", Verb::Repeat),
    ("end", Verb::End),
];

impl Script {
    /// Reads a script; `controller` reads the controller that it names: [`str::parse`], or what opens models too.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(
        name: &str,
        text: &str,
        controller: impl Fn(&str) -> Result<Spec, SpecError>,
    ) -> Result<Self, ScriptError> {
        let mut lines = text.lines().enumerate().map(|(index, line)| Words::of(name, index + 1, line));
        let mut lines = lines.by_ref().filter(|words| words.peek().is_some()).peekable();
        let top = Place { line: 1, column: 1 };
        let wanted = "a script begins with the controller that it is about: controller cubic";
        let mut first = lines.next().ok_or_else(|| top.error(name, wanted))?;
        let begins = first.place();
        if !first.take("controller") {
            return Err(first.error(begins, wanted));
        }
        let place = first.place();
        let text = first.rest();
        let controller = controller(text).map_err(|error| first.error(place, error.to_string()))?;
        let mut env = Env::default();
        if let Some(mut words) = lines.next_if(|words| words.peek().is_some_and(|word| word.text == "env")) {
            read_env(&mut words, &mut env)?;
        }
        let mut reading = Reading { kept: BTreeMap::new(), open: vec![(top, 0, Vec::new())] };
        for mut words in lines {
            reading.line(&mut words)?;
        }
        let (place, _, statements) = reading.open.swap_remove(0);
        match reading.open.first() {
            Some((place, ..)) => Err(place.error(name, "this repetition has no end; write 'end' behind its last line")),
            None if statements.is_empty() => {
                Err(place.error(name, "nothing happens in this script; add a line such as '0s sent 10'"))
            }
            None => Ok(Self { name: name.to_owned(), controller, env, statements }),
        }
    }
}

fn read_env(words: &mut Words<'_>, env: &mut Env) -> Result<(), ScriptError> {
    words.next();
    while let Some(key) = words.one_of("key of env", &[("mss", 0), ("seed", 1), ("paced", 2)])? {
        match key {
            0 => env.mss = value(words, "a size from 1 to 65535 B", mss)?,
            1 => env.seed = value(words, WHOLE, |text| text.parse().ok())?,
            _ => env.paced = true,
        }
    }
    Ok(())
}

/// A script that is being read.
struct Reading {
    /// What `let` keeps, by its name.
    kept: BTreeMap<String, Asked>,
    /// The statements so far, of the script and of each repetition that is open: where it began, and how often it is run.
    open: Vec<(Place, u64, Vec<Statement>)>,
}

impl Reading {
    fn line(&mut self, words: &mut Words<'_>) -> Result<(), ScriptError> {
        let place = words.place();
        let when = self.when(words)?;
        let verb_at = words.place();
        let Some(verb) = words.one_of("event", &VERBS)? else {
            return Err(words.error(verb_at, "what happens then is missing: sent, acked, expect or another"));
        };
        if let (Some(_), Verb::Repeat | Verb::End) = (when, verb) {
            return Err(words.error(place, "no time stands here; the lines within have times"));
        }
        let what = match verb {
            Verb::Repeat => {
                let times = words.read(COUNT, count)?;
                words.end()?;
                if self.open.len() > DEEPEST {
                    return Err(words.error(place, format!("repetitions are at most {DEEPEST} deep")));
                }
                self.open.push((place, times, Vec::new()));
                return Ok(());
            }
            Verb::End => {
                words.end()?;
                if self.open.len() < 2 {
                    return Err(words.error(place, "there is no repetition to end here; take the line out"));
                }
                let (place, times, body) = self.open.pop().expect("there are two");
                self.push(Statement { place, when: None, what: What::Repeat { times, body } });
                return Ok(());
            }
            Verb::Sent => sent(words)?,
            Verb::Acked => acked(words)?,
            Verb::Lost => {
                let (which, every) = packets(words)?;
                let mut why = Cause::Unknown;
                while words.one_of("key of lost", &[("cause", ())])?.is_some() {
                    sign(words)?;
                    why = cause(words)?;
                }
                What::Lost { which, every, cause: why }
            }
            Verb::Timeout => {
                let which = if words.peek().is_some() { which(words)? } else { Which::All };
                What::Timeout { which }
            }
            Verb::Spurious => What::Spurious,
            Verb::Cause => What::Cause { cause: cause(words)?, which: named(words)? },
            Verb::Mss => What::Mss { mss: words.read("a size from 1 to 65535 B", mss)? },
            Verb::AppLimited => What::AppLimited,
            Verb::Telemetry => telemetry(words)?,
            Verb::SharedRtt => What::SharedRtt { min: words.read(SPAN, |text| text.parse().ok())? },
            Verb::Feedback => {
                let hex = |text: &str| HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
                let blob = words.read("an even number of hexadecimal digits", hex)?;
                What::Feedback { blob, refused: words.take("refused") }
            }
            Verb::Expect => self.expect(words)?,
            Verb::Let => self.keep(words)?,
        };
        words.end()?;
        self.push(Statement { place, when, what });
        Ok(())
    }

    fn push(&mut self, statement: Statement) {
        if let Some((_, _, statements)) = self.open.last_mut() {
            statements.push(statement);
        }
    }

    /// The time at the beginning of a line.
    fn when(&self, words: &mut Words<'_>) -> Result<Option<When>, ScriptError> {
        let Some(word) = words.peek() else { return Ok(None) };
        if !word.text.starts_with(|c: char| c.is_ascii_digit() || c == '+') {
            return Ok(None);
        }
        words.next();
        if let Some(span) = word.text.strip_prefix('+') {
            let span = span.parse().map_err(|_| words.wrong(word, "a time such as +20ms"))?;
            return Ok(Some(When::After(span)));
        }
        let at = time(word.text).ok_or_else(|| words.wrong(word, SPAN))?;
        if self.open.len() > 1 {
            return Err(words.error(word.place, "in a repetition time goes on from line to line; write +TIME"));
        }
        Ok(Some(When::At(at)))
    }

    fn expect(&self, words: &mut Words<'_>) -> Result<What, ScriptError> {
        let mut all = vec![self.expectation(words)?];
        while words.take(",") {
            all.push(self.expectation(words)?);
        }
        Ok(What::Expect(all))
    }

    fn expectation(&self, words: &mut Words<'_>) -> Result<Expectation, ScriptError> {
        let first = words.need("an answer such as window")?;
        let asked = asked(words, first)?;
        let place = words.place();
        let Some(relation) = words.one_of("relation", &RELATIONS)? else {
            return Err(words.error(place, "a relation is missing: =, !=, <, <=, > or >="));
        };
        let (expected, kind) = self.expected(words, &asked)?;
        let mut tolerance = Tolerance::Exact;
        let place = words.place();
        if words.take("+-") || words.take("±") {
            if relation != super::value::Relation::Equal {
                return Err(words.error(place, "a tolerance stands behind '=' alone; write the bound itself"));
            }
            tolerance = read_tolerance(words, kind)?;
        }
        let text = words.text_from(first).to_owned();
        Ok(Expectation { place: first.place, text, asked, relation, expected, tolerance })
    }

    /// What an answer is held against, and what it counts where that is known.
    fn expected(&self, words: &mut Words<'_>, asked: &Asked) -> Result<(Expected, Option<Unit>), ScriptError> {
        let first = words.need(wanted(asked))?;
        let kept = |name: &str| self.kept.get(name).filter(|of| *of == asked || both_sizes(of, asked));
        if let Ok(factor) = first.text.parse::<f64>()
            && factor.is_finite()
            && words.take("*")
        {
            let name = words.need("a name that 'let' keeps")?;
            if kept(name.text).is_none() {
                return Err(words.wrong(name, &self.names(asked)));
            }
            return Ok((Expected::Kept { factor, name: name.text.to_owned() }, None));
        }
        if kept(first.text).is_some() {
            return Ok((Expected::Kept { factor: 1.0, name: first.text.to_owned() }, None));
        }
        let value = quantity(words, first.text).filter(|value| fits(asked, *value));
        let value = value.ok_or_else(|| {
            let more = if self.kept.is_empty() { String::new() } else { format!(", or {}", self.names(asked)) };
            words.wrong(first, &format!("{}{more}", wanted(asked)))
        })?;
        let unit = if let Value::Number(_, unit) = value { Some(unit) } else { None };
        Ok((Expected::Value(value), unit))
    }

    fn names(&self, asked: &Asked) -> String {
        let like = self.kept.iter().filter(|(_, of)| *of == asked || both_sizes(of, asked));
        let names: Vec<&str> = like.map(|(name, _)| name.as_str()).collect();
        if names.is_empty() {
            return "a name that 'let' keeps of such an answer (there is no such name before this line)".to_owned();
        }
        format!("a name that 'let' keeps of such an answer ({})", names.join(", "))
    }

    fn keep(&mut self, words: &mut Words<'_>) -> Result<What, ScriptError> {
        let name = words.need("a name")?;
        let first = name.text.chars().next().is_some_and(char::is_alphabetic);
        if !first || !is_plain(name.text) || Value::read(name.text).is_some() {
            return Err(words.wrong(name, "a name: a letter, then letters, digits and _"));
        }
        if !words.take("=") {
            return Err(words.error(words.place(), "write let NAME = ANSWER, such as: let before = window"));
        }
        let answer = words.need("an answer such as window")?;
        let asked = asked(words, answer)?;
        self.kept.insert(name.text.to_owned(), asked.clone());
        Ok(What::Let { name: name.text.to_owned(), asked })
    }
}

/// Both are sizes, which may be compared.
fn both_sizes(one: &Asked, other: &Asked) -> bool {
    let size = |asked: &Asked| matches!(asked, Asked::Window | Asked::Threshold);
    size(one) && size(other)
}

fn asked(words: &Words<'_>, word: super::words::Word<'_>) -> Result<Asked, ScriptError> {
    if let Some((_, asked)) = ANSWERS.iter().find(|(name, _)| *name == word.text) {
        return Ok(asked.clone());
    }
    if !word.text.starts_with(char::is_alphabetic) || !is_plain(word.text) {
        return Err(words.wrong(word, "an answer: window, pacing, threshold, next_tick, or a variable's name"));
    }
    Ok(Asked::Variable(word.text.to_owned()))
}

/// A value that begins with this word; its unit may be the next one.
fn quantity(words: &mut Words<'_>, first: &str) -> Option<Value> {
    let bare = first.parse::<f64>().is_ok();
    match words.peek().filter(|word| bare && word.text.starts_with(char::is_alphabetic)) {
        Some(unit) => {
            words.next();
            Value::read(&format!("{first}{}", unit.text))
        }
        None => Value::read(first),
    }
}

fn read_tolerance(words: &mut Words<'_>, kind: Option<Unit>) -> Result<Tolerance, ScriptError> {
    let first = words.need("a tolerance such as 5% or 1 packet")?;
    if let Some(percent) = first.text.strip_suffix('%') {
        let percent = percent.parse().ok().filter(|percent: &f64| (0.0..=100.0).contains(percent));
        let percent = percent.ok_or_else(|| words.wrong(first, "a share from 0% to 100%"))?;
        return Ok(Tolerance::Share(percent / 100.0));
    }
    let size = |unit: Unit| if unit == Unit::Packets { Unit::Bytes } else { unit };
    let value = quantity(words, first.text);
    let value = value.filter(|value| match (value, kind) {
        (Value::Number(slack, unit), Some(kind)) => *slack >= 0.0 && size(*unit) == size(kind),
        (Value::Number(slack, _), None) => *slack >= 0.0,
        (Value::Word(_), _) => false,
    });
    let value =
        value.ok_or_else(|| words.wrong(first, "a tolerance such as 5%, or one in the unit of what is expected"))?;
    Ok(Tolerance::Value(value))
}
