//! The crates' files of Rust, as far as tests of the house's shape read them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::links::root;

/// A file of a crate's.
pub struct Source {
    /// Below `crates/`.
    pub path: PathBuf,
    /// Its module's path below the crate's root.
    pub module: Vec<String>,
    /// As it is.
    pub text: String,
    /// Without comments, texts and tests.
    pub code: String,
    /// The texts in it, tests apart.
    pub texts: Vec<String>,
}

impl Source {
    pub fn new(path: &Path, text: &str) -> Self {
        let mut module: Vec<String> =
            path.with_extension("").components().skip(2).map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            module.pop();
        }
        let (code, texts) = code_and_texts(text);
        Self { path: path.to_path_buf(), module, text: text.to_owned(), code, texts }
    }

    pub fn krate(&self) -> String {
        self.path.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned()).unwrap_or_default()
    }

    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
    }

    /// Modules at the top of its crate that it names, by `crate::…` and `super::…`, also in braces.
    pub fn needs(&self) -> BTreeSet<String> {
        let mut needs = BTreeSet::new();
        for (from, _) in self.code.match_indices("::") {
            let before = &self.code[..from];
            let start = before.rfind(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').map_or(0, |at| at + 1);
            let path: Vec<&str> = before[start..].split("::").filter(|part| !part.is_empty()).collect();
            let supers = path.iter().filter(|part| **part == "super").count();
            let base = match path[..] {
                ["crate"] => &[][..],
                _ if supers == path.len() && supers > 0 && supers <= self.module.len() => {
                    &self.module[..self.module.len() - supers]
                }
                _ => continue,
            };
            for name in first_names(&self.code[from + 2..]) {
                needs.extend(base.first().cloned().or_else(|| (!name.is_empty()).then_some(name)));
            }
        }
        needs
    }
}

/// The first name of a path, or of each in braces.
fn first_names(rest: &str) -> Vec<String> {
    let name = |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    if !rest.starts_with('{') {
        return vec![name(rest)];
    }
    let (mut depth, mut names, mut from) = (0, Vec::new(), 1);
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if (c == ',' && depth == 1) || depth == 0 {
            names.push(name(&rest[from..at]));
            from = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// Code without comments, texts, and the module of tests at its end; and those texts, as they are written.
fn code_and_texts(text: &str) -> (String, Vec<String>) {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut code, mut texts, mut rest) = (String::new(), Vec::new(), text);
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("r#\"") {
            rest.find("\"#").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("'\"'") {
            3
        } else if c == '"' {
            let mut escaped = false;
            let end = rest.char_indices().skip(1).find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |(end, _)| end + 1)
        } else {
            code.push(c);
            c.len_utf8()
        };
        if matches!(c, '"') || rest.starts_with("r#\"") {
            texts.push(rest[..skipped].to_owned());
        }
        rest = &rest[skipped..];
    }
    (code, texts)
}

/// The files of all crates' libraries and programs.
pub fn sources() -> Vec<Source> {
    let mut sources = everything();
    sources.retain(|source| source.path.components().nth(1).is_some_and(|part| part.as_os_str() == "src"));
    sources
}

/// Those of tests, benchmarks and build scripts as well.
pub fn everything() -> Vec<Source> {
    let crates = root().join("crates");
    let mut sources = Vec::new();
    let mut folders = vec![crates.clone()];
    while let Some(folder) = folders.pop() {
        for path in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                sources.push(Source::new(path.strip_prefix(&crates).unwrap(), &text));
            }
        }
    }
    sources
}
