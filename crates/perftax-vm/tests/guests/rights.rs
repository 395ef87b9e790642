//! Every command in every situation of a user: works, works with less and says so, or is refused with a remedy; and every remedy, executed. What comes out
//! is the table of docs/guide/rights.md. Needs the machine built (`perftax vm build`, and `--kernel trixie`); `make test` sees to that.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common;

/// A situation: its name in the table, how root makes it, and who asks, by what.
struct Situation {
    name: &'static str,
    made_by: &'static str,
    asks: &'static str,
}

const fn situation(name: &'static str, made_by: &'static str, asks: &'static str) -> Situation {
    Situation { name, made_by, asks }
}

/// An ordinary user at each paranoid level; with what capabilities change at levels 2 and 3. On both kernels.
const LEVELS: [Situation; 9] = [
    situation("root", "paranoid 2", "env"),
    situation("user, paranoid -1", "paranoid -1", "as 1000 0 0"),
    situation("user, paranoid 0", "paranoid 0", "as 1000 0 0"),
    situation("user, paranoid 1", "paranoid 1", "as 1000 0 0"),
    situation("user, paranoid 2", "paranoid 2", "as 1000 0 0"),
    situation("user, paranoid 3", "paranoid 3", "as 1000 0 0"),
    situation("CAP_PERFMON, paranoid 2", "paranoid 2", "as 1000 4000000000 0"),
    situation("CAP_PERFMON, paranoid 3", "paranoid 3", "as 1000 4000000000 0"),
    situation("CAP_SYS_ADMIN, paranoid 3", "paranoid 3", "as 1000 200000 0"),
];

/// What else stands in the way. Each ends as it began.
const OBSTACLES: [Situation; 7] = [
    situation("root of a user namespace", "paranoid 2", "as 1000 0 0 unshare -U -r"),
    situation("seccomp: EPERM", "paranoid 2", "as 1000 0 1"),
    situation("seccomp: ENOSYS, root", "paranoid 2", "as 0 0 38"),
    situation("Yama 1", "paranoid 2; echo 1 >/proc/sys/kernel/yama/ptrace_scope", "as 1000 0 0"),
    situation("CPU quota of 50 %", "paranoid 2; quota", "as 1000 0 0"),
    situation(
        "root, /proc/sys read-only",
        "unlimited; paranoid 2; mount -o bind /proc/sys /proc/sys; mount -o remount,ro,bind /proc/sys",
        "env",
    ),
    situation("root, no tracefs", "umount /proc/sys 2>/dev/null; umount /sys/kernel/tracing; umount -l /sys/kernel/debug", "env"),
];

/// A command of the table.
struct Asked {
    name: &'static str,
    words: &'static str,
}

const fn asked(name: &'static str, words: &'static str) -> Asked {
    Asked { name, words }
}

/// Those that take some hundredths of a second each.
const QUICK: [Asked; 9] = [
    asked("doctor", "doctor"),
    asked("list", "list"),
    asked("plan", "plan --budget 5% -r 2 -- loop"),
    asked("predict", "predict -r 2 -- loop"),
    asked("phase", "phase -e instructions:u,branches:u -- loop"),
    asked("trace", "trace record -o made -- loop"),
    asked("comm", "comm --watch quiet -- loop"),
    asked("bill", "bill perf.data"),
    asked("report", "report plan.json"),
];

/// Those that measure for longer.
const LONG: [Asked; 6] = [
    asked("calibrate", "calibrate -e cpu-clock:u --quick --no-save --time 1 --spacing 0"),
    asked("verify", "verify -e cpu-clock:u -c 1000003 --min-rounds 3 --half-width 99 --time 3 --no-probe -- loop"),
    asked("matrix", "matrix -g clock --modes counting --events 1 --instances 1 --min-pairs 2 --precision 90 --time 1 -- loop"),
    asked("sensitivity", "sensitivity --method eviction --min-rounds 3 --half-width 100 --time 3 -- loop"),
    asked("selfcost", "selfcost --quick --only call"),
    asked("audit", "audit --quick --runs 1 --only count --source page-faults,raw_syscalls,mem"),
];

