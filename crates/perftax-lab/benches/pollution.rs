//! Does the pollution term predict what the simulated caches show? Real programs over periods and buffers, E by α alone and with
//! the term, neither fitted to any of them.
//!
//! `cargo bench -p perftax-lab --bench pollution [-- PROGRAM…]`; needs the release plugin (`make`) and qemu-user.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a benchmark

mod common;

use perftax_lab::published::Published;
use perftax_lab::simulation::{Brought, Installation, simulate, summary};
use perftax_model::Event;
use perftax_model::machine::{Handler, LlcShare, Mechanism};
use perftax_model::run::{Request, Sampling};

const PROGRAMS: [&str; 3] = ["bzip2", "gcc", "sjeng"];
const MACHINE: &str = "broadwell";

fn main() {
    let installation = Installation::find(&Brought::default()).unwrap();
    let chosen: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let programs = if chosen.is_empty() { PROGRAMS.map(String::from).to_vec() } else { chosen };
    let machine = Published::load(MACHINE).unwrap().model().unwrap().clone();
    println!("{MACHINE}, uops, all cores busy; shares of the elapsed time\n");
    println!(
        "{:8} {:>6} {:>8} {:>9} {:>10} {:>10} {:>9} {:>9}",
        "program", "R", "buffer", "overhead", "pollution", "predicted", "E alpha", "E"
    );
    for program in programs {
        let folder = tempfile::tempdir().unwrap();
        let guest = common::guest(&program, folder.path());
        for (period, buffer_kib) in [(2000, 16), (2000, 64), (2000, 256), (2000, 1024), (2000, 4096), (8000, 1024)] {
            let request = Request {
                sampling: Some(Sampling {
                    mechanism: Mechanism::Pebs,
                    event: Event::Uops,
                    period,
                    buffer_bytes: Some(buffer_kib << 10),
                    handler: Handler::Discards,
                }),
                caches: true,
                reference: true,
                profile: true,
                llc: LlcShare::PerCore,
                cores: 1,
                ..Request::counting(machine.clone())
            };
            let outcome = simulate(&installation, &guest, &request).unwrap().outcome.unwrap();
            let run = summary(&outcome, &request);
            if std::env::var_os("LEVELS").is_some() {
                let core = &outcome.cores[0];
                let (with, without) = (core.traffic, core.reference.unwrap());
                let streams = request.streams(core.samples);
                let predicted = outcome.profile.as_ref().unwrap().caused(&streams);
                println!(
                    "  L1 {} {:+} {:+.0}  L2 {} {:+} {:+.0}  LLC {} {:+} {:+.0} (profile {:?})",
                    without.l1_misses,
                    with.l1_misses as i64 - without.l1_misses as i64,
                    predicted[0],
                    without.l2_misses,
                    with.l2_misses as i64 - without.l2_misses as i64,
                    predicted[1],
                    without.llc_misses,
                    with.llc_misses as i64 - without.llc_misses as i64,
                    predicted[2],
                    outcome.profile.as_ref().unwrap().levels.each_ref().map(|level| level.misses)
                );
            }
            let (t0, terms) = (run.elapsed_s, run.terms_s);
            let predicted = run.pollution_predicted_s.unwrap();
            let measured = t0 + terms.total();
            let known = t0 + terms.total() - terms.pollution;
            let percent = |s: f64| format!("{:+.2} %", 100.0 * s);
            println!(
                "{program:8} {period:>6} {:>8} {:>9} {:>10} {:>10} {:>9} {:>9}",
                format!("{buffer_kib} KiB"),
                percent(run.predicted_overhead),
                percent(terms.pollution / t0),
                percent(predicted / t0),
                percent((measured - known) / known),
                percent((measured - known - predicted) / (known + predicted)),
            );
        }
    }
}
