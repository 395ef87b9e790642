//! `perftax trace --counters` in the emulated machine: instructions and cycles of each message are the truth by construction, more work is told from slower work, and what cannot be read
//! exactly lies between what is said. Needs the machine and perftax built (`make machine`); `make test` sees to that.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use perftax_doc::TraceReport;
use perftax_vm::Processor;

use crate::common;

const MESSAGES: u64 = 1200;
/// Instructions of a step of the program's work.
const A_STEP: u64 = 5;
/// What a load that misses everywhere takes beyond a hit in the first level on Skylake, cycles.
const A_MISS: u64 = 54;
/// Instructions of a reading, and some.
const ONCE_MORE: u64 = 100;
/// Steps of a message like most.
const USUAL_STEPS: std::ops::Range<u64> = 400..470;

/// A message of the program: how it was planted, and its steps.
type Truth = BTreeMap<u64, (char, u64)>;

/// What was said of a message's instructions or cycles: shared out, at least, at most.
type Said = (u64, u64, u64);

struct Traced {
    truth: Truth,
    /// Instructions and cycles; none where they are not known.
    messages: BTreeMap<u64, Option<(Said, Said)>>,
    report: TraceReport,
    text: String,
}

/// Reads what one recording left in a folder.
fn traced(folder: &Path, name: &str) -> Traced {
    let perftax = |arguments: &[&str]| {
        let trace = folder.join(name).with_extension("trace");
        let output = Command::new(common::perftax()).arg("trace").args(&arguments[..1]).arg(trace).args(&arguments[1..]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let truth = std::fs::read_to_string(folder.join(name).with_extension("truth")).unwrap();
    let planted = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[0].parse().unwrap(), (words[1].chars().next().unwrap(), words[2].parse().unwrap()))
    };
    let rows = perftax(&["export", "--format", "csv", "-o", "-"]);
    let mut rows = rows.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let columns = rows.next().unwrap();
    let at = columns.iter().position(|column| *column == "instructions").unwrap();
    let message = |row: Vec<&str>| {
        let numbers: Option<Vec<u64>> = row[at..at + 6].iter().map(|number| number.parse().ok()).collect();
        (row[0].parse().unwrap(), numbers.map(|n| ((n[0], n[1], n[2]), (n[3], n[4], n[5]))))
    };
    Traced {
        truth: truth.lines().map(planted).collect(),
        messages: rows.map(message).collect(),
        report: serde_json::from_str(&perftax(&["report", "--slowest", "100000", "--json", "-"])).unwrap(),
        text: perftax(&["report", "--slowest", "200"]),
    }
}

impl Traced {
    /// Whatever happens in between, each message of these kinds has exactly its steps, and the same few instructions around them as all of its kind; but for one in a hundred at most whose thread was
    /// taken off its CPU in the very reading, which is then read once more. The first message begins with what the program does once.
    fn have_theirs(&self, kinds: &[char]) {
        let mut beyond: BTreeMap<char, BTreeMap<u64, usize>> = BTreeMap::new();
        let mut apart = 0;
        for (id, (kind, steps)) in self.truth.iter().filter(|(id, (kind, _))| **id > 1 && kinds.contains(kind)) {
            let ((instructions, low, high), (cycles, least, most)) =
                self.messages[id].unwrap_or_else(|| panic!("{id} is not known"));
            assert!(low == high && instructions == low && least == most && cycles == least, "{id} {:?}", self.messages[id]);
            assert!(cycles.abs_diff(instructions) <= ONCE_MORE, "{id}: {cycles} cycles, {instructions} instructions");
            apart += u64::from(cycles != instructions);
            *beyond.entry(*kind).or_default().entry(instructions - A_STEP * steps).or_default() += 1;
        }
        assert_eq!(beyond.len(), kinds.len());
        for (kind, of_kind) in &beyond {
            let usual = of_kind.iter().max_by_key(|(_, times)| **times).map(|(instructions, _)| *instructions).unwrap();
            assert!(usual < 400 && of_kind.keys().all(|other| other.abs_diff(usual) <= ONCE_MORE), "{kind}: {of_kind:?}");
            apart += of_kind.iter().filter(|(other, _)| **other != usual).map(|(_, times)| *times as u64).sum::<u64>();
        }
        assert!(apart <= MESSAGES / 100, "{apart} {beyond:?}");
    }
}