/// Before all: a profile for everybody, a recording, a document.
const READY: &str = "\
cp loop as /bin/; mkdir -p /tmp/user /tmp/profile; chown 1000:1000 /tmp/user; chmod 1777 /tmp; chmod 777 /tmp/profile
export HOME=/tmp/user XDG_DATA_HOME=/tmp/profile NO_COLOR=1
cd /tmp/user
sudo() { \"$@\"; }
unlimited() { for process in $(cat /sys/fs/cgroup/half/cgroup.procs 2>/dev/null); do echo $process >/sys/fs/cgroup/cgroup.procs; done; }
quota() {
    mkdir -p /sys/fs/cgroup; mount -t cgroup2 all /sys/fs/cgroup; echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
    mkdir /sys/fs/cgroup/half; echo 50000 100000 >/sys/fs/cgroup/half/cpu.max; echo $$ >/sys/fs/cgroup/half/cgroup.procs
}
paranoid() { echo $1 >/proc/sys/kernel/perf_event_paranoid; }
echo 25 >/proc/sys/kernel/perf_cpu_time_max_percent; echo 100000 >/proc/sys/kernel/perf_event_max_sample_rate
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
for event in cpu-clock instructions:up; do calibrate -e $event --quick --time 1 --spacing 0 2>/tmp/err || { echo \"no calibration of $event\"; cat /tmp/err; }; done
chmod -R a+rX /tmp/profile
perf record -q -e cpu-clock:u -c 1000000 -o perf.data loop
# What follows asks for kernel symbols by right.
umount /proc/kallsyms
perftax plan --budget 5% -r 2 --json plan.json -- loop >/dev/null 2>&1
chmod 644 perf.data plan.json
cell() {
    name=$1; shift
    \"$@\" >/tmp/out 2>/tmp/err </dev/null; code=$?
    rm -rf made; echo \"@@@ $name @ $code\"; cat /tmp/out; echo \"@@err\"; cat /tmp/err
}
";

fn folder() -> tempfile::TempDir {
    let folder = common::compiled("as.c");
    common::assemble(folder.path(), "loop", &["-DN=2900000", common::source("loop.S").to_str().unwrap()]);
    folder
}

fn run(kernel: Option<&Path>, script: &str) -> (String, String) {
    let folder = folder();
    std::fs::write(folder.path().join("script"), format!("{}{}{READY}{script}", common::CALIBRATE, common::SHORT_PERF)).unwrap();
    let argv = ["sh", "script"].map(String::from);
    let (output, errors, _) = common::boot_kernel(kernel, &argv, &common::perftax(), |guest| {
        guest.share = Some(folder.path().into());
        guest.with = ["chrt", "setcap"].map(Into::into).to_vec();
    });
    (output, errors)
}

/// What came of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Works,
    WithLess,
    Refused,
}

impl Cell {
    fn in_words(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::WithLess => "less",
            Self::Refused => "refused",
        }
    }

    /// By its exit code and what it said. Whatever is none of the three fails the test.
    fn of(what: &str, code: &str, output: &str, errors: &str) -> Self {
        // Of a right, or of what a container does with time.
        let told = ["no right to", "no permission to", "not yours to measure", "is left out", "closed to this user", "cpu.max"];
        let says_less = !what.ends_with("/doctor") && told.iter().any(|words| output.contains(words) || errors.contains(words));
        match code {
            "3" => {
                let remedy = errors.lines().skip_while(|line| !line.starts_with("perftax:")).any(|line| line.starts_with("  "));
                assert!(remedy && !errors.contains("panicked"), "{what}: refused without a remedy\n{errors}");
                Self::Refused
            }
            // A verdict is an answer.
            "0" | "4" if says_less => Self::WithLess,
            "0" | "4" => Self::Works,
            code => panic!("{what}: exit {code}\n{output}\n{errors}"),
        }
    }
}

/// A column of the table: what came of each command in a situation.
type Column = BTreeMap<&'static str, Cell>;

/// What each command does in each situation, and what the script behind them says.
fn measured(
    kernel: Option<&Path>,
    situations: &[&Situation],
    commands: impl Fn(&Situation) -> Vec<&'static Asked>,
    then: &str,
) -> (Vec<Column>, String) {
    let mut script = String::new();
    for situation in situations {
        script += &format!("{}\n", situation.made_by);
        for command in commands(situation) {
            script += &format!("cell '{}/{}' {} perftax {}\n", situation.name, command.name, situation.asks, command.words);
        }
    }
    let (output, complaints) = run(kernel, &format!("{script}echo '@@@ then @ 0'\n{then}"));
    assert!(!output.contains("no calibration of"), "{output}{complaints}");
    let (cells, then) = output.split_once("@@@ then @ 0\n").unwrap_or_else(|| panic!("it ended early: {output}{complaints}"));
    let said: BTreeMap<&str, (&str, &str, &str)> = cells
        .split("@@@ ")
        .skip(1)
        .map(|cell| {
            let (head, rest) = cell.split_once('\n').unwrap();
            let (name, code) = head.split_once(" @ ").unwrap();
            let (output, errors) = rest.split_once("@@err\n").unwrap_or((rest, ""));
            (name, (code, output, errors))
        })
        .collect();
    let column = |situation: &&Situation| {
        let cell = |command: &'static Asked| {
            let key = format!("{}/{}", situation.name, command.name);
            let (code, output, errors) = said.get(key.as_str()).unwrap_or_else(|| panic!("{key} never ran: {complaints}"));
            (command.name, Cell::of(&key, code, output, errors))
        };
        commands(situation).into_iter().map(cell).collect()
    };
    (situations.iter().map(column).collect(), then.to_string())
}

