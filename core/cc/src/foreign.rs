//! Texts from outside, such as a file's, a peer's or an argument's, as they may stand in a line that people read.

/// Whether a character acts on the text around it, or is not seen: it controls, ends a line, reorders what follows (Unicode's
/// `Bidi_Control`), or is by default ignored where text is shown (`Default_Ignorable_Code_Point` of Unicode 17's
/// `DerivedCoreProperties.txt`, but for variation selectors, which change a glyph's look alone).
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// One line of a text: its first `most` characters, then `…` if there are others; a space for each that [`is_hidden`].
pub fn printable(text: &str, most: usize) -> String {
    let mut seen = text.chars().map(|c| if is_hidden(c) { ' ' } else { c });
    let mut line: String = seen.by_ref().take(most).collect();
    if seen.next().is_some() {
        line.push('…');
    }
    line
}

/// A text as an error quotes it: 40 characters of it, as [`printable`] has them.
pub fn clipped(text: &str) -> String {
    printable(text, 40)
}

/// One line of an error and what caused it, each cause where the line does not have it already.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let causes = std::iter::successors(error.source(), |cause| (**cause).source());
    for cause in causes.map(ToString::to_string) {
        if !line.contains(&cause) {
            line.push_str(": ");
            line.push_str(&cause);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_long_as_it_may_be() {
        assert_eq!(printable("reno", 4), "reno");
        assert_eq!(printable("renos", 4), "reno…");
        assert_eq!(printable("größe", usize::MAX), "größe");
        assert_eq!(clipped(&"x".repeat(41)).chars().count(), 41);
    }

    #[test]
    fn nothing_ends_reorders_or_hides_a_line() {
        assert_eq!(printable("a\nb\u{1b}[2Jc\u{7f}", 80), "a b [2Jc ");
        // "Trojan Source" (CVE-2021-42574): an override shows what follows it from right to left.
        assert_eq!(printable("reno\u{202e}cibuc\u{2066}", 80), "reno cibuc ");
        for hidden in ["\u{200b}", "\u{2028}", "\u{feff}", "\u{61c}", "\u{e0041}", "\u{85}", "\u{ad}"] {
            assert_eq!(printable(hidden, 80), " ", "{hidden:?}");
        }
        let seen = "µs → 95 % ‘x’ Ünïcödé 漢字 \u{2764}\u{fe0f}";
        assert_eq!(printable(seen, 80), seen);
    }
}
