//! `--tag func:/PATH/TO/BINARY:BEGIN@1,END@1`: messages begin and end at any functions of a program.

use std::path::PathBuf;

/// Where messages begin and end, by functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagFunctions {
    /// The program or library that has them; none: the command's own program.
    pub binary: Option<PathBuf>,
    /// Where a message begins.
    pub begin: FunctionSite,
    /// Where it ends.
    pub end: FunctionSite,
}

/// A place at a function, and what tells the message there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSite {
    /// As the linker has it, or as the source.
    pub function: String,
    /// Where it returns, and not where it begins.
    pub is_return: bool,
    /// What tells the message; none: the thread that is there, in Go the goroutine.
    pub id: Option<MessageId>,
}

/// Where a message's number is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageId {
    /// A function's argument, from 1; none: what it returns.
    pub argument: Option<usize>,
    /// Where that is a pointer: how far behind it, and behind what lies there, and so on.
    pub offsets: Vec<u64>,
    /// How wide it is.
    pub bits: u32,
}

const RETURN: &str = "%return";

impl TagFunctions {
    /// Whether a message is one call of a function.
    pub fn is_a_call(&self) -> bool {
        self.begin.function == self.end.function && !self.begin.is_return && self.end.is_return
    }

    /// From what stands behind `func:`. The file is named by a path, which begins with `/` or `.` and has no colon; names of C++ and Rust have two at a time.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_path = text.starts_with(['/', '.']);
        let (binary, sites) = match text.split_once(':') {
            Some((path, sites)) if is_path => (Some(PathBuf::from(path)), sites),
            _ if is_path => return Err(format!("{text} names a file and no function")),
            _ => (None, text),
        };
        let mut sites = split(sites).into_iter();
        let begin = sites.next().unwrap_or_default();
        let begin = FunctionSite::parse(begin)?;
        let end = match sites.next() {
            Some(end) => FunctionSite::parse(end)?,
            None if begin.is_return => {
                return Err(format!("{} returns where a message begins: where does it end?", begin.function));
            }
            None => FunctionSite { function: begin.function.clone(), is_return: true, id: None },
        };
        if let Some(third) = sites.next() {
            return Err(format!("{third} is a third function"));
        }
        if (&begin.function, begin.is_return) == (&end.function, end.is_return) {
            return Err(format!("a message would begin and end at one place: {}{RETURN} is where it returns", end.function));
        }
        if end.id.is_some() && begin.id.is_none() {
            return Err(format!("the number at {} is of none that {} has", end.function, begin.function));
        }
        Ok(Self { binary, begin, end })
    }
}

impl FunctionSite {
    fn parse(text: &str) -> Result<Self, String> {
        let (place, id) = match text.rsplit_once('@') {
            Some((place, id)) => (place, Some(id)),
            None => (text, None),
        };
        let (function, is_return) = place.strip_suffix(RETURN).map_or((place, false), |function| (function, true));
        let is_named = !function.is_empty() && !function.contains(char::is_control) && !function.contains('%');
        if !is_named {
            return Err(format!("'{text}' names no function"));
        }
        let id = id.map(|id| MessageId::parse(id, is_return)).transpose()?;
        Ok(Self { function: function.into(), is_return, id })
    }
}