/// Records the program several times in one guest, each time after a command, with options, under a name.
fn recorded(runs: &[(&str, &str, &str)], processor: impl FnOnce(Processor) -> Processor) -> tempfile::TempDir {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let share = tempfile::tempdir().unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-D_GNU_SOURCE", "-O2", "-static", "-pthread", "-I"]).arg(root.join("crates/perftax-tag/include"));
    gcc.arg("-o").arg(share.path().join("executed")).arg(root.join("crates/perftax-trace/tests/programs/executed.c"));
    assert!(gcc.status().unwrap().success());
    let record = |(before, name, options): &(&str, &str, &str)| {
        format!(
            "{before}\nperftax trace record --counters {options} -o {name}.trace -- ./executed {name}.truth {MESSAGES} || exit 1\n"
        )
    };
    std::fs::write(share.path().join("script"), runs.iter().map(record).collect::<String>()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (output, errors, finished) = common::boot_with(&["sh", "script"].map(String::from), &common::perftax(), |guest| {
        guest.share = Some(share.path().into());
        guest.processor = processor(guest.processor);
        let outputs = runs.iter().flat_map(|(_, name, _)| [format!("{name}.trace").into(), format!("{name}.truth").into()]);
        guest.outputs = outputs.collect();
        guest.output_folder = folder.path().into();
    });
    assert_eq!(finished.code, 0, "{output}{errors}");
    folder
}

/// Where every instruction takes a cycle.
#[test]
fn each_messages_instructions_and_cycles_are_its_own() {
    let runs = [
        ("", "marks", ""),
        ("", "probes", "--tag func:./executed:begins@1,ends@1"),
        ("", "kept", "--keep-slow p99"),
        // A program that may not read its counters itself.
        ("echo 0 >/sys/bus/event_source/devices/cpu/rdpmc", "switches", ""),
    ];
    let folder = recorded(&runs, |processor| processor);
    let marks = traced(folder.path(), "marks");
    assert_eq!((marks.truth.len(), marks.messages.len()), (MESSAGES as usize, MESSAGES as usize));
    let sight = marks.report.meta.executed.as_ref().unwrap();
    // Who takes turns with them marks nothing.
    assert_eq!((sight.threads, sight.threads_without, sight.refused.len()), (2, 0, 0), "{sight:?}");
    assert!(sight.readings_in_marks > 2 * MESSAGES && sight.reading_ns.is_some(), "{sight:?}");
    marks.have_theirs(&['u', 'm', 's', 'w', 'h']);
    assert!(marks.text.contains("counters  instructions and cycles in user mode, read "), "{}", marks.text);
    let probes = traced(folder.path(), "probes");
    let sight = probes.report.meta.executed.as_ref().unwrap();
    assert!(sight.readings_of_cpus >= 2 * MESSAGES && sight.readings_in_marks == 0, "{sight:?}");
    // What goes to another thread is the first one's by its functions.
    probes.have_theirs(&['u', 'm', 's', 'w']);
    of_slow_ones(&traced(folder.path(), "kept"));
    at_switches(&traced(folder.path(), "switches"));
}

/// Where loads that miss take time.
#[test]
fn more_work_is_told_from_slower_work() {
    let with_misses = |processor| Processor { caches: true, miss_time: true, ..processor };
    let folder = recorded(&[("", "marks", "")], with_misses);
    let traced = traced(folder.path(), "marks");
    for slow in &traced.report.slowest {
        let (kind, steps) = traced.truth[&slow.id];
        let Some(executed) = slow.executed.as_ref().filter(|_| slow.id > 1) else { continue };
        assert!(executed.instructions - A_STEP * steps < 400, "{slow:?}");
        let longer = executed.against_usual.unwrap();
        let (more, slower) = (longer.more_work_ns, longer.slower_work_ns);
        match kind {
            'm' => assert!(more > 4.0 * slower.abs() && more > 2.0 * steps as f64, "{slow:?}"),
            // Most steps wait for memory: of what was there before the caches keep some.
            's' => assert!(slower > 4.0 * more.abs() && slower > 0.5 * (steps * A_MISS) as f64, "{slow:?}"),
            _ => assert!(more < 2.0 * USUAL_STEPS.end as f64 && slower < 40.0 * A_MISS as f64, "{slow:?}"),
        }
        let waited = executed.cycles - executed.instructions;
        let most = if kind == 's' { (steps + 40) * A_MISS } else { 40 * A_MISS };
        assert!(waited <= most || kind == 'w' || kind == 'h', "{waited} cycles: {slow:?}");
    }
    assert!(traced.text.contains("more work: ") && traced.text.contains("slower work: "), "{}", traced.text);
}

/// Where only slow messages are kept they have theirs, and what is usual is of all.
fn of_slow_ones(traced: &Traced) {
    let slow: Vec<_> = traced.report.slowest.iter().filter(|slow| slow.executed.is_some()).collect();
    // Of the first thousand nobody knew yet which are slow.
    assert!(slow.len() >= 20 && (slow.len() as u64) < MESSAGES / 2, "{}", slow.len());
    for slow in slow {
        let (kind, steps) = traced.truth[&slow.id];
        let executed = slow.executed.as_ref().unwrap();
        let beyond = executed.instructions - A_STEP * steps;
        assert!(beyond < 400 || slow.id == 1, "{kind} {slow:?}");
        let usual = executed.against_usual.unwrap().usual_instructions;
        assert!(
            (A_STEP as f64 * USUAL_STEPS.start as f64..1.5 * A_STEP as f64 * USUAL_STEPS.end as f64).contains(&usual),
            "{usual}"
        );
    }
}

/// Read where threads leave their CPU alone: of most nothing but bounds is known, and they hold.
fn at_switches(traced: &Traced) {
    let sight = traced.report.meta.executed.as_ref().unwrap();
    assert_eq!((sight.threads, sight.refused.values().sum::<usize>(), sight.readings_in_marks), (0, 2, 0), "{sight:?}");
    let warned = traced.report.meta.origin.warnings.iter().any(|warning| warning.to_string().contains("could not have counters"));
    assert!(warned, "{:?}", traced.report.meta.origin.warnings);
    let mut known = 0;
    for (id, executed) in &traced.messages {
        let (_, steps) = traced.truth[id];
        let Some(((shared, low, high), (cycles, least, most))) = executed else { continue };
        known += 1;
        assert!(low <= shared && shared <= high && least <= cycles && cycles <= most, "{id} {executed:?}");
        assert!(*high >= A_STEP * steps && *low <= A_STEP * steps + 1000, "{id}, {steps} steps: {executed:?}");
    }
    assert!(known * 2 > traced.messages.len(), "{known}");
}
