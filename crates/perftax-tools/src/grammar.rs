//! Options as perf's parse-options and getopt_long(3) read them: letters that may stand together, long names that may be cut short, values in the same word or
//! the next.

use crate::Error;

/// Whether an option takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// None.
    Nothing,
    /// In the same word or the next.
    Value,
    /// In the same word only, if at all.
    Maybe,
}

/// An option: its letter (NUL where it has none), its long name (empty where it has none), and its value.
pub type Opt = (char, &'static str, Takes);

/// An option that a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given<'a> {
    /// Its long name, without dashes; its letter where it has no other name.
    pub name: &'static str,
    /// Its letter, NUL where it has none.
    pub letter: char,
    /// Its value, where it has one.
    pub value: Option<&'a str>,
    /// Whether it was denied: `--no-NAME`.
    pub is_denied: bool,
    /// As the first of its words is written.
    pub written: &'a str,
}

impl Given<'_> {
    /// The option by itself, as words: its letter where it has one.
    pub fn words(&self) -> Vec<String> {
        let no = if self.is_denied { "no-" } else { "" };
        match (self.letter, self.value) {
            ('\0', Some(value)) => vec![format!("--{}={value}", self.name)],
            (letter, None) if letter != '\0' && !self.is_denied => vec![format!("-{letter}")],
            (_, None) => vec![format!("--{no}{}", self.name)],
            (letter, Some(value)) => vec![format!("-{letter}{value}")],
        }
    }
}

/// What a tool's options are called, and its options.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// The tool.
    pub tool: &'static str,
    /// Its options.
    pub options: &'static [Opt],
}

/// A line that was read: options, then what is no option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read<'a> {
    /// In their order.
    pub options: Vec<Given<'a>>,
    /// From the first word on that is no option, or behind `--`.
    pub rest: Vec<&'a str>,
}

impl Grammar {
    /// Reads the words behind the tool's name, up to the first that is no option.
    ///
    /// # Errors
    /// An option that is not known, a short form of several, a value that is missing.
    pub fn read<'a>(&self, words: &'a [String]) -> Result<Read<'a>, Error> {
        self.read_with(words, Err)
    }

    /// The same where what is not known is left out, and taken to have no value: a recording's own line, which some perf did accept.
    pub fn read_known<'a>(&self, words: &'a [String]) -> Read<'a> {
        self.read_with(words, |_| Ok(())).unwrap_or_default()
    }

    fn read_with<'a>(&self, words: &'a [String], mut unknown: impl FnMut(Error) -> Result<(), Error>) -> Result<Read<'a>, Error> {
        let mut read = Read::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word.strip_prefix('-') {
                Some("-") => break,
                None | Some("") => {
                    read.rest.push(word);
                    break;
                }
                Some(long) if long.starts_with('-') => match self.long(&long[1..], word, &mut words) {
                    Ok(given) => read.options.push(given),
                    Err(error) => unknown(error)?,
                },
                Some(letters) => self.letters(letters, word, &mut words, &mut read.options, &mut unknown)?,
            }
        }
        read.rest.extend(words);
        Ok(read)
    }

    fn long<'a>(&self, text: &'a str, written: &'a str, words: &mut impl Iterator<Item = &'a str>) -> Result<Given<'a>, Error> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let (&(letter, name, takes), is_denied) = self.find(name, written)?;
        let value = match takes {
            Takes::Value if !is_denied => Some(value.or_else(|| words.next()).ok_or_else(|| self.missing(written))?),
            _ => value,
        };
        Ok(Given { name, letter, value, is_denied, written })
    }

    /// An option by its long name, or by as much of it as no other begins with; `no-NAME` denies NAME, and NAME an option that is called `no-NAME`.
    fn find(&self, name: &str, written: &str) -> Result<(&'static Opt, bool), Error> {
        let exactly = |name: &str| self.options.iter().find(|option| option.1 == name && !name.is_empty());
        if let Some(option) = exactly(name) {
            return Ok((option, false));
        }
        if let Some(option) = name.strip_prefix("no-").and_then(exactly).or_else(|| exactly(&format!("no-{name}"))) {
            return Ok((option, true));
        }
        let alike: Vec<&Opt> = self.options.iter().filter(|option| !name.is_empty() && option.1.starts_with(name)).collect();
        match alike[..] {
            [option] => Ok((option, false)),
            [] => Err(self.unknown(written)),
            _ => Err(Error::Ambiguous {
                tool: self.tool,
                option: written.into(),
                candidates: alike.iter().map(|option| format!("--{}", option.1)).collect::<Vec<_>>().join(" or "),
            }),
        }
    }

    /// The letters of one word, of which the last may take the rest or the next word.
    fn letters<'a>(
        &self,
        letters: &'a str,
        written: &'a str,
        words: &mut impl Iterator<Item = &'a str>,
        options: &mut Vec<Given<'a>>,
        unknown: &mut impl FnMut(Error) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (at, letter) in letters.char_indices() {
            let Some(&(_, name, takes)) = self.options.iter().find(|option| option.0 == letter && letter != '\0') else {
                unknown(self.unknown(&format!("-{letter}")))?;
                continue;
            };
            let rest = &letters[at + letter.len_utf8()..];
            let value = match takes {
                Takes::Nothing => None,
                Takes::Value if rest.is_empty() => match words.next() {
                    Some(value) => Some(value),
                    None => return unknown(self.missing(written)),
                },
                _ => Some(rest).filter(|rest| !rest.is_empty()),
            };
            options.push(Given { name, letter, value, is_denied: false, written });
            if takes != Takes::Nothing {
                return Ok(());
            }
        }
        Ok(())
    }

    fn missing(&self, written: &str) -> Error {
        Error::Value { tool: self.tool, option: written.into(), value: "nothing".into(), needed: "a value".into() }
    }

    fn unknown(&self, written: &str) -> Error {
        let bare = written.trim_start_matches('-').split('=').next().unwrap_or_default();
        let alike = |option: &&Opt| (strsim::jaro_winkler(option.1, bare) * 1e6) as u64;
        let nearest = self.options.iter().filter(|option| !option.1.is_empty()).max_by_key(alike);
        let near = nearest.filter(|option| bare.len() > 1 && alike(option) > NEAR);
        let near = near.map_or(String::new(), |option| format!("; --{} is one", option.1));
        Error::UnknownOption { tool: self.tool, option: written.into(), near }
    }
}

