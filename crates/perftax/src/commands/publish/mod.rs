//! `--publish`: results into the data set of a fleet.

mod documents;

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use perftax_dataset::rows::HostRow;
use perftax_dataset::{Listed, Outcome, Place, Publication, Publisher, VERSION, sha256};
use perftax_doc::{Audit, Calibration, Matrix, Origin, Recorded, Selfcost};

use crate::host::kernel_says;
use crate::progress;

/// The option that commands have whose results go into a data set.
#[derive(Debug, Default, clap::Args)]
pub struct Publish {
    /// Add the result to a data set: a folder, or an object store such as s3://bucket/prefix
    #[arg(long, value_name = "DATASET", help_heading = "Output")]
    publish: Option<String>,
}

impl Publish {
    /// Fails early where it is no place for a data set.
    pub fn check(&self) -> Result<()> {
        self.publish.as_ref().map_or(Ok(()), |name| place("--publish", name).map(drop))
    }

    /// Publishes a result, where that was asked for.
    pub fn publish(&self, document: &dyn Publishable) -> Result<()> {
        let Some(name) = &self.publish else { return Ok(()) };
        let place = place("--publish", name)?;
        let id = document.id(&kernel_says("hostname"))?;
        let (outcome, _) = add(&place, document, Of::new(document.origin(), &id))?;
        let what = if is_new(outcome) { "publication" } else { "it was there," };
        progress::announce(&format!("published to {name}: {what} {id}"));
        Ok(())
    }
}

/// Adds a result to a data set. Returns what became of it, and the publication that counts.
pub fn add(place: &Place, document: &dyn Publishable, of: Of<'_>) -> Result<(Outcome, Publication)> {
    let mut publisher = Publisher::of(None);
    host(&mut publisher, &of);
    document.rows(&mut publisher, &of);
    Ok(publisher.publish(place, publication(&of, of.recording.into()))?)
}

/// Where a data set is, by what an argument says.
pub fn place(argument: &'static str, name: &str) -> Result<Place> {
    Place::open(name).map_err(|error| match error {
        perftax_dataset::Error::Place { place, needed } => perftax_pmu::Error::Argument { argument, value: place, needed }.into(),
        other => other.into(),
    })
}

/// A result that has rows in a data set.
pub trait Publishable {
    /// Where it comes from.
    fn origin(&self) -> &Origin;

    /// What its publication is called: by what it holds, and whose it is. The same whether it is published as it is measured, or added later.
    fn id(&self, host: &str) -> Result<String>;

    /// Adds its rows.
    fn rows(&self, publisher: &mut Publisher, of: &Of<'_>);
}

/// What all rows of a publication have in common.
pub struct Of<'a> {
    pub origin: &'a Origin,
    pub host: String,
    pub recording: &'a str,
    /// When it was taken, ns since 1970.
    pub time_ns: i64,
    /// Others measured it, on a machine of theirs.
    pub is_published: bool,
}

impl<'a> Of<'a> {
    pub fn new(origin: &'a Origin, recording: &'a str) -> Self {
        let time_ns = (origin.taken_at_s * 1e9) as i64;
        Self { origin, host: kernel_says("hostname"), recording, time_ns, is_published: false }
    }
}

/// What was written: nothing, where it was there.
pub struct Written {
    pub files: u64,
    pub rows: u64,
    pub bytes: u64,
}

impl Written {
    /// Of a publication that became so.
    pub fn of(outcome: Outcome, publication: &Publication) -> Self {
        let files: &[Listed] = if is_new(outcome) { &publication.files } else { &[] };
        Self {
            files: files.len() as u64,
            rows: files.iter().map(|file| file.rows).sum(),
            bytes: files.iter().map(|file| file.bytes).sum(),
        }
    }
}

/// Whether it counts only now.
pub fn is_new(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Published | Outcome::Updated)
}

/// The machine.
pub fn host(publisher: &mut Publisher, of: &Of<'_>) {
    let machine = &of.origin.machine;
    publisher.push(HostRow {
        host: of.host.as_str().into(),
        recording: of.recording.into(),
        time_ns: of.time_ns,
        fingerprint: machine.fingerprint.as_str().into(),
        cpu: machine.cpu.as_str().into(),
        microcode: machine.microcode.as_str().into(),
        kernel: of.origin.kernel.as_str().into(),
        mitigations: machine.mitigations.as_str().into(),
        virtualisation: machine.virtualisation.as_str().into(),
        cpus: machine.cpus.into(),
    });
}

/// A publication of this moment, without files yet.
pub fn publication(of: &Of<'_>, id: String) -> Publication {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Publication {
        schema: VERSION,
        id,
        perftax: env!("CARGO_PKG_VERSION").into(),
        host: of.host.clone(),
        published_ns: now.as_nanos() as i64,
        replaces: Vec::new(),
        files: Vec::new(),
    }
}

macro_rules! published {
    ($($document:ident: $rows:ident),* $(,)?) => {
        $(impl Publishable for $document {
            fn origin(&self) -> &Origin {
                &self.origin
            }

            fn id(&self, host: &str) -> Result<String> {
                Ok(sha256(&serde_json::to_vec(&(host, self))?)[..32].to_string())
            }

            fn rows(&self, publisher: &mut Publisher, of: &Of<'_>) {
                documents::$rows(self, publisher, of);
            }
        })*
    };
}

published!(Calibration: calibration, Selfcost: selfcost, Matrix: matrix, Audit: audit, Recorded: recorded);
