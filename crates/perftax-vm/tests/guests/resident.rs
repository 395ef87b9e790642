//! A machine that has booted once gives each command what a boot of its own would give.

use std::path::Path;

use perftax_vm::{Generation, Guest, Resident, Sources, Terminal, run};

use crate::common::{self, Said};

/// Exact events of a program, the machine's own clock, and what an earlier command has left.
const SCRIPT: &str = "\
perf stat -x';' -e instructions:u,branches:u,branch-misses:u -o /tmp/stat ./loop; grep -v '^#' /tmp/stat | cut -d';' -f1,3
perf record -q -o /tmp/data -e instructions:uppp -c 1009 ./loop; perf script -i /tmp/data -F ip,iregs 2>/dev/null | cksum
cat /proc/uptime; ls /root; echo left >/root/left
";

fn guest(folder: &Path, generation: Generation) -> Guest {
    common::assemble(folder, "loop", &["-DN=20000", common::source("loop.S").to_str().unwrap()]);
    std::fs::write(folder.join("script"), format!("{}{SCRIPT}", common::SHORT_PERF)).unwrap();
    let mut guest = Guest::new(["sh", "script"].map(String::from).to_vec());
    guest.share = Some(folder.into());
    guest.append = "nopti".into();
    guest.processor.generation = generation;
    guest
}

fn terminal() -> (Said, Said, Terminal) {
    let (output, errors) = (Said::default(), Said::default());
    let terminal = Terminal { output: Box::new(output.clone()), errors: Box::new(errors.clone()), interrupted: || false };
    (output, errors, terminal)
}

/// How many, by a variable: 50 commands and boots in acceptance.
fn number(variable: &str, usually: usize) -> usize {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(usually)
}

#[test]
fn commands_one_after_another_count_as_boots_do() {
    let folder = tempfile::tempdir().unwrap();
    let guest = guest(folder.path(), Generation::Skylake);
    let installation = Sources::find().unwrap().installation(None).unwrap();
    let resident = common::resident(None, &installation, &common::perftax(), &guest);
    let said = |once: &dyn Fn(Terminal) -> perftax_vm::Finished| {
        let (output, errors, terminal) = terminal();
        let finished = once(terminal);
        assert_eq!(finished.code, 0, "{}", errors.text());
        output.text()
    };
    let in_one = || said(&|terminal| resident.exec(&installation, &guest, terminal).unwrap());
    let boots = Guest { boots: true, ..guest.clone() };
    let booted = || said(&|terminal| run(&installation, &boots, &common::perftax(), terminal).unwrap());
    let run = || said(&|terminal| run(&installation, &guest, &common::perftax(), terminal).unwrap());
    let first = in_one();
    assert_eq!(first.lines().filter(|line| line.contains(':')).count(), 3, "{first}");
    for command in 1..number("PERFTAX_COMMANDS", 3) {
        assert_eq!(in_one(), first, "command {command}: every byte, clock and all");
    }
    // A boot's clock is not a saved machine's: it brought the program along before, not after. What is counted is the same.
    let counts = |text: &str| text.lines().take(4).map(String::from).collect::<Vec<_>>();
    for boot in 0..number("PERFTAX_BOOTS", 1) {
        assert_eq!(counts(&booted()), counts(&first), "boot {boot}");
    }
    // What has booted before, and was kept on disk.
    let once = run();
    assert_eq!(counts(&once), counts(&first));
    assert_eq!(run(), once, "every byte, clock and all");
}

#[test]
fn it_is_lent_to_other_processes_by_its_parts() {
    let folder = tempfile::tempdir().unwrap();
    let guest = guest(folder.path(), Generation::Zen2);
    let installation = Sources::find().unwrap().installation(None).unwrap();
    let resident = common::resident(None, &installation, &common::perftax(), &guest);
    let parts = resident.parts().map(|part| part.try_clone_to_owned().unwrap());
    let mut guest = Guest { argv: ["sh", "-c", "grep -c processor /proc/cpuinfo; exit 9"].map(String::from).to_vec(), ..guest };
    guest.timeout = std::time::Duration::from_secs(120);
    let (output, errors, terminal) = terminal();
    let finished = Resident::of_parts(parts).exec(&installation, &guest, terminal).unwrap();
    assert_eq!((output.text().trim(), finished.code), ("1", 9), "{}", errors.text());
}
