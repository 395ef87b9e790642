//! Text in lines.

use itertools::Itertools as _;
use textwrap::core::Word;
use textwrap::wrap_algorithms::wrap_first_fit;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Lines of at most `width` visible characters, broken at spaces; ANSI colour takes no place, and a longer word stands alone.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let options = Options::new(width)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    text.lines().flat_map(|line| textwrap::wrap(line, &options)).map(|line| line.into_owned()).collect()
}

/// The same of words that stay whole, whatever spaces they hold: the arguments of a command.
pub(crate) fn filled(words: &[String], width: usize) -> Vec<String> {
    let spaced: Vec<String> = words.iter().map(|word| format!("{word} ")).collect();
    let words: Vec<Word<'_>> = spaced.iter().map(|word| Word::from(word)).collect();
    let lines = wrap_first_fit(&words, &[width as f64]);
    lines.into_iter().map(|line| line.iter().map(|word| word.word).join(" ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_spaces_and_colour_takes_no_place() {
        assert_eq!(wrapped("one two three\nfour", 7), ["one two", "three", "four"]);
        assert_eq!(wrapped("\x1b[1mone\x1b[0m two", 7), ["\x1b[1mone\x1b[0m two"]);
        assert_eq!(wrapped("a much-longer-word b", 6), ["a", "much-longer-word", "b"]);
        assert_eq!(wrapped("µs of what", 5), ["µs of", "what"]);
        assert_eq!(filled(&["sh", "-c", "'a b'", "c"].map(String::from), 7), ["sh -c", "'a b' c"]);
    }
}
