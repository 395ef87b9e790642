//! `perftax trace join`: traces of several services, how far their hosts' clocks are apart, and messages over all of them.

mod clocks;
mod exports;
mod requests;
mod waterfall;

use std::path::{Path, PathBuf};

use anyhow::Result;
use perftax_doc::{JoinedTrace, TraceJoin, Warning};
use perftax_pmu::Error;
use perftax_trace::store::read_clocks;
use perftax_trace::{HostTrace, lying, pairs};

use super::reading::Reading;
use super::show::Asked;
use crate::failure::Outcome;
use crate::host::Host;
use crate::output::Output;

/// Follow messages over several services' traces, and say how far their hosts' clocks are apart
///
/// Traces of one host or of several, recorded at one time. A message is followed where programs say what others call it and when it goes and comes (perftax_identity, perftax_send,
/// perftax_receive).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax trace join front.trace app.trace store.trace
  perftax trace join front=a.trace app=b.trace --html requests.html
  perftax trace join front.trace app.trace --request 4bf92f3577b34da6a3ce929d0e0e4736 --otlp spans.pb")]
pub struct Args {
    /// Folders that `trace record` made, each with its service's name where that is not the folder's
    #[arg(value_name = "[SERVICE=]DIR", required = true, num_args = 2..)]
    traces: Vec<Named>,
    /// The service that requests begin in, instead of the one that most of them do
    #[arg(long, value_name = "SERVICE")]
    entry: Option<String>,
    /// The quantile from which on requests are slow
    #[arg(long, value_name = "Q", default_value_t = 0.99, value_parser = quantile)]
    slow_from: f64,
    /// Show this one part by part, too: TRACE or TRACE-SPAN (32 and 16 hexadecimal digits), or its number in the service that it begins in
    #[arg(long, value_name = "ID")]
    request: Vec<Asked>,
    /// Requests that are shown part by part: the slowest ones
    #[arg(long, value_name = "N", default_value_t = WATERFALLS)]
    waterfalls: usize,
    /// Write those requests as a trace of one process a service for ui.perfetto.dev
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    perfetto: Option<PathBuf>,
    /// Write those requests as spans: the body of a request to a receiver of OTLP (protobuf)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    otlp: Option<PathBuf>,
    /// Write the result as JSON to FILE, or to stdout with -
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
    /// Write one offline HTML page to FILE, or to stdout with -
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    /// Write the text to FILE instead of stdout
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
}

/// Waterfalls that a page takes well.
const WATERFALLS: usize = 20;

/// A trace with its service's name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    service: String,
    folder: PathBuf,
}

impl std::str::FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A folder's name may hold one, too.
        let (service, folder) = match text.split_once('=') {
            Some((service, folder)) if !Path::new(text).exists() => (Some(service), folder),
            _ => (None, text),
        };
        if folder.is_empty() || service.is_some_and(str::is_empty) {
            return Err("needs a folder, or SERVICE=DIR".into());
        }
        let folder = PathBuf::from(folder);
        let by_folder =
            || folder.file_stem().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned());
        Ok(Self { service: service.map_or_else(by_folder, Into::into), folder })
    }
}

pub(super) fn quantile(text: &str) -> Result<f64, String> {
    let quantile: f64 = text.parse().map_err(|_| "needs a number from 0 to below 1, such as 0.99".to_string())?;
    if (0.0..1.0).contains(&quantile) { Ok(quantile) } else { Err("needs a number from 0 to below 1, such as 0.99".into()) }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let output = Output { json: args.json.clone(), html: args.html.clone(), output: args.output.clone(), ..Output::default() };
    output.check_writable()?;
    for path in [&args.perfetto, &args.otlp].into_iter().flatten() {
        Output { output: Some(path.clone()), ..Output::default() }.check_writable()?;
    }
    check_names(&args.traces)?;
    let mut origin = Host::read()?.origin("trace-join");
    let (mut hosts, mut traces, mut readings) = (Vec::new(), Vec::new(), Vec::new());
    for Named { service, folder } in &args.traces {
        let reading = Reading::open(folder)?;
        let boot_id = reading.meta.host.as_ref().map(|host| host.boot_id.clone()).filter(|boot_id| !boot_id.is_empty());
        let host = HostTrace::new(&reading.store.relations, read_clocks(folder)?, boot_id);
        if host.named() == 0 {
            let message = format!("no message of {} was sent or received under a name that others know", folder.display());
            let remedy = "perftax_identity, perftax_send and perftax_receive in the program (perftax_tag.h)";
            origin.warnings.push(Warning::Other { message, remedy: remedy.into() });
        }
        let discipline = host.clocks.last().and_then(|clock| clock.discipline);
        traces.push(JoinedTrace {
            folder: folder.display().to_string(),
            service: service.clone(),
            host: reading.meta.host.clone(),
            named: host.named(),
            clocks: host.clocks.len(),
            // Daemons that set the clock by steps set both errors to 0 as they do: that says nothing.
            realtime_error_ns: discipline
                .filter(|of| !of.is_unsynchronised && (of.max_error_ns, of.estimated_error_ns) != (0, 0))
                .map(|of| of.max_error_ns.saturating_add(of.offset_ns.unsigned_abs())),
            tai_offset_s: discipline.map(|of| of.tai_offset_s).filter(|offset_s| *offset_s != 0),
        });
        hosts.push(host);
        readings.push(reading);
    }
    if traces.iter().all(|trace| trace.named == 0) {
        let value = args.traces.iter().map(|trace| trace.folder.display().to_string()).collect::<Vec<_>>().join(" ");
        let needed = "traces of which any sent or received a message under a name that others know: perftax_identity, perftax_send, perftax_receive";
        return Err(Error::Argument { argument: "DIR", value, needed: needed.into() }.into());
    }
    let pairs = pairs(&hosts);
    let documented = pairs.iter().map(|pair| clocks::joined(pair, &hosts)).collect();
    let lying = lying(&hosts, &pairs).iter().map(clocks::lying_clock).collect();
    let followed = requests::follow(args, &readings, hosts, &traces, &pairs)?;
    let document = TraceJoin { lying, pairs: documented, requests: followed, traces, origin };
    output.write_json(&document)?;
    output.write_text(&perftax_report::text::trace_join(&document))?;
    write_page(&output, &document)?;
    exports::write(args.perfetto.as_deref(), args.otlp.as_deref(), &document)?;
    Ok(Outcome::Done)
}

#[cfg(feature = "html")]
fn write_page(output: &Output, document: &TraceJoin) -> Result<()> {
    output.write_html(|| Ok(perftax_report::html::trace_join(document)))
}

/// There are no pages: one that was asked for has been refused.
#[cfg(not(feature = "html"))]
fn write_page(_: &Output, _: &TraceJoin) -> Result<()> {
    Ok(())
}

/// One trace twice says nothing, and two services of one name cannot be told apart.
fn check_names(traces: &[Named]) -> Result<()> {
    for (at, Named { service, folder }) in traces.iter().enumerate() {
        let canonical = |folder: &Path| folder.canonicalize().unwrap_or_else(|_| folder.into());
        let before = &traces[..at];
        let why = if before.iter().any(|other| canonical(&other.folder) == canonical(folder)) {
            "each trace once"
        } else if before.iter().any(|other| other.service == *service) {
            "names that differ: SERVICE=DIR"
        } else {
            continue;
        };
        return Err(Error::Argument { argument: "DIR", value: folder.display().to_string(), needed: why.into() }.into());
    }
    Ok(())
}
