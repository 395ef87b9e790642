//! Thresholds: the rules' own, or those of a configuration file.

use std::collections::BTreeMap;
use std::path::Path;

use perftax_doc::LintVerdict;
use perftax_doc::steps::Setting;
use perftax_pmu::{Error, Result};

use super::{Rule, Unit, rules};

/// No list of thresholds is longer.
const MAX_BYTES: u64 = 1 << 20;

/// Thresholds that differ from the rules' own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits(BTreeMap<&'static str, Thresholds>);

/// From where on a check warns or fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// A warning from here on.
    pub warning: Option<f64>,
    /// An error from here on.
    pub error: Option<f64>,
    /// What a check is that the recording cannot decide.
    pub unknown: LintVerdict,
    /// Not checked at all.
    pub is_off: bool,
}

impl Limits {
    /// Reads a configuration file: a TOML table a check, with `warning` and `error` (a number, or `"never"`), `unknown` (`"warning"`, `"error"`, or `"unknown"`), or
    /// `off = true`.
    ///
    /// # Errors
    /// [`Error::Argument`] where it cannot be read or is no such file: with the check, its key, its value and what is needed.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = |what: &str, needed: String| Error::Argument {
            argument: Setting::Config.name(),
            value: format!("{}, {what}", path.display()),
            needed,
        };
        let is_small = std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= MAX_BYTES);
        let text = match is_small {
            true => std::fs::read_to_string(path).map_err(|error| wrong(&error.to_string(), "a TOML file".into()))?,
            false => return Err(wrong("no file, or a large one", format!("a TOML file of {MAX_BYTES} bytes at most"))),
        };
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            wrong(&format!("line {line}: {}", error.message()), "a TOML file".into())
        })?;
        let mut limits = Self::default();
        let rules = rules();
        for (name, value) in &table {
            let Some(rule) = rules.iter().find(|rule| rule.name == name) else {
                let names: Vec<&str> = rules.iter().map(|rule| rule.name).collect();
                return Err(wrong(&format!("[{name}]"), format!("one of {}", names.join(", "))));
            };
            let Some(keys) = value.as_table() else {
                return Err(wrong(name, format!("a table: [{name}]")));
            };
            let mut thresholds = Thresholds::of(rule);
            for (key, value) in keys {
                let at = format!("[{name}] {key} = {value}");
                match key.as_str() {
                    "warning" => thresholds.warning = threshold(value, rule.unit).map_err(|needed| wrong(&at, needed))?,
                    "error" => thresholds.error = threshold(value, rule.unit).map_err(|needed| wrong(&at, needed))?,
                    "unknown" => {
                        let verdicts = [LintVerdict::Unknown, LintVerdict::Warning, LintVerdict::Error];
                        let found = verdicts.into_iter().find(|verdict| value.as_str() == Some(verdict.name()));
                        thresholds.unknown = found.ok_or_else(|| wrong(&at, "\"warning\", \"error\" or \"unknown\"".into()))?;
                    }
                    "off" => thresholds.is_off = value.as_bool().ok_or_else(|| wrong(&at, "true or false".into()))?,
                    _ => return Err(wrong(&at, "warning, error, unknown or off".into())),
                }
            }
            if let Some((warning, error)) = thresholds.warning.zip(thresholds.error).filter(|(warning, error)| warning > error) {
                let is_default = !keys.contains_key("warning");
                let needed = format!(
                    "an error at the warning's threshold or above it: that is {warning}{}; give a warning = {error}, too",
                    if is_default { " where the file names none" } else { "" }
                );
                return Err(wrong(&format!("[{name}] error = {error}"), needed));
            }
            limits.0.insert(rule.name, thresholds);
        }
        Ok(limits)
    }

    /// Those of a rule.
    pub fn of(&self, rule: &Rule) -> Thresholds {
        self.0.get(rule.name).copied().unwrap_or_else(|| Thresholds::of(rule))
    }
}

impl Thresholds {
    fn of(rule: &Rule) -> Self {
        Self { warning: rule.warning, error: rule.error, unknown: LintVerdict::Unknown, is_off: false }
    }
}

/// A number above 0, at most 1 of shares; or never.
fn threshold(value: &toml::Value, unit: Unit) -> std::result::Result<Option<f64>, String> {
    if value.as_str() == Some("never") {
        return Ok(None);
    }
    let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
    let most = if unit == Unit::Share { 1.0 } else { f64::MAX };
    match number.filter(|number| *number > 0.0 && *number <= most) {
        Some(number) => Ok(Some(number)),
        None if unit == Unit::Share => Err("a share above 0, at most 1, or \"never\"".into()),
        None => Err("a number above 0, or \"never\"".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Limits> {
        let folder = tempfile::tempdir().map_err(|error| Error::file("tempdir")(error))?;
        let file = folder.path().join("lint.toml");
        std::fs::write(&file, text).map_err(Error::file(&file))?;
        Limits::read(&file)
    }

    #[test]
    fn what_a_file_changes_and_no_more() {
        let limits = read(
            "[lost]\nerror = 0.5\n[few-samples]\nwarning = \"never\"\n[idle]\noff = true\n[own-cost]\nunknown = \"error\"\n",
        )
        .unwrap();
        for rule in rules() {
            let (found, own) = (limits.of(rule), Thresholds::of(rule));
            match rule.name {
                "lost" => assert_eq!(found, Thresholds { error: Some(0.5), ..own }),
                "few-samples" => assert_eq!(found.warning, None),
                "idle" => assert!(found.is_off),
                "own-cost" => assert_eq!(found, Thresholds { unknown: LintVerdict::Error, ..own }),
                _ => assert_eq!(found, own),
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_needed() {
        for (text, value, needed) in [
            ("[lots]", "[lots]", "one of cut-off, "),
            ("lost = 3", "lost", "a table: [lost]"),
            ("[lost]\nerror = 1.5", "[lost] error = 1.5", "at most 1"),
            ("[lost]\nerror = \"x\"", "[lost] error = \"x\"", "\"never\""),
            ("[lost]\nfatal = 1", "[lost] fatal = 1", "warning, error, unknown or off"),
            ("[lost]\nunknown = \"fatal\"", "[lost] unknown = \"fatal\"", "\"warning\", \"error\" or \"unknown\""),
            ("[lost]\noff = 1", "[lost] off = 1", "true or false"),
            ("[lost]\nwarning = 0.9\nerror = 0.1", "[lost]", "or above it"),
            ("[lost", "line 1", "a TOML file"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(value) && error.contains(needed), "{text}: {error}");
        }
    }
}
