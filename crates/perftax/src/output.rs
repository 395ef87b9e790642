//! Where results go: text for people, JSON, separated values, HTML. Files appear whole or not at all.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use perftax_pmu::Error;
use perftax_report::Render;
use serde::Serialize;
use tempfile::{Builder, NamedTempFile};

/// The output options that every command has.
#[derive(Debug, Default, clap::Args)]
pub struct Output {
    /// Write the result as JSON to FILE, or to stdout with -
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Write the main table as separated values to stdout (or the -o file)
    #[arg(short = 'x', long = "field-separator", value_name = "SEP", help_heading = "Output")]
    pub separator: Option<String>,
    /// Write one offline HTML page to FILE, or to stdout with -
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Write the text, or with -x the values, to FILE, or to stdout with -
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
}

impl Output {
    /// Fails early, before anything is measured, where an output could not be written afterwards, or two would be written into one.
    pub fn check_writable(&self) -> Result<()> {
        if let Some(path) = self.html.as_ref().filter(|_| !cfg!(feature = "html")) {
            let needed =
                "a perftax with pages: this one was built without the feature html (--json, -x and text are there)".into();
            return Err(Error::Argument { argument: "--html", value: path.display().to_string(), needed }.into());
        }
        let on_stdout = |path: &Option<PathBuf>| path.as_deref().is_some_and(is_stdout);
        let values = self.separator.is_some() && self.output.as_deref().is_none_or(is_stdout);
        let text = self.separator.is_none() && on_stdout(&self.output);
        let all = [("--json -", on_stdout(&self.json)), ("--html -", on_stdout(&self.html)), ("-x", values), ("-o -", text)];
        let wanted: Vec<&str> = all.iter().filter(|(_, is_wanted)| *is_wanted).map(|(name, _)| *name).collect();
        if wanted.len() > 1 {
            let needed = "one of them; the others in files, -x with -o FILE".into();
            return Err(
                Error::Argument { argument: "stdout", value: format!("wanted by {}", wanted.join(" and ")), needed }.into()
            );
        }
        let files: Vec<(&str, &Path)> = self.files().collect();
        for (index, (option, path)) in files.iter().enumerate() {
            if let Some((other, _)) = files[..index].iter().find(|(_, other)| is_same_file(path, other)) {
                let needed = "a file for each".into();
                let value = format!("the file of {other}, {}", path.display());
                return Err(Error::Argument { argument: option, value, needed }.into());
            }
        }
        [&self.json, &self.html, &self.output].into_iter().flatten().try_for_each(|path| check_file(path))
    }

    /// Fails where an output would be written over a file that is read.
    pub fn check_spares(&self, inputs: &[&Path]) -> Result<()> {
        for (option, path) in self.files() {
            if inputs.iter().any(|input| is_same_file(path, input)) {
                let needed = "another file than the one that is read".into();
                return Err(Error::Argument { argument: option, value: path.display().to_string(), needed }.into());
            }
        }
        Ok(())
    }

    /// The files among the outputs, by their options.
    fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let all = [("--json", &self.json), ("--html", &self.html), ("-o", &self.output)];
        all.into_iter()
            .filter_map(|(option, path)| Some((option, path.as_deref()?)))
            .filter(|(_, path)| !is_stdout(path) && !is_special(path))
    }

    /// Writes the document as JSON where that was asked for.
    pub fn write_json<T: Serialize>(&self, document: &T) -> Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        let mut text = serde_json::to_string_pretty(document)?;
        text.push('\n');
        write_file_or_stdout(path, &text)
    }

    /// Writes a document in every form that was asked for: the text, or the separated values, to stdout or the -o file.
    pub fn emit<T: Serialize + Render>(&self, document: &T) -> Result<()> {
        self.write_json(document)?;
        match &self.separator {
            Some(separator) => self.write_text(&document.csv(separator))?,
            None => self.write_text(&document.text())?,
        }
        self.write_page(document)
    }

    /// The same beside a program whose output passes through: the text to stderr, or the -o file.
    pub fn emit_beside_child<T: Serialize + Render>(&self, document: &T) -> Result<()> {
        self.write_json(document)?;
        match &self.separator {
            Some(separator) => self.write_text(&document.csv(separator))?,
            None => self.write_beside_child(&document.text())?,
        }
        self.write_page(document)
    }

    /// Writes a document's page where that was asked for.
    #[cfg(feature = "html")]
    pub fn write_page(&self, document: &impl Render) -> Result<()> {
        self.write_html(|| Ok(document.html()))
    }

    /// There are no pages: [`Output::check_writable`] has refused one that was asked for.
    #[cfg(not(feature = "html"))]
    pub fn write_page(&self, _: &impl Render) -> Result<()> {
        Ok(())
    }

    /// Writes a page where that was asked for.
    #[cfg(feature = "html")]
    pub fn write_html(&self, page: impl FnOnce() -> Result<String>) -> Result<()> {
        let Some(path) = &self.html else { return Ok(()) };
        write_file_or_stdout(path, &page()?)
    }

    /// Writes the text, or the separated values, of a command that has stdout to itself, running no program or discarding its output: to
    /// stdout, or the -o file. JSON or a page that was asked for on stdout is there alone.
    pub fn write_text(&self, text: &str) -> Result<()> {
        match &self.output {
            Some(path) => write_file_or_stdout(path, &strip(text)),
            None if [&self.json, &self.html].into_iter().flatten().any(|path| is_stdout(path)) => Ok(()),
            None => write_stdout(text),
        }
    }

    /// Writes the text of a command that passes its program's output through, which has stdout then: to stderr, or the -o file.
    pub fn write_beside_child(&self, text: &str) -> Result<()> {
        match &self.output {
            Some(path) => write_file_or_stdout(path, &strip(text)),
            None => {
                anstream::eprint!("{text}");
                Ok(())
            }
        }
    }
}

