//! What a page shows as a command, and the words that a shell would make of it.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

pub(super) struct Shown {
    /// Of the page, from 1.
    pub(super) line: usize,
    pub(super) command: String,
    /// From a block of commands, where it can be run as it stands.
    pub(super) complete: bool,
}

/// The lines of all blocks of commands (indented, without a language, `sh`), and what stands as code in running text.
pub(super) fn shown(text: &str) -> impl Iterator<Item = Shown> {
    let mut found = Vec::new();
    let mut block = false;
    let options = Options::ENABLE_TABLES;
    for (event, place) in Parser::new_ext(text, options).into_offset_iter() {
        let line = 1 + text[..place.start].matches('\n').count();
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                block = match kind {
                    CodeBlockKind::Indented => true,
                    CodeBlockKind::Fenced(language) => ["", "sh"].contains(&&*language),
                };
            }
            Event::End(TagEnd::CodeBlock) => block = false,
            Event::Text(lines) if block => found.extend(
                lines
                    .lines()
                    .enumerate()
                    .map(|(at, words)| (line + at, words.trim_start_matches("$ ").to_owned(), true)),
            ),
            // A text that ends with a space is not a command.
            Event::Code(words) if !words.ends_with(' ') => found.push((line, words.into_string(), false)),
            _ => {}
        }
    }
    let mut found = found.into_iter();
    std::iter::from_fn(move || {
        let (line, mut command, complete) = found.next()?;
        while let Some(begun) = command.strip_suffix('\\') {
            let (_, next, _) = found.next()?;
            command = format!("{begun}{next}");
        }
        Some(Shown { line, command, complete })
    })
}

/// The commands of a line, each as its words: quotes, comments, what is between commands and around redirections; nothing is
/// expanded. A `|` between two words is one, within a word it is part of it.
pub(super) fn words_of(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match (c, quote) {
            (_, Some(open)) if c == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            ('|', None) if word.is_some() && characters.peek().is_some_and(|next| !" |".contains(*next)) => {
                word.get_or_insert_default().push(c);
            }
            (' ' | ';' | '&' | '|' | '(' | ')' | '<' | '>', None) => {
                // The number of a descriptor belongs to the redirection.
                let ended = word.take().filter(|word| !(c == '>' && word.parse::<u32>().is_ok()));
                commands.last_mut().expect("never empty").extend(ended);
                if c != ' ' {
                    commands.push(Vec::new());
                }
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    commands.last_mut().expect("never empty").extend(word);
    // Whatever these are.
    commands.iter_mut().for_each(|words| words.retain(|word| word != "$@"));
    commands.retain(|words| !words.is_empty());
    commands
}
