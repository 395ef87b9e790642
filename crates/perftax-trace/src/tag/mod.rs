//! What tells a message from the next: `--tag marks`, `--tag reg:r13`, `--tag usdt:PROVIDER:START,DONE`, `--tag func:BEGIN,END`, `--tag socket:PORT`.

mod functions;

use std::path::PathBuf;

use perftax_doc::steps::Setting;
use perftax_pmu::{Error, Result};

pub use functions::{FunctionSite, MessageId, TagFunctions};

/// How messages are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tag {
    /// The program marks them (`perftax_tag.h`, crate perftax-tag).
    #[default]
    Marks,
    /// It keeps their number in a register (`perftax_tag_register.h`).
    Register(TagRegister),
    /// Its static probes say where they begin and end.
    Probes(TagProbes),
    /// They begin and end at functions of it.
    Functions(TagFunctions),
    /// Each is what a process does for one trace of a tracing system: threads publish which (OpenTelemetry's thread context).
    Otel,
    /// Each is what a server reads on a connection and answers, on connections of this port, or of all.
    Sockets(Option<u16>),
}

/// A register that holds tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagRegister {
    /// Its name.
    pub name: &'static str,
    /// Its number in samples (`asm/perf_regs.h`).
    pub number: u32,
}

/// Two static probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagProbes {
    /// The program or library that has them; none: the command's own program.
    pub binary: Option<PathBuf>,
    /// Whose they are, as the program says.
    pub provider: String,
    /// Where a message begins.
    pub start: String,
    /// Which of its arguments, from 1, is the address of the message's text.
    pub text: Option<usize>,
    /// Where it ends.
    pub done: String,
}

impl TagRegister {
    /// The registers that a function must keep (x86-64 psABI, figure 3.4), but for those of the frame: of others a call leaves nothing.
    const KEPT: [Self; 4] = [Self::of("r12", 20), Self::of("r13", 21), Self::of("r14", 22), Self::of("r15", 23)];

    const fn of(name: &'static str, number: u32) -> Self {
        Self { name, number }
    }
}

const NEEDED: &str = "marks, reg:r13 (r12 to r15), usdt:[/PATH/TO/BINARY:]PROVIDER:START[@N],DONE, where argument N of START is a text, \
                      func:[/PATH/TO/BINARY:]BEGIN[@N],END[@N], where argument N is a message's number, otel, or socket[:PORT]";

impl Tag {
    /// From the option's text.
    ///
    /// # Errors
    /// Where it is none of these.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::Argument { argument: Setting::Tag.name(), value: text.into(), needed: NEEDED.into() };
        match text.split_once(':') {
            None if text == "marks" => Ok(Self::Marks),
            None if text == "otel" => Ok(Self::Otel),
            None if text == "socket" => Ok(Self::Sockets(None)),
            Some(("socket", port)) => port.parse().map(|port| Self::Sockets(Some(port))).map_err(|_| wrong()),
            Some(("reg", _)) if !cfg!(target_arch = "x86_64") => Err(Error::Unsupported {
                what: format!("{} {text}", Setting::Tag),
                why: "perftax_tag_register.h knows x86-64 alone".into(),
                remedy: format!("{} marks, with perftax_tag.h", Setting::Tag),
            }),
            Some(("reg", name)) => {
                let found = TagRegister::KEPT.into_iter().find(|register| register.name == name);
                found.map(Self::Register).ok_or_else(wrong)
            }
            Some(("usdt", rest)) => TagProbes::parse(rest).map(Self::Probes).ok_or_else(wrong),
            Some(("func", rest)) => TagFunctions::parse(rest).map(Self::Functions).map_err(|why| Error::Argument {
                argument: Setting::Tag.name(),
                value: text.into(),
                needed: format!("func:[/PATH/TO/BINARY:]BEGIN[@N],END[@N]: {why}"),
            }),
            _ => Err(wrong()),
        }
    }

    /// Whether the kernel's probes tell messages: each message takes traps.
    pub fn is_probed(&self) -> bool {
        matches!(self, Self::Probes(_) | Self::Functions(_))
    }
}

impl TagProbes {
    fn parse(text: &str) -> Option<Self> {
        // A path may hold colons; names of probes do not.
        let (rest, probes) = text.rsplit_once(':')?;
        let (binary, provider) = match rest.rsplit_once(':') {
            Some((binary, provider)) if binary.contains('/') => (Some(PathBuf::from(binary)), provider),
            Some(_) => return None,
            None => (None, rest),
        };
        let (start, done) = probes.split_once(',')?;
        let (start, text) = match start.split_once('@') {
            Some((start, n)) => (start, Some(n.parse().ok().filter(|n| *n > 0)?)),
            None => (start, None),
        };
        let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let named = [provider, start, done].into_iter().all(is_name);
        named.then(|| Self { binary, provider: provider.into(), start: start.into(), text, done: done.into() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn tags_are_read_and_others_refused() {
        assert_eq!(Tag::parse("marks").unwrap(), Tag::Marks);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(Tag::parse("reg:r13").unwrap(), Tag::Register(TagRegister { name: "r13", number: 21 }));
        let probes = |binary: Option<&str>, text| {
            let binary = binary.map(PathBuf::from);
            Tag::Probes(TagProbes { binary, provider: "pg".into(), start: "go".into(), text, done: "end".into() })
        };
        assert_eq!(Tag::parse("usdt:pg:go,end").unwrap(), probes(None, None));
        assert_eq!(Tag::parse("usdt:/a:b/c:pg:go@1,end").unwrap(), probes(Some("/a:b/c"), Some(1)));
        for wrong in [
            "",
            "r13",
            "reg:r99",
            "reg:rax",
            "usdt:pg",
            "usdt:pg:go",
            "usdt:pg:go@0,end",
            "usdt:a:pg:go,end",
            "usdt:pg:g o,e",
            "func",
        ] {
            let error = Tag::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("'tag'") && error.contains("usdt:["), "{wrong}: {error}");
        }
        assert_eq!(Tag::parse("socket").unwrap(), Tag::Sockets(None));
        assert_eq!(Tag::parse("socket:6379").unwrap(), Tag::Sockets(Some(6379)));
        assert_eq!(Tag::parse("otel").unwrap(), Tag::Otel);
        assert!(Tag::parse("otel:x").is_err());
        assert!(Tag::parse("socket:70000").is_err() && Tag::parse("socket:").is_err());
        let error = Tag::parse("func:f,f").unwrap_err().to_string();
        assert!(error.contains("'tag'") && error.contains("f%return"), "{error}");
    }
}