/// Whether that is standard output.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether two paths are one file; of files that are not there yet, one name in one folder.
fn is_same_file(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        path.canonicalize()
            .or_else(|_| Ok::<_, std::io::Error>(folder_of(path).canonicalize()?.join(path.file_name().unwrap_or_default())))
            .ok()
    };
    let inode = |path: &Path| std::fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    place(a).is_some_and(|a| Some(a) == place(b)) || inode(a).is_some_and(|a| Some(a) == inode(b))
}

fn write_file_or_stdout(path: &Path, text: &str) -> Result<()> {
    if is_stdout(path) { write_stdout(text) } else { write_atomically(path, text.as_bytes()) }
}

/// What is no text, likewise.
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    if !is_stdout(path) {
        return write_atomically(path, bytes);
    }
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write stdout"),
    }
}

fn strip(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn write_stdout(text: &str) -> Result<()> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write stdout"),
    }
}

/// Whether something stands there that is neither a file nor a folder.
pub fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// What is being written, and has not yet been put in its place.
static PARTIALS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A note of a file or folder under a temporary name, so that it goes where the process is ended before it is complete. Dropped, it is complete, or
/// removed.
#[derive(Debug)]
pub struct Noted(PathBuf);

impl Noted {
    /// Notes it.
    pub fn new(partial: &Path) -> Self {
        PARTIALS.lock().unwrap_or_else(PoisonError::into_inner).insert(partial.into());
        Self(partial.into())
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        PARTIALS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Removes everything that is not complete: the process ends now. Waits for no other thread.
pub fn remove_partials() {
    let Ok(partials) = PARTIALS.try_lock() else { return };
    for partial in partials.iter() {
        if partial.is_dir() { std::fs::remove_dir_all(partial) } else { std::fs::remove_file(partial) }.ok();
    }
}

/// The folder that a file or folder stands in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What its temporary name begins with.
pub fn partial_prefix(path: &Path) -> OsString {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".partial-");
    name
}

/// Says before a long measurement that a file could not be written after it.
pub fn check_file(path: &Path) -> Result<()> {
    if is_stdout(path) || is_special(path) {
        return Ok(());
    }
    if path.is_dir() {
        anyhow::bail!("cannot write {}: it is a folder, needs to be a file", path.display());
    }
    Partial::create(path).map(drop)
}

/// Writes a file under a temporary name beside its place and renames it, so that no partial file is ever seen.
/// Devices and pipes are written as they are: renaming over them would replace them.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    if is_special(path) {
        let written = File::options().write(true).open(path).and_then(|mut file| file.write_all(bytes));
        return written.with_context(|| format!("cannot write {}", path.display()));
    }
    let mut partial = Partial::create(path)?;
    partial.write_all(bytes).with_context(|| format!("cannot write {}", path.display()))?;
    partial.finish()
}

/// A file under a temporary name beside its place, renamed when it is complete and removed when it is not.
#[derive(Debug)]
pub struct Partial {
    path: PathBuf,
    // Dropped in this order: it is noted until it is gone.
    file: NamedTempFile,
    _noted: Noted,
}

impl Partial {
    /// For a file at this place.
    pub fn create(path: &Path) -> Result<Self> {
        // With the rights that any new file has: tempfile's own would be the user's alone.
        let mut noted = None;
        let open = |partial: &Path| {
            // Before it is there.
            noted = Some(Noted::new(partial));
            File::options().write(true).create_new(true).open(partial)
        };
        let made = Builder::new().prefix(&partial_prefix(path)).make_in(folder_of(path), open);
        let file = made.with_context(|| format!("cannot write {}", path.display()))?;
        let noted = noted.unwrap_or_else(|| Noted::new(file.path()));
        Ok(Self { path: path.into(), _noted: noted, file })
    }

    /// The file, for whoever writes it in its own way.
    pub fn file(&self) -> Result<File> {
        self.file.as_file().try_clone().with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Puts it in its place.
    pub fn finish(self) -> Result<()> {
        let synced = self.file.as_file().sync_all();
        synced.with_context(|| format!("cannot write {}", self.path.display()))?;
        let place = self.path.clone();
        self.finish_at(&place)
    }

    /// Puts it in another place of the same folder, and does not wait for the disk.
    pub fn finish_at(self, place: &Path) -> Result<()> {
        let placed = self.file.persist(place).map(drop).map_err(|failed| failed.error);
        placed.with_context(|| format!("cannot write {}", place.display()))
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Past tempfile's own, whose errors name the temporary file.
        self.file.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_file_mut().flush()
    }
}