fn is_all() -> bool {
    std::env::var_os("PERFTAX_ALL").is_some()
}

/// The commands that are asked in a situation: all where `PERFTAX_ALL` is set, as in acceptance; here those that rights decide about, and as a plain user
/// all but those that measure for seconds, which `plain_user` (of perftax's own tests) asks on the live machine.
fn commands(situation: &Situation) -> Vec<&'static Asked> {
    let is_plain = situation.name == "user, paranoid 2";
    let is_asked = |command: &&Asked| is_all() || is_plain || matches!(command.name, "doctor" | "plan" | "trace");
    let is_short = |command: &&Asked| is_all() || is_plain && !matches!(command.name, "calibrate" | "verify" | "sensitivity");
    QUICK.iter().filter(is_asked).chain(LONG.iter().filter(is_short)).collect()
}

/// What docs/guide/rights.md says of a command in a situation.
fn documented(situation: &str, command: &str) -> Option<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/rights.md");
    let text = std::fs::read_to_string(file).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let heading = rows.iter().find(|row| row[0] == "situation")?;
    let column = heading.iter().position(|name| *name == command)?;
    let row = rows.iter().find(|row| row[0] == situation)?;
    row.get(column).map(|cell| (*cell).to_string())
}

/// Compares with the table of the documentation, and shows what it would have to be.
fn check(situations: &[&Situation], columns: &[Column]) {
    let mut wrong = Vec::new();
    for (situation, column) in situations.iter().zip(columns) {
        for (command, cell) in column {
            let documented = documented(situation.name, command);
            if documented.as_deref() != Some(cell.in_words()) {
                wrong.push(format!("{}, {command}: {} (docs/guide/rights.md: {documented:?})", situation.name, cell.in_words()));
            }
        }
        let cells: Vec<&str> =
            QUICK.iter().chain(&LONG).map(|c| column.get(c.name).map_or("?", |cell| cell.in_words())).collect();
        eprintln!("| {} | {} |", situation.name, cells.join(" | "));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The script of whoever does what doctor says, one after another, until it says nothing more; and then asks for what was refused.
const REMEDIES: &str = "\
paranoid 3
remedies() { as 1000 0 0 perftax doctor | sed -n '/what you may do/,/^$/p' | grep '^ *\\$ ' | sed 's/^ *\\$ //'; }
for turn in 1 2 3 4 5 6 7 8 9 10; do
    remedy=$(remedies | head -n 1)
    [ -n \"$remedy\" ] || break
    echo \"remedy $turn: $remedy\"
    eval \"$remedy\" || echo \"failed: $remedy\"
done
as 1000 0 0 perftax doctor | head -n 1
cell plan as 1000 0 0 perftax plan --budget 5% -r 2 -- loop
cell trace as 1000 0 0 perftax trace record -o made -- loop
";

fn check_remedies(said: &str) {
    assert!(!said.contains("failed:") && said.contains("you can measure all that this machine has"), "{said}");
    let turns = said.lines().filter(|line| line.starts_with("remedy ")).count();
    assert!((3..10).contains(&turns), "{said}");
    assert!(said.contains("@@@ plan @ 0") && said.contains("@@@ trace @ 0"), "{said}");
    for cell in said.split("@@@ ").skip(1) {
        assert!(!cell.contains("no right to") && !cell.contains("no permission to"), "{cell}");
    }
}

/// The distribution's kernel: every situation; and whoever does what doctor says may do everything in the end.
#[test]
fn every_command_in_every_situation_and_remedies_that_help() {
    let situations: Vec<&Situation> = LEVELS.iter().chain(&OBSTACLES).collect();
    // What mounts and lifts limits comes last but for the remedies, which need what it took away.
    let then = format!("mount -t tracefs trace /sys/kernel/tracing\n{REMEDIES}");
    let (columns, said) = measured(None, &situations, commands, &then);
    check(&situations, &columns);
    check_remedies(&said);
}

/// The suite whose kernel is the newer one: it lets the same people do the same, and the same remedies help.
const NEWER: &str = "trixie";

#[test]
fn a_newer_kernel_lets_the_same_people_do_the_same() {
    // Here those that the two kernels could differ in: what is not upstream is above level 2.
    let is_asked =
        |situation: &&Situation| is_all() || situation.name == "user, paranoid 2" || situation.name.ends_with("paranoid 3");
    let situations: Vec<&Situation> = LEVELS.iter().filter(is_asked).collect();
    let few = |situation: &Situation| {
        if is_all() { commands(situation) } else { QUICK.iter().filter(|c| c.name == "plan").collect() }
    };
    let (columns, said) = measured(Some(Path::new(NEWER)), &situations, few, REMEDIES);
    check(&situations, &columns);
    check_remedies(&said);
}
