//! `perftax trace`: messages, and why some of them are slow.

mod bounds;
mod cost;
mod describe;
mod diff;
mod events;
mod execution;
mod export;
mod join;
mod labels;
#[cfg(feature = "html")]
mod picture;
mod pilot;
mod publish;
mod reading;
mod record;
mod report;
mod show;
mod tagged;
mod top;
mod watched;
mod weakened;
mod whose;

use anyhow::Result;

use crate::failure::Outcome;

/// Record messages (packets, requests), and say why some are slow
///
/// The program marks where its messages begin and end, by perftax_tag.h or the crate perftax-tag; perftax records these marks, samples,
/// and what the kernel did to each thread, and says for the slowest messages what their extra time went to.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax trace record -o slow.trace -- ./server --port 80   its messages, samples of it, and what the kernel did
  perftax trace report slow.trace                            how long they took, and why the slow ones did
  perftax trace report slow.trace --html slow.html           the same in pictures
  perftax trace show slow.trace 8317                         what one message's time went to, piece by piece
  perftax trace top -p 4711                                  which messages are slow now, and why
  perftax trace diff before.trace after.trace                what messages spend more time on than before
  perftax trace join front.trace app.trace                   messages over services, and how far their hosts' clocks are apart
  perftax trace publish front.trace --to fleet               into the data set of a fleet
  perftax trace export slow.trace --format perfetto -o slow.pftrace   for another tool")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Record(record::Args),
    Report(report::Args),
    Show(show::Args),
    Diff(diff::Args),
    Export(export::Args),
    Join(join::Args),
    Publish(publish::Args),
    Top(top::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    match &args.command {
        Command::Record(args) => record::run(args),
        Command::Report(args) => report::run(args),
        Command::Show(args) => show::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Export(args) => export::run(args),
        Command::Join(args) => join::run(args),
        Command::Publish(args) => publish::run(args),
        Command::Top(args) => top::run(args),
    }
}

/// The file beside the tables that says how they were recorded.
const META: &str = "meta.json";
