//! Real programs, small enough to be simulated many times.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use perftax_lab::simulation::Guest;
use perftax_lab::workload::{Workload, default_cache_dir};

/// A program small enough for seven rounds, on the inputs of the shipped workload of its name.
pub fn guest(program: &str, folder: &Path) -> Guest {
    let prepared = Workload::load(program).unwrap().prepare(&default_cache_dir()).unwrap();
    let mut guest = Guest { silent: true, directory: Some(prepared.cwd.clone()), ..Guest::default() };
    match program {
        "bzip2" => {
            let text = std::fs::read(prepared.cwd.join("text")).unwrap();
            let part = folder.join("part");
            std::fs::write(&part, &text[..3_000_000]).unwrap();
            guest.argv = ["bzip2".into(), "-kc".into(), part.into_os_string()].into();
        }
        // gcc starts cc1 as a process of its own, which neither a simulation nor cachegrind follows: cc1 is run in its place.
        "gcc" => {
            let output = Command::new("gcc").arg("-print-prog-name=cc1").output().unwrap();
            let compiler = String::from_utf8(output.stdout).unwrap().trim().to_string();
            let source = prepared.argv.last().unwrap().clone();
            guest.argv = [compiler.as_str(), "-quiet", "-O0", "-w", "-o", "/dev/null"].map(OsString::from).into();
            guest.argv.push(source);
        }
        // The workload talks to it through pipes; here it reads its orders from a file, and thinks less deeply.
        "sjeng" => {
            let orders = folder.join("orders");
            let text = "variant bughouse\ndiagram\nnopost\nsd 7\nst 1000000\nforce\ne2e4\ne7e5\ng1f3\nb8c6\nf1b5\na7a6\nb5a4\n\
                        g8f6\ngo\nquit\n";
            std::fs::write(&orders, text).unwrap();
            guest.argv = vec!["/usr/games/sjeng".into()];
            guest.stdin = Some(orders);
        }
        _ => (guest.argv, guest.stdin) = (prepared.argv, prepared.stdin),
    }
    guest
}
