//! An object store, one request after the other.

use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _, parse_url_opts};
use tokio::runtime::Runtime;

use crate::entry::Entry;
use crate::error::{Error, Result};

/// What variables of the environment say how stores are reached: as their own tools call them.
const VARIABLES: [&str; 3] = ["aws_", "google_", "azure_"];

/// A prefix of an object store.
#[derive(Debug)]
pub(crate) struct Remote {
    store: Box<dyn ObjectStore>,
    prefix: Path,
    name: String,
    runtime: Runtime,
}

impl Remote {
    /// From its address, such as `s3://bucket/prefix`.
    ///
    /// # Errors
    /// Where it is none, or something that it needs is not in the environment.
    pub(crate) fn open(name: &str) -> Result<Self> {
        let refused = |why: String| Error::Place { place: name.into(), needed: format!("an address of a store: {why}") };
        let url = name.parse().map_err(|error| refused(format!("{error}")))?;
        let options = std::env::vars().map(|(key, value)| (key.to_ascii_lowercase(), value));
        let options = options.filter(|(key, _)| VARIABLES.iter().any(|prefix| key.starts_with(prefix)));
        let (store, prefix) = parse_url_opts(&url, options).map_err(|error| refused(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::file("reach", name))?;
        Ok(Self { store, prefix, name: name.into(), runtime })
    }

    fn path(&self, path: &str) -> Path {
        let own: Vec<_> = path.split('/').filter(|part| !part.is_empty()).map(Into::into).collect();
        Path::from_iter(self.prefix.parts().chain(own))
    }

    fn failed(&self, what: &'static str, path: &str) -> impl Fn(object_store::Error) -> Error + use<> {
        let path = format!("{}/{path}", self.name);
        move |error| Error::Object { what, path: path.clone(), why: error.to_string() }
    }

    fn entry(&self, object: &ObjectMeta) -> Entry {
        let skipped = self.prefix.parts().count();
        let parts: Vec<String> = object.location.parts().skip(skipped).map(|part| part.as_ref().to_string()).collect();
        let since = u64::try_from(object.last_modified.timestamp()).unwrap_or(0);
        Entry { path: parts.join("/"), bytes: object.size, written: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(since)) }
    }

    pub(crate) fn list(&self, below: &str) -> Result<Vec<Entry>> {
        let prefix = self.path(below);
        let all: std::result::Result<Vec<ObjectMeta>, _> = self.runtime.block_on(self.store.list(Some(&prefix)).try_collect());
        Ok(all.map_err(self.failed("list", below))?.iter().map(|object| self.entry(object)).collect())
    }

    pub(crate) fn list_beginning(&self, below: &str, name: &str) -> Result<Vec<Entry>> {
        let begins = format!("{below}/{name}");
        Ok(self.list(below)?.into_iter().filter(|entry| entry.path.starts_with(&begins)).collect())
    }

    pub(crate) fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let whole = async { self.store.get(&self.path(path)).await?.bytes().await };
        match self.runtime.block_on(whole) {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", path)(error)),
        }
    }

    pub(crate) fn size(&self, path: &str) -> Result<Option<u64>> {
        match self.runtime.block_on(self.store.head(&self.path(path))) {
            Ok(object) => Ok(Some(object.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", path)(error)),
        }
    }

    pub(crate) fn write(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let written = self.runtime.block_on(self.store.put(&self.path(path), bytes.to_vec().into()));
        written.map(drop).map_err(self.failed("write", path))
    }

    pub(crate) fn remove(&self, path: &str) -> Result<()> {
        match self.runtime.block_on(self.store.delete(&self.path(path))) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("remove", path)(error)),
        }
    }
}
