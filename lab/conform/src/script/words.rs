//! The words of a line, each with its column.

use paceline_cc::foreign::clipped;
use paceline_cc::names::nearest;

use super::{Place, ScriptError};

/// A word of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) place: Place,
    /// Byte of the line at which it begins.
    from: usize,
}

/// What is left of a line.
#[derive(Clone, Debug)]
pub(super) struct Words<'a> {
    file: &'a str,
    text: &'a str,
    words: Vec<Word<'a>>,
    at: usize,
    /// Behind the last word.
    end: Place,
}

/// Whether a character is a word by itself, or with the one behind it.
const fn is_sign(c: char) -> bool {
    matches!(c, '=' | '<' | '>' | '!' | ',' | '*' | '±')
}

impl<'a> Words<'a> {
    /// Of a line, whose comment is left out.
    pub(super) fn of(file: &'a str, number: usize, line: &'a str) -> Self {
        let text = line.split('#').next().unwrap_or_default().trim_end();
        let mut words = Vec::new();
        let mut chars = text.char_indices().zip(1..).peekable();
        while let Some(((from, c), column)) = chars.next() {
            if c.is_whitespace() {
                continue;
            }
            let tolerance = |at: usize| text[at..].starts_with("+-");
            let mut to = from + c.len_utf8();
            let pair = matches!(c, '<' | '>' | '!') && text[to..].starts_with('=') || tolerance(from);
            if pair {
                chars.next();
                to += 1;
            } else if !is_sign(c) {
                while let Some(((_, c), _)) =
                    chars.next_if(|((at, c), _)| !c.is_whitespace() && !is_sign(*c) && !tolerance(*at))
                {
                    to += c.len_utf8();
                }
            }
            words.push(Word { text: &text[from..to], place: Place { line: number, column }, from });
        }
        let end = Place { line: number, column: text.chars().count() + 1 };
        Self { file, text, words, at: 0, end }
    }

    /// The next word, which stays.
    pub(super) fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.at).copied()
    }

    /// Where the next word stands, or would.
    pub(super) fn place(&self) -> Place {
        self.peek().map_or(self.end, |word| word.place)
    }

    /// The next word.
    pub(super) fn next(&mut self) -> Option<Word<'a>> {
        let word = self.peek();
        self.at += usize::from(word.is_some());
        word
    }

    /// The next word, if it is this one.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let is = self.peek().is_some_and(|word| word.text == text);
        self.at += usize::from(is);
        is
    }

    /// The next word, which has to be there; `wanted` says what it is.
    pub(super) fn need(&mut self, wanted: &str) -> Result<Word<'a>, ScriptError> {
        let place = self.place();
        self.next().ok_or_else(|| place.error(self.file, format!("the line ends, and {wanted} is missing")))
    }

    /// The next word as what it stands for.
    pub(super) fn read<T>(&mut self, wanted: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, ScriptError> {
        let word = self.need(wanted)?;
        read(word.text).ok_or_else(|| self.wrong(word, wanted))
    }

    /// Which of `known` the next word is, if there is one.
    pub(super) fn one_of<T: Copy>(&mut self, what: &str, known: &[(&str, T)]) -> Result<Option<T>, ScriptError> {
        let Some(word) = self.next() else { return Ok(None) };
        if let Some((_, found)) = known.iter().find(|(name, _)| *name == word.text) {
            return Ok(Some(*found));
        }
        let tip = nearest(word.text, known.iter().map(|(name, _)| *name));
        Err(word.place.error(self.file, format!("there is no {what} '{}'; {tip}", clipped(word.text))))
    }

    /// A word that is not what is wanted there.
    pub(super) fn wrong(&self, word: Word<'_>, wanted: &str) -> ScriptError {
        word.place.error(self.file, format!("'{}' is not {wanted}", clipped(word.text)))
    }

    /// An error at this place.
    pub(super) fn error(&self, place: Place, problem: impl AsRef<str>) -> ScriptError {
        place.error(self.file, problem)
    }

    /// All that is left, as one text.
    pub(super) fn rest(&mut self) -> &'a str {
        let from = self.peek().map_or(self.text.len(), |word| word.from);
        self.at = self.words.len();
        &self.text[from..]
    }

    /// The text from `first` to the next word.
    pub(super) fn text_from(&self, first: Word<'_>) -> &'a str {
        let to = self.peek().map_or(self.text.len(), |word| word.from);
        self.text[first.from..to].trim_end()
    }

    /// Refuses what is left.
    pub(super) fn end(&mut self) -> Result<(), ScriptError> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(word
                .place
                .error(self.file, format!("'{}' is one word too many; end the line before it", clipped(word.text)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<(&str, usize)> {
        Words::of("f", 1, line).words.iter().map(|word| (word.text, word.place.column)).collect()
    }

    #[test]
    fn words_have_columns_and_signs_stand_alone() {
        assert_eq!(split("  +10ms acked 2 # x"), [("+10ms", 3), ("acked", 9), ("2", 15)]);
        let signs = [("window", 1), (">=", 7), ("14", 9), ("+-", 11), ("5%", 13), (",", 15), ("ü", 17)];
        assert_eq!(split("window>=14+-5%, ü"), signs);
        assert_eq!(split("x=0.7*w ±1"), [("x", 1), ("=", 2), ("0.7", 3), ("*", 6), ("w", 7), ("±", 9), ("1", 10)]);
        assert!(split("# all").is_empty());
    }
}
