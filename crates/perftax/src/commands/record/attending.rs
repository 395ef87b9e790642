//! Who attends to a recording that runs: files, signals, whoever asks how it goes.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perftax_pmu::Error;
use perftax_record::{Attendant, Destination, Status};
use perftax_report::Render;
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};

use super::document::Subject;
use super::files::Files;
use super::metrics;
use crate::endpoint::Endpoint;

/// Flags that signals set.
pub struct Signals {
    /// SIGUSR1: how does it go?
    asked: Arc<AtomicBool>,
    /// SIGUSR2, SIGHUP: another file, where files follow each other. A terminal that is gone ends nothing.
    switch: Arc<AtomicBool>,
}

impl Signals {
    /// Has them noticed.
    pub fn notice() -> Self {
        let signals = Self { asked: Arc::default(), switch: Arc::default() };
        for (signal, flag) in [(SIGUSR1, &signals.asked), (SIGUSR2, &signals.switch), (SIGHUP, &signals.switch)] {
            // Registering fails only for signals that cannot be caught.
            signal_hook::flag::register(signal, Arc::clone(flag)).ok();
        }
        signals
    }
}

/// Attends to a recording.
pub struct Attending<'a> {
    pub subject: &'a Subject<'a>,
    pub files: Files,
    pub endpoint: Option<Endpoint>,
    pub signals: Signals,
}

fn unwritable(path: &Path, error: anyhow::Error) -> Error {
    let source = error.downcast::<io::Error>().unwrap_or_else(|error| io::Error::other(format!("{error:#}")));
    Error::File { path: path.into(), source }
}

impl Attendant for Attending<'_> {
    fn open(&mut self) -> perftax_pmu::Result<Destination> {
        let opened = self.files.open();
        opened.map_err(|error| unwritable(self.files.path(), error))
    }

    fn abandon(&mut self) {
        self.files.abandon();
    }

    fn close(&mut self, file: File) -> perftax_pmu::Result<()> {
        let closed = self.files.close(&file);
        closed.map_err(|error| unwritable(self.files.path(), error))
    }

    fn is_full(&mut self, bytes: u64, age: Duration) -> bool {
        let is_asked = self.signals.switch.swap(false, Ordering::Relaxed) && self.files.are_segments();
        is_asked || self.files.is_full(bytes, age)
    }

    fn make_room(&mut self) -> bool {
        self.files.drop_oldest()
    }

    fn look(&mut self, status: &Status<'_>) {
        if self.signals.asked.swap(false, Ordering::Relaxed) {
            let document = self.subject.document(status, None, &self.files);
            anstream::eprint!("{}", document.text());
        }
        if let Some(endpoint) = &self.endpoint {
            endpoint.publish(metrics::page(self.subject.recording.pricing.budget, status, self.files.dropped));
        }
    }
}
