//! Probes that the kernel is told of by a text, through tracefs' `uprobe_events`: only such ones can fetch a program's texts. They stay
//! until somebody takes them away: that is this guard's task, also on a panic or an interruption.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::guardian::{Duty, Guardian};
use crate::error::{Error, Result};
use crate::process::has_ended;

/// A definition: a probe at one place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeDefinition {
    /// Its name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Offset of the instruction.
    pub offset: u64,
    /// Whether it is hit where the function that begins there returns.
    pub is_return: bool,
    /// Offset of the program's counter of watchers.
    pub semaphore: Option<u64>,
    /// What is fetched, as `name=how:type`.
    pub fetches: Vec<String>,
}

/// While it lives, the definitions are tracepoints of the system [`ProbeDefinitions::group`].
#[derive(Debug)]
pub struct ProbeDefinitions {
    knob: PathBuf,
    group: String,
    names: Vec<String>,
    /// Removes them where this process is killed.
    guardian: Option<Guardian>,
}

/// Groups are named by the process that made them, so that one that was killed is known by its number.
const PREFIX: &str = "perftax_";

impl ProbeDefinitions {
    /// Defines them all, or none. Those that a killed perftax has left behind go first.
    ///
    /// # Errors
    /// `Permission` where the knob cannot be written, `File` where the kernel refuses a definition.
    pub fn define(tracefs: &Path, definitions: &[ProbeDefinition]) -> Result<Self> {
        let knob = tracefs.join("uprobe_events");
        remove_left_behind(&knob);
        let group = format!("{PREFIX}{}", std::process::id());
        let guardian = Guardian::start(&Duty::Probes { knob: knob.clone(), group: group.clone() });
        let mut guard = Self { knob, group, names: Vec::new(), guardian };
        for definition in definitions {
            guard.add(definition)?;
        }
        Ok(guard)
    }

    /// The system that the tracepoints belong to.
    pub fn group(&self) -> &str {
        &self.group
    }

    fn add(&mut self, definition: &ProbeDefinition) -> Result<()> {
        let path = definition.path.to_string_lossy();
        if path.contains(char::is_whitespace) {
            let needed = "a path without blanks: the kernel's uprobe_events cannot name it (a symbolic link will do)".into();
            return Err(Error::Argument { argument: "the probed program", value: path.into_owned(), needed });
        }
        let semaphore = definition.semaphore.map_or_else(String::new, |at| format!("({at:#x})"));
        let kind = if definition.is_return { 'r' } else { 'p' };
        let mut line = format!("{kind}:{}/{} {path}:{:#x}{semaphore}", self.group, definition.name, definition.offset);
        definition.fetches.iter().for_each(|fetch| line.extend([" ", fetch.as_str()]));
        append(&self.knob, &line).map_err(|source| match source.kind() {
            ErrorKind::PermissionDenied => Error::Permission {
                what: format!("define the probe {}", definition.name),
                knob: self.knob.display().to_string(),
                value: "closed to this user".into(),
                needed: "root".into(),
                command: "sudo perftax …".into(),
            },
            _ => Error::System { call: format!("writing '{line}' to {}", self.knob.display()), source },
        })?;
        self.names.push(definition.name.clone());
        Ok(())
    }
}

impl Drop for ProbeDefinitions {
    fn drop(&mut self) {
        for name in &self.names {
            // Nothing can be done here; the next recording tries again.
            append(&self.knob, &format!("-:{}/{name}", self.group)).ok();
        }
        if let Some(guardian) = self.guardian.take() {
            guardian.dismiss();
        }
    }
}

/// Not truncating: that would remove everybody's.
fn append(knob: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new().append(true).open(knob)?.write_all(format!("{line}\n").as_bytes())
}

/// Names of all definitions, as GROUP/NAME; none where the knob may not be read.
fn defined(knob: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(knob).unwrap_or_default();
    let name = |line: &str| Some(line.split_whitespace().next()?.split_once(':')?.1.to_string());
    text.lines().filter_map(name).collect()
}

/// Removes a group of a process that was killed; whether nothing of it is left.
pub(super) fn remove_group(knob: &Path, group: &str) -> bool {
    let is_its = |name: &String| name.split_once('/').is_some_and(|(of, _)| of == group);
    // Each by itself: one that is refused keeps no other.
    let left = defined(knob).into_iter().filter(is_its).filter(|name| append(knob, &format!("-:{name}")).is_err());
    left.count() == 0
}

/// Removes what processes that are no more have defined.
pub(super) fn remove_left_behind(knob: &Path) {
    for name in defined(knob) {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/')).and_then(|(pid, _)| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| pid == std::process::id() || has_ended(pid)) {
            append(knob, &format!("-:{name}")).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn definition(name: &str, path: &str) -> ProbeDefinition {
        ProbeDefinition {
            name: name.into(),
            path: path.into(),
            offset: 0x12,
            is_return: false,
            semaphore: Some(0x34),
            fetches: vec!["text=+0(%di):string".into()],
        }
    }

    #[test]
    fn what_is_defined_is_removed_and_what_was_left_behind_too() {
        let folder = tempfile::tempdir().unwrap();
        let knob = folder.path().join("uprobe_events");
        std::fs::write(&knob, "p:perftax_4194305/start_0 /bin/x:0x1\np:perf/other /bin/x:0x2\n").unwrap();
        let guard = ProbeDefinitions::define(folder.path(), &[definition("start_0", "/bin/y")]).unwrap();
        let group = format!("perftax_{}", std::process::id());
        assert_eq!(guard.group(), group);
        drop(guard);
        let text = std::fs::read_to_string(&knob).unwrap();
        let added: Vec<&str> = text.lines().skip(2).collect();
        let defined = format!("p:{group}/start_0 /bin/y:0x12(0x34) text=+0(%di):string");
        assert_eq!(added, ["-:perftax_4194305/start_0".to_string(), defined, format!("-:{group}/start_0")]);
    }

    #[test]
    fn returns_are_probed_as_such() {
        let folder = tempfile::tempdir().unwrap();
        let knob = folder.path().join("uprobe_events");
        std::fs::write(&knob, "").unwrap();
        let at_return = ProbeDefinition { is_return: true, semaphore: None, fetches: Vec::new(), ..definition("back", "/bin/y") };
        let guard = ProbeDefinitions::define(folder.path(), &[at_return]).unwrap();
        assert_eq!(std::fs::read_to_string(&knob).unwrap(), format!("r:{}/back /bin/y:0x12\n", guard.group()));
    }

    #[test]
    fn where_one_is_refused_none_stays() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("uprobe_events"), "").unwrap();
        let error = ProbeDefinitions::define(folder.path(), &[definition("a", "/bin/y"), definition("b", "/a b")]).unwrap_err();
        assert!(error.to_string().contains("/a b"), "{error}");
        let text = std::fs::read_to_string(folder.path().join("uprobe_events")).unwrap();
        assert!(text.lines().last().unwrap().starts_with("-:") && text.lines().count() == 2, "{text}");
    }
}
