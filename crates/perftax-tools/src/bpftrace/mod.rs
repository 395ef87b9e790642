//! bpftrace.

mod script;

pub use script::{Hook, Probe};

use crate::grammar::Takes::{Nothing, Value};
use crate::grammar::{Grammar, Opt};
use crate::{Error, Left, Whom};

/// What a bpftrace asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Bpftrace {
    /// Its probes, one a name: lists are taken apart. None where the script stands in a file.
    pub probes: Vec<Probe>,
    /// The file of the script, where it is in one.
    pub file: Option<String>,
}

/// bpftrace's options: `bpftrace --help` of 0.17, and what later ones have beside it.
pub(crate) const BPFTRACE: Grammar = Grammar { tool: "bpftrace", options: OPTIONS };

const OPTIONS: &[Opt] = &[
    ('B', "", Value),
    ('f', "", Value),
    ('o', "", Value),
    ('e', "", Value),
    ('h', "help", Nothing),
    ('I', "", Value),
    ('l', "", Nothing),
    ('p', "", Value),
    ('c', "", Value),
    ('q', "", Nothing),
    ('k', "", Nothing),
    ('V', "version", Nothing),
    ('v', "verbose", Nothing),
    ('d', "", Nothing),
    ('\0', "include", Value),
    ('\0', "usdt-file-activation", Nothing),
    ('\0', "unsafe", Nothing),
    ('\0', "info", Nothing),
    ('\0', "no-warnings", Nothing),
    ('\0', "no-feature", Value),
    ('\0', "emit-elf", Value),
    ('\0', "emit-llvm", Value),
    ('\0', "aot", Value),
    ('\0', "warnings", Value),
    ('\0', "dry-run", Nothing),
];

impl Bpftrace {
    /// Reads the words behind `bpftrace`.
    pub(crate) fn read(words: &[String]) -> Result<(Self, Whom, Left), Error> {
        let read = BPFTRACE.read(words)?;
        let letter =
            |letter: char| read.options.iter().rev().find(|option| option.letter == letter).and_then(|option| option.value);
        let probes = letter('e').map(script::probes).transpose()?;
        let file = if probes.is_none() { read.rest.first().map(|file| (*file).to_owned()) } else { None };
        if probes.is_none() && file.is_none() {
            let needed = "a program: -e 'PROGRAM', or a file".into();
            return Err(Error::Value { tool: BPFTRACE.tool, option: "-e".into(), value: "nothing".into(), needed });
        }
        let whom = match letter('c') {
            Some(command) => Whom::Command(shlex::split(command).unwrap_or_default()),
            // Programs in the kernel run for whoever comes by; -p is about user-level probes alone.
            None => letter('p').map_or(Whom::Cpus(None), |process| Whom::Processes(process.to_owned())),
        };
        Ok((Self { probes: probes.unwrap_or_default(), file }, whom, Left::default()))
    }

    /// The functions of programs that it probes, each once: file and name.
    pub fn functions(&self) -> Vec<(&str, &str)> {
        let mut functions = Vec::new();
        for probe in &self.probes {
            if let Hook::Function { file, function, .. } = &probe.hook
                && !functions.contains(&(file.as_str(), function.as_str()))
            {
                functions.push((file.as_str(), function.as_str()));
            }
        }
        functions
    }

    /// The same with the text of its file, for whoever has read that.
    ///
    /// # Errors
    /// A script that is none.
    pub fn with_text(self, text: &str) -> Result<Self, Error> {
        Ok(Self { probes: script::probes(text)?, ..self })
    }
}