impl MessageId {
    /// `1`, `2+0x10`, `1+8+0x18:u32`, `ret`.
    fn parse(text: &str, is_return: bool) -> Result<Self, String> {
        let (place, bits) = match text.split_once(':') {
            None => (text, 64),
            Some((place, width)) => {
                let bits =
                    width.strip_prefix('u').and_then(|bits| bits.parse().ok()).filter(|bits| [8, 16, 32, 64].contains(bits));
                (place, bits.ok_or_else(|| format!("'{width}' is none of u8, u16, u32 and u64"))?)
            }
        };
        let mut parts = place.split('+');
        let first = parts.next().unwrap_or_default();
        let argument = match (first, is_return) {
            ("ret", true) => None,
            ("ret", false) => return Err(format!("@ret is what a function returns: NAME{RETURN}@ret")),
            (_, true) => return Err(format!("@{text}: arguments are gone where a function returns (@ret is what it returns)")),
            (number, false) => {
                let number = number.parse().ok().filter(|number| *number > 0);
                Some(number.ok_or_else(|| {
                    format!("'{text}' is no argument: @1 is the first, @1+0x10 what lies so far behind where it points to")
                })?)
            }
        };
        let offset = |part: &str| match part.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => part.parse().ok(),
        };
        let offsets = parts.map(|part| offset(part).ok_or_else(|| format!("'{part}' of '{text}' is no distance in bytes")));
        Ok(Self { argument, offsets: offsets.collect::<Result<_, _>>()?, bits })
    }

    /// How the kernel fetches it, from the register that the argument is in (Documentation/trace/uprobetracer.rst).
    pub fn fetched_from(&self, register: &str) -> String {
        let place = self.offsets.iter().fold(register.to_string(), |place, offset| format!("+{offset}({place})"));
        format!("{place}:u{}", self.bits)
    }
}

/// At commas, but those within brackets: `a::f(int, long)`, `f<int, 3>`. An operator's signs are no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0u32);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '<' | '[' => depth += 1,
            ')' | '>' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn site(function: &str, is_return: bool, id: Option<MessageId>) -> FunctionSite {
        FunctionSite { function: function.into(), is_return, id }
    }

    fn argument(n: usize, offsets: &[u64], bits: u32) -> Option<MessageId> {
        Some(MessageId { argument: Some(n), offsets: offsets.into(), bits })
    }

    #[test]
    fn places_are_read() {
        let all = [
            ("handle", None, site("handle", false, None), site("handle", true, None)),
            ("/bin/a:f@1,g@2", Some("/bin/a"), site("f", false, argument(1, &[], 64)), site("g", false, argument(2, &[], 64))),
            (
                "./a:a::B::f(int, long)@1+0x10+8:u32,a::g",
                Some("./a"),
                site("a::B::f(int, long)", false, argument(1, &[16, 8], 32)),
                site("a::g", false, None),
            ),
            (
                "take%return@ret,done@1",
                None,
                site("take", true, Some(MessageId { argument: None, offsets: Vec::new(), bits: 64 })),
                site("done", false, argument(1, &[], 64)),
            ),
            (
                "net/http.(*conn).serve",
                None,
                site("net/http.(*conn).serve", false, None),
                site("net/http.(*conn).serve", true, None),
            ),
        ];
        for (text, binary, begin, end) in all {
            let read = TagFunctions::parse(text).unwrap();
            assert_eq!(read, TagFunctions { binary: binary.map(PathBuf::from), begin, end }, "{text}");
        }
        assert!(TagFunctions::parse("f").unwrap().is_a_call() && !TagFunctions::parse("f,g%return").unwrap().is_a_call());
    }

    #[test]
    fn what_cannot_be_is_said() {
        for (text, why) in [
            ("", "names no function"),
            ("/bin/a", "no function"),
            ("f,f", "one place: f%return"),
            ("f,g,h", "a third"),
            ("f@0,g", "no argument"),
            ("f@x,g", "no argument"),
            ("f@1+y,g", "no distance"),
            ("f@1:u7,g", "u8, u16"),
            ("f@ret,g", "NAME%return@ret"),
            ("f,g%return@1", "@ret is what it returns"),
            ("f,g@1", "of none that f has"),
            ("f%return", "where does it end"),
            ("f%ret,g", "names no function"),
        ] {
            let said = TagFunctions::parse(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    #[test]
    fn the_kernel_fetches_what_lies_behind_pointers() {
        let id = |text| TagFunctions::parse(text).unwrap().begin.id.unwrap();
        assert_eq!(id("f@1,g").fetched_from("%di"), "%di:u64");
        assert_eq!(id("f@2+0x10+8:u32,g").fetched_from("%si"), "+8(+16(%si)):u32");
    }
}
