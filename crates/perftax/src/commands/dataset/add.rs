//! `perftax dataset add`: results that were saved, and what others published, into a data set.

use std::path::PathBuf;

use anyhow::Result;
use perftax_dataset::{Place, days_of};
use perftax_doc::steps::Setting;
use perftax_doc::{AddedResult, DatasetAdd, Origin};
use perftax_lab::published::{Published, shipped_names};
use perftax_report::{Document, text};

use crate::commands::publish::{Of, Publishable, Written, add, is_new, place};
use crate::failure::Outcome;
use crate::host::Host;
use crate::output::Output;
use crate::saved;

/// What files may hold.
const WANTED: &str =
    "the output of perftax calibrate, selfcost, matrix, audit, record or field-test with --json FILE, or a machine profile";
/// Of all machines whose costs were published.
const ALL: &str = "all";
/// A day, s.
const DAY_S: f64 = 86_400.0;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax dataset add fleet calibrate.json selfcost.json       results of this machine
  perftax dataset add fleet web-17.json --host web-17          a result of another one
  perftax dataset add fleet field-tests/*.json                 field tests of machines that nobody names
  perftax dataset add fleet --machine all                      what was published of others' machines")]
pub struct Args {
    /// A folder, or an object store such as s3://bucket/prefix
    #[arg(value_name = "DATASET")]
    dataset: String,
    /// Results of calibrate, selfcost, matrix, audit, record, field-test, or saved machine profiles
    #[arg(value_name = "FILE", required_unless_present = "machine")]
    files: Vec<PathBuf>,
    /// The host that the files are of; this one, where this machine wrote them; of other machines' field tests, field- and
    /// the machine's fingerprint
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Add the costs of a machine that was published (broadwell, haswell, …), of a description (.toml), or of all; may be
    /// repeated
    #[arg(long, value_name = "NAME")]
    machine: Vec<String>,
    /// Write the result as JSON to FILE, or to stdout with -
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A result, whose it is, and where it comes from.
struct Found {
    document: Box<dyn Publishable>,
    host: String,
    from: String,
    is_published: bool,
}

/// Runs the command. Everything is read before anything is added.
pub fn run(args: &Args) -> Result<Outcome> {
    let output = Output { json: args.json.clone(), ..Output::default() };
    output.check_writable()?;
    let place = place("DATASET", &args.dataset)?;
    let origin = Host::read()?.origin("dataset-add");
    let mut found = of_files(args, &origin)?;
    found.extend(of_machines(&args.machine)?);
    let mut results = Vec::new();
    for one in &found {
        results.push(added(&place, one)?);
    }
    let document = DatasetAdd { origin, dataset: args.dataset.clone(), results };
    output.write_json(&document)?;
    output.write_text(&text::dataset_add(&document))?;
    Ok(Outcome::Done)
}

fn of_files(args: &Args, here: &Origin) -> Result<Vec<Found>> {
    let this = crate::host::kernel_says("hostname");
    let mut all = Vec::new();
    for file in &args.files {
        for document in saved::read(file, WANTED)?.into_iter().flat_map(Document::results) {
            let kind = document.kind();
            let Some(document) = publishable(document) else {
                return Err(saved::unfit(format!("{} (a result of '{kind}')", file.display()), WANTED));
            };
            let machine = &document.origin().machine;
            let host = match &args.host {
                Some(host) if host.is_empty() => return Err(of_host("", "a name")),
                Some(host) => host.clone(),
                None if machine.fingerprint == here.machine.fingerprint => this.clone(),
                // A field test's results name nobody, and so have no command line: machines that are alike are one.
                None if document.origin().command.is_empty() => format!("field-{}", machine.fingerprint),
                // A machine that is another one must not come in under this one's name.
                None => {
                    let needed = format!("the name of the host that wrote it: {} is of {}", file.display(), machine.name);
                    return Err(of_host("not given", &needed));
                }
            };
            all.push(Found { document, host, from: file.display().to_string(), is_published: false });
        }
    }
    Ok(all)
}

fn of_host(value: &str, needed: &str) -> anyhow::Error {
    perftax_pmu::Error::Argument { argument: "--host", value: value.into(), needed: needed.into() }.into()
}

fn of_machines(names: &[String]) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    for name in names {
        if name == ALL {
            // Those that have a model alone have no costs.
            for name in shipped_names() {
                all.extend(of_machine(&Published::load(name)?)?);
            }
            continue;
        }
        let machine = Published::load(name)?;
        if machine.costs.is_empty() {
            return Err(of_setting(name, "a machine with a [[cost]]"));
        }
        all.extend(of_machine(&machine)?);
    }
    Ok(all)
}

fn of_setting(value: &str, needed: &str) -> anyhow::Error {
    perftax_pmu::Error::Argument { argument: Setting::Machine.name(), value: value.into(), needed: needed.into() }.into()
}

/// Its costs, dated the first day of the year in which they were published.
fn of_machine(machine: &Published) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    for cost in &machine.costs {
        let day = machine.year.and_then(|year| days_of(&format!("{year:04}-01-01")));
        let Some(day) = day else {
            return Err(of_setting(&machine.name, "the year of its publication, as year = 2017, since tables have days"));
        };
        let mut calibration = machine.calibration(cost);
        calibration.origin.taken_at_s = day as f64 * DAY_S;
        let host = calibration.origin.machine.fingerprint.clone();
        let document = Box::new(calibration);
        all.push(Found { document, host, from: machine.name.clone(), is_published: true });
    }
    Ok(all)
}

/// As what tables hold; `None` where they hold nothing of its kind.
fn publishable(document: Document) -> Option<Box<dyn Publishable>> {
    Some(match document {
        Document::Calibration(of) => of,
        Document::Selfcost(of) => of,
        Document::Matrix(of) => of,
        Document::Audit(of) => of,
        Document::Recorded(of) => of,
        _ => return None,
    })
}

fn added(place: &Place, found: &Found) -> Result<AddedResult> {
    let document = &*found.document;
    let id = document.id(&found.host)?;
    let of = Of { host: found.host.clone(), is_published: found.is_published, ..Of::new(document.origin(), &id) };
    let (outcome, publication) = add(place, document, of)?;
    let Written { files, rows, bytes } = Written::of(outcome, &publication);
    Ok(AddedResult {
        from: found.from.clone(),
        kind: document.origin().kind.clone(),
        host: found.host.clone(),
        id: publication.id,
        was_there: !is_new(outcome),
        files,
        rows,
        bytes,
    })
}
