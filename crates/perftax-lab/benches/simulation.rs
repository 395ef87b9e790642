//! How fast a simulation is: interleaved rounds of bare qemu-user, counting, sampling, sampling with three levels of caches, and
//! cachegrind with the same first and last level, on real programs. Prints medians of the rounds' ratios, and their spread.
//!
//! `cargo bench -p perftax-lab --bench simulation [-- PROGRAM…]`; needs the release plugin (`make`), qemu-user and valgrind.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a benchmark

mod common;

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Instant;

use perftax_lab::published::Published;
use perftax_lab::simulation::{Brought, Installation, simulate};
use perftax_lab::workload::find_program;
use perftax_model::Event;
use perftax_model::machine::{Handler, Mechanism};
use perftax_model::run::{Request, Sampling};

const ROUNDS: usize = 7;
const PROGRAMS: [&str; 3] = ["bzip2", "gcc", "sjeng"];
/// Its sets are powers of two, which cachegrind asks for.
const MACHINE: &str = "skylake";

fn request(event: Option<Event>, caches: bool) -> Request {
    let machine = Published::load(MACHINE).unwrap().model().unwrap().clone();
    let sampling = event.map(|event| Sampling {
        mechanism: Mechanism::Pebs,
        event,
        period: 100_003,
        buffer_bytes: None,
        handler: Handler::Copies,
    });
    Request { sampling, caches, ..Request::counting(machine) }
}

/// The same command with its program's path, which qemu-user does not look for.
fn resolved(argv: &[OsString]) -> Vec<OsString> {
    let found = find_program(&argv[0].to_string_lossy()).unwrap();
    std::iter::once(found.into_os_string()).chain(argv[1..].iter().cloned()).collect()
}

/// Elapsed times of one round, s: bare, each variant, cachegrind.
type Round = (f64, Vec<f64>, f64);

fn main() {
    let installation = Installation::find(&Brought::default()).unwrap();
    let chosen: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let programs = if chosen.is_empty() { PROGRAMS.map(String::from).to_vec() } else { chosen };
    let variants = [
        ("counting", request(None, false)),
        ("sampling instructions", request(Some(Event::Instructions), false)),
        ("sampling loads", request(Some(Event::Loads), false)),
        ("sampling and caches", request(Some(Event::Instructions), true)),
        ("sampling misses", request(Some(Event::L1Misses), true)),
    ];
    println!("elapsed time, medians of {ROUNDS} interleaved rounds [least, most]");
    for program in programs {
        let folder = tempfile::tempdir().unwrap();
        let guest = common::guest(&program, folder.path());
        let plain = |command: &mut Command| {
            command
                .args(resolved(&guest.argv))
                .current_dir(guest.directory.as_ref().unwrap())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            if let Some(stdin) = &guest.stdin {
                command.stdin(std::fs::File::open(stdin).unwrap());
            }
            let started = Instant::now();
            assert!(command.status().unwrap().success());
            started.elapsed().as_secs_f64()
        };
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let bare = plain(&mut Command::new(&installation.qemu[0]));
            let simulated: Vec<f64> = variants
                .iter()
                .map(|(_, request)| {
                    let started = Instant::now();
                    assert_eq!(simulate(&installation, &guest, request).unwrap().code, 0);
                    started.elapsed().as_secs_f64()
                })
                .collect();
            let cachegrind = plain(Command::new("valgrind").args([
                "--tool=cachegrind",
                "--cache-sim=yes",
                "--cachegrind-out-file=/dev/null",
                "--I1=32768,8,64",
                "--D1=32768,8,64",
                "--LL=6291456,12,64",
            ]));
            rounds.push((bare, simulated, cachegrind));
        }
        let ratio = |name: &str, of: &dyn Fn(&Round) -> f64| {
            let mut ratios: Vec<f64> = rounds.iter().map(of).collect();
            ratios.sort_by(f64::total_cmp);
            println!("  {name:44} {:.2} [{:.2}, {:.2}]", ratios[ROUNDS / 2], ratios[0], ratios[ROUNDS - 1]);
        };
        let mut bare: Vec<f64> = rounds.iter().map(|round| round.0).collect();
        bare.sort_by(f64::total_cmp);
        println!("{program}: {:.2} s under bare qemu-user", bare[ROUNDS / 2]);
        for (i, (name, _)) in variants.iter().enumerate() {
            ratio(&format!("{name} / bare"), &|round| round.1[i] / round.0);
        }
        ratio("cachegrind / sampling and caches", &|round| round.2 / round.1[3]);
        ratio("cachegrind / sampling misses", &|round| round.2 / round.1[4]);
    }
}
