//! A trace's folder, opened.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use perftax_doc::{TraceLock, TraceMeta};
use perftax_pmu::Error;
use perftax_trace::{Kinds, Lock, Names, Store};

use super::META;

/// A trace: how it was recorded, its tables, and what the numbers in it are called.
pub struct Reading {
    pub meta: TraceMeta,
    pub store: Store,
    pub names: Names,
}

impl Reading {
    /// Opens the folder that `trace record` made.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(META);
        let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
        let malformed = |e: serde_json::Error| Error::Malformed {
            what: path.display().to_string(),
            offset: e.column() as u64,
            why: e.to_string(),
        };
        let meta: TraceMeta = serde_json::from_str(&text).map_err(malformed)?;
        let lock = |lock: &TraceLock| (lock.number, Lock { pid: lock.pid, address: lock.address, name: lock.name.clone() });
        let mut names = Names {
            threads: meta.threads.iter().cloned().collect(),
            irqs: meta.irqs.iter().cloned().collect(),
            locks: meta.locks.iter().map(lock).collect(),
            kinds: Arc::default(),
        };
        let mut store = Store::open(folder)?;
        // What the others were like is not known by kind where the slow ones alone were kept.
        if meta.kept.is_none() {
            store.kinds = Arc::new(Kinds::of(&store.labels, &names.threads));
            names.kinds = Arc::clone(&store.kinds);
        }
        store.name_locks(meta.locks.iter().filter(|lock| lock.name.is_some()).map(|lock| lock.number));
        if let (Some(background), Some(kept)) = (&mut store.background, &meta.kept) {
            background.usual.messages = kept.usual_messages;
            background.population.watched = kept.watched;
        }
        Ok(Self { store, names, meta })
    }
}