/// Names that are as alike as this may have been meant, one for another: Jaro and Winkler's similarity, in millionths.
const NEAR: u64 = 850_000;

impl<'a> Read<'a> {
    /// Whether an option was given, and the last word on it was not that it is denied.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().rev().find(|option| option.name == name).is_some_and(|option| !option.is_denied)
    }

    /// The last value of an option.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.options.iter().rev().find(|option| option.name == name && !option.is_denied).and_then(|option| option.value)
    }

    /// Every value of an option, in their order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.options.iter().filter(move |option| option.name == name && !option.is_denied).filter_map(|option| option.value)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::Takes::{Maybe, Nothing, Value};
    use super::*;

    const GRAMMAR: Grammar = Grammar {
        tool: "a tool",
        options: &[
            ('a', "all", Nothing),
            ('e', "event", Value),
            ('z', "level", Maybe),
            ('\0', "leveller", Nothing),
            ('i', "no-inherit", Nothing),
            ('g', "", Nothing),
        ],
    };

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(String::from).collect()
    }

    #[test]
    fn letters_stand_together_and_take_the_rest_or_the_next_word() {
        let line = words("-ag -ex -e y --event=z --ev v -z9 --level make -a");
        let read = GRAMMAR.read(&line).unwrap();
        let given: Vec<(&str, Option<&str>)> = read.options.iter().map(|option| (option.name, option.value)).collect();
        let all = [
            ("all", None),
            ("", None),
            ("event", Some("x")),
            ("event", Some("y")),
            ("event", Some("z")),
            ("event", Some("v")),
            ("level", Some("9")),
            ("level", None),
        ];
        assert_eq!((given, read.rest.clone()), (all.to_vec(), vec!["make", "-a"]));
        assert_eq!((read.value("event"), read.values("event").count()), (Some("v"), 4));
    }

    #[test]
    fn options_are_written_as_they_are_read() {
        let line = words("-ag -ex --level=3 --no-all --leveller -z");
        let read = GRAMMAR.read(&line).unwrap();
        let again: Vec<String> = read.options.iter().flat_map(Given::words).collect();
        assert_eq!(again.join(" "), "-a -g -ex -z3 --no-all --leveller -z");
        assert_eq!(GRAMMAR.read(&again).unwrap().options.len(), read.options.len());
    }

    #[test]
    fn what_is_denied_is_not_given() {
        for (line, name, has) in [
            ("--no-all", "all", false),
            ("-a --no-all", "all", false),
            ("--no-all -a", "all", true),
            ("--inherit", "no-inherit", false),
            ("-i", "no-inherit", true),
        ] {
            assert_eq!(GRAMMAR.read(&words(line)).unwrap().has(name), has, "{line}");
        }
    }

    #[test]
    fn what_is_not_known_is_named_and_never_left_out() {
        let error = |line: &str| GRAMMAR.read(&words(line)).unwrap_err().to_string();
        assert_eq!(error("--evend x"), "a tool has no option '--evend' that is known here; --event is one");
        assert_eq!(error("-ak"), "a tool has no option '-k' that is known here");
        assert_eq!(error("--lev"), "a tool: '--lev' may be --level or --leveller");
        assert_eq!(error("-e"), "a tool: -e is 'nothing', needs a value");
        let lenient = words("-ak --unknown -e x -- y");
        let read = GRAMMAR.read_known(&lenient);
        assert_eq!((read.options.len(), read.rest), (2, vec!["y"]));
    }
}
