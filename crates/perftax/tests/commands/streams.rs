//! What goes where, for every command: its result on stdout, alone, where it runs no program or discards its output; on stderr where the
//! program's own output passes through; progress and warnings on stderr always. Needs root and tracefs (as `trace` does), qemu-user with the
//! plugin; `make test` sees to them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{copy_executable, is_root, is_the_machines_fault};

/// Where a command's text goes, unless -o names a file.
#[derive(Clone, Copy, PartialEq)]
enum Text {
    /// To stdout, where nothing else is.
    Stdout,
    /// To stderr: stdout has what the program writes.
    Stderr,
    /// A file that has to be named: on stderr stands a summary.
    Summary,
}

/// Forms of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Text,
    /// `-o FILE`
    File,
    /// `--json -`
    Json,
    /// `--html -`
    Html,
    /// `-x ,`
    Values,
}
use Form::{File, Html, Json, Values};

/// A line of the table.
struct Row {
    /// As `perftax` is called.
    command: &'static str,
    arguments: Vec<String>,
    text: Text,
    /// What the text has, and nothing else that is written.
    marker: &'static str,
    /// What is said on stderr besides; nothing at all where this is empty.
    progress: &'static str,
    /// The forms besides the text.
    forms: &'static [Form],
    /// Exit codes that are no failure: some have a verdict, and this machine may not be quiet.
    codes: &'static [i32],
}

const DONE: &[i32] = &[0];
const VERDICT: &[i32] = &[0, 4];
const ALL: &[Form] = &[Json, Html, Values];

/// A program of its own CPU time, which writes something.
pub const BUSY: [&str; 3] =
    ["perl", "-e", "$| = 1; print STDOUT qq(out\\n); print STDERR qq(err\\n); my $i = 0; $i++ while $i < 3e6"];
/// One that is over at once.
pub const BRIEF: [&str; 3] = ["sh", "-c", "echo out; echo err >&2"];

/// A recording of perf's.
const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../perftax-pmu/tests/fixtures/faults.data");

/// For another perftax, which measures.
const MAX_WAITED: Duration = Duration::from_secs(120);

/// What the program writes, which most commands discard.
const OUT: &str = "out\n";
const ERR: &str = "err\n";

fn table(place: &Place) -> Vec<Row> {
    use Text::{Stderr, Stdout, Summary};
    // Options in one text, and the program with its arguments where there is one.
    let row = |command, text, options: &str, program: &[&str], marker, progress, forms, codes| {
        let separator = if program.is_empty() { &[][..] } else { &["--"] };
        let arguments = options.split_whitespace().chain(separator.iter().chain(program).copied()).map(String::from).collect();
        Row { command, arguments, text, marker, progress, forms, codes }
    };
    let [trace, again, new, fleet, calibration, sharing, messages] =
        ["trace", "again", "new", "fleet", "calibration.json", "sharing", "messages"].map(|name| place.path(name));
    let calibrate = "-e page-faults --quick --no-save --time 1 --spacing 0 --precision 90";
    // Wide enough for the first rounds that nothing spoils.
    let verify = "-e cpu-clock -c 1000003 --min-rounds 3 --half-width 99 --time 60 --no-probe --no-reference-loop";
    let sensitivity = "--method eviction --min-rounds 3 --half-width 100 --time 60";
    let phase = "-e page-faults:u,minor-faults:u --every page-faults:u:20";
    let matrix = "-g clock --modes sampling --events 1 --instances 1 --divide 1 --min-pairs 2 --max-pairs 2 --no-yardstick";
    let with_file: &[Form] = &[File, Json, Html, Values];
    let no_page: &[Form] = &[File, Json, Values];
    vec![
        row("doctor", Stdout, "", &[], "microcode", "", no_page, DONE),
        row("list", Stdout, "page-faults", &[], "Software events", "", no_page, DONE),
        row("calibrate", Stdout, calibrate, &[], "machine   ", "perftax: calibrating", ALL, DONE),
        row("predict", Stdout, "-e cpu-clock -c 1000003", &BUSY, "machine   ", "", ALL, DONE),
        row("plan", Stdout, "--budget 5%", &BUSY, "perf record -e cpu-clock", "", ALL, DONE),
        row("verify", Stdout, verify, &BUSY, "verdict   ", "perftax: 1 programs", ALL, VERDICT),
        row("bill", Stdout, RECORDING, &[], "rates of", "", with_file, DONE),
        row("lint", Stdout, RECORDING, &[], "verdict   ", "", with_file, VERDICT),
        row("sensitivity", Stdout, sensitivity, &BUSY, "taken away", "perftax: rounds of", ALL, DONE),
        row(
            "audit",
            Stdout,
            "--quick --runs 1 --only count --source page-faults",
            &[],
            "machine   ",
            "perftax: count",
            ALL,
            VERDICT,
        ),
        // A step that this machine cannot do is over at once.
        row(
            "field-test",
            Stdout,
            &format!("--only calibrate-spe --yes --folder {}", place.path("tested")),
            &[],
            "verdict   ",
            "",
            ALL,
            VERDICT,
        ),
        row("selfcost", Stdout, "--quick --only call", &[], "machine   ", "perftax: 6 rounds of", ALL, DONE),
        row("phase", Stdout, phase, &BUSY, "machine   ", "perftax: one run of", with_file, DONE),
        row("matrix", Stdout, matrix, &BUSY, "marks     ", "perftax: the plan", ALL, VERDICT),
        row("matrix", Stdout, &format!("{matrix} --dry-run"), &BUSY, "precision ±", "", &[File, Json], DONE),
        row("sim", Stderr, "--no-caches", &BRIEF, "instructions on 1 thread", "", ALL, DONE),
        row("sim stat", Stderr, "", &BRIEF, "Performance counter stats", "", ALL, DONE),
        row("comm", Stderr, "--watch counter --budget none", &[&sharing], "true sharing", "", ALL, DONE),
        row("record", Stderr, &format!("-o {}", place.path("perf.data")), &BUSY, "perf report", "perftax: at most", ALL, DONE),
        row("trace record", Summary, &format!("-o {new}"), &[&messages], "", "perftax: 400 marks of 1 threads", &[], DONE),
        row("trace top", Stdout, "--slowest 1", &[&messages], "machine   ", "perftax: ", &[File, Json], DONE),
        row("trace report", Stdout, &trace, &[], "messages  ", "", &[File, Json, Html], DONE),
        row("trace show", Stdout, &format!("{trace} 7"), &[], "message   7", "", &[File, Json], DONE),
        row("trace diff", Stdout, &format!("{trace} {trace}"), &[], "before    ", "", &[File, Json], DONE),
        row("trace join", Stdout, &format!("{trace} {again}"), &[], "second less first", "", &[File, Json, Html], DONE),
        row("trace publish", Stdout, &format!("{trace} --to {fleet}"), &[], "data set  ", "", &[Json], DONE),
        row("dataset add", Stdout, &format!("{fleet} --machine broadwell"), &[], "data set  ", "", &[Json], DONE),
        row("dataset check", Stdout, &fleet, &[], "whole     ", "", &[Json], DONE),
        row("dataset compact", Stdout, &fleet, &[], "compacted ", "", &[Json], DONE),
        row("trace export", Summary, &format!("{trace} --format csv -o -"), &[], "", "200 of 200 messages", &[], DONE),
        // What passes through, vm.rs looks at: to boot the machine takes long.
        row("vm", Summary, "run --cpu nowhere", &["true"], "", "nowhere", &[], &[2]),
        row("report", Stdout, &calibration, &[], "machine   ", "", with_file, DONE),
    ]
}

/// A folder with a profile of this machine, and programs; whose it is, and which perftax is run there.
pub struct Place {
    folder: tempfile::TempDir,
    perftax: PathBuf,
    user: Option<u32>,
}

impl Place {
    /// Ours, with a trace as well.
    fn new() -> Self {
        let place = Self::bare(env!("CARGO_BIN_EXE_perftax").into());
        place.fill();
        let recorded = place.perftax("trace record", &["-o", &place.path("trace"), "--", &place.path("messages")]);
        assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
        let copied = Command::new("cp").arg("-r").args([place.path("trace"), place.path("again")]).status();
        assert!(copied.is_ok_and(|status| status.success()));
        place
    }

    fn bare(perftax: PathBuf) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), perftax, user: None }
    }

    /// Ours, with a profile of this machine and nothing else.
    pub fn bare_with_profile() -> Self {
        let place = Self::bare(env!("CARGO_BIN_EXE_perftax").into());
        place.keep_profile();
        place
    }

    /// The same where other things than a sample have a price, too, ns.
    pub fn bare_with_prices(prices: &[(&str, f64)]) -> Self {
        let place = Self::bare(env!("CARGO_BIN_EXE_perftax").into());
        let price = |ns: f64| json!({"estimate": ns, "low": ns * 0.9, "high": ns * 1.1, "confidence": 0.95});
        let terms: serde_json::Map<String, Value> = prices.iter().map(|(term, ns)| ((*term).to_string(), price(*ns))).collect();
        place.keep_profile_with(&terms.into());
        place
    }

    /// A plain user's, with a perftax that anybody may run: whoever runs the tests, where that is not root.
    pub fn of_a_plain_user() -> Self {
        const USER: u32 = 1000;
        let mut place = Self::bare(PathBuf::new());
        let built = Path::new(env!("CARGO_BIN_EXE_perftax")).parent().unwrap();
        for file in ["perftax", "libperftax_sim_plugin.so"] {
            copy_executable(&built.join(file), Path::new(&place.path(file)));
        }
        place.perftax = place.path("perftax").into();
        place.fill();
        std::fs::copy(RECORDING, place.path("faults.data")).unwrap();
        if is_root() {
            place.user = Some(USER);
            let chown = Command::new("chown").args(["-R", "1000:1000"]).arg(place.folder.path()).status().unwrap();
            assert!(chown.success());
        }
        place
    }

    fn fill(&self) {
        let place = self;
        place.keep_profile();
        // Threads that share a counter, and have it change hands a few times.
        place.build(
            "sharing",
            "#include <pthread.h>\n#include <stdio.h>\nvolatile long counter;\n\
             static void *add(void *x) { for (int i = 0; i < 5; i++) counter++; return x; }\n\
             int main(void) { pthread_t t; puts(\"out\"); fputs(\"err\\n\", stderr); counter = 1;\n\
             for (int i = 0; i < 5; i++) { pthread_create(&t, 0, add, 0); pthread_join(t, 0); counter++; } }\n",
        );
        place.build(
            "messages",
            "#include <stdio.h>\n#include <unistd.h>\n#include \"perftax_tag.h\"\n\
             int main(void) { puts(\"out\"); fputs(\"err\\n\", stderr);\n\
             for (int i = 1; i <= 200; i++) { perftax_begin(i); perftax_identity(i, 1, 1, i); perftax_send(i); usleep(100); perftax_end(i); } }\n",
        );
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().into()
    }

    fn build(&self, name: &str, source: &str) {
        let file = self.path(&format!("{name}.c"));
        std::fs::write(&file, source).unwrap();
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../perftax-tag/include");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-pthread", "-I"]).arg(include).arg("-o").arg(self.path(name)).arg(file);
        assert!(cc.status().unwrap().success());
    }

    /// A made-up calibration of cpu-clock and one of page faults, kept as this machine's own: nothing needs to be calibrated.
    fn keep_profile(&self) {
        self.keep_profile_with(&json!({}));
    }

    fn keep_profile_with(&self, terms: &Value) {
        let doctor = self.perftax("doctor", &["--json", "-"]);
        let doctor: Value = serde_json::from_str(&doctor.stdout).unwrap();
        let (machine, kernel) = (&doctor["machine"], &doctor["kernel"]);
        let calibration = |mechanism: &str, event: &str, alpha: f64| {
            json!({
                "schema": 1, "kind": "calibrate", "perftax": "0.1.0", "kernel": kernel, "taken_at_s": 4e9, "command": [],
                "machine": machine, "mechanism": mechanism, "event": event,
                "alpha_ns": {"estimate": alpha, "low": alpha * 0.95, "high": alpha * 1.05, "confidence": 0.95},
                "floor_ns": null, "samples": 1000, "expected_samples": 1000.0, "lost": 0, "throttled": 0, "terms": terms,
                "linearity": null, "control": null, "witness": null, "drift": 0.02, "sessions": 30, "elapsed_s": 90.0,
                "stopped": "precision", "blocks": []
            })
        };
        let calibrations = [calibration("cpu-clock", "cpu-clock", 5000.0), calibration("software", "page-faults", 300.0)];
        std::fs::write(self.path("calibration.json"), calibrations[0].to_string()).unwrap();
        let profile = json!({"schema": 1, "machine": machine, "kernel": kernel, "calibrations": calibrations});
        let folder = PathBuf::from(self.path("data/perftax/machines"));
        std::fs::create_dir_all(&folder).unwrap();
        let name = format!("{}.json", machine["fingerprint"].as_str().unwrap());
        std::fs::write(folder.join(name), profile.to_string()).unwrap();
    }

    /// A command that is not run yet.
    pub fn command(&self, command: &str, arguments: &[&str]) -> Command {
        let mut perftax = Command::new(&self.perftax);
        perftax.args(command.split_whitespace()).args(arguments).stdin(Stdio::null()).env("XDG_DATA_HOME", self.path("data"));
        perftax
    }

    /// Runs a command without a terminal, and without being told to have no colour.
    pub fn perftax(&self, command: &str, arguments: &[&str]) -> Ran {
        let began = Instant::now();
        loop {
            let mut perftax = Command::new(&self.perftax);
            if let Some(user) = self.user {
                perftax.uid(user).gid(user).env("HOME", self.folder.path()).current_dir(self.folder.path());
            }
            perftax.args(command.split_whitespace()).args(arguments).stdin(Stdio::null()).env("XDG_DATA_HOME", self.path("data"));
            // What others write into the usual one is nobody's business here.
            std::fs::create_dir_all(self.path("temporary")).unwrap();
            perftax.env("TMPDIR", self.path("temporary"));
            let output = perftax.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env("TERM", "xterm").output().unwrap();
            let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
            let is_other = stderr.contains("/perftax-throttle") || is_the_machines_fault(&stderr);
            if !is_other || began.elapsed() > MAX_WAITED {
                return Ran { code: output.status.code(), stdout, stderr };
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// What came of a command.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Whether the machine was too busy for a measurement, again and again: that is said on stderr, and nothing pretends to be a result.
    pub fn is_discarded(&self) -> bool {
        let is_discarded = self.code == Some(1) && is_the_machines_fault(&self.stderr);
        assert!(!is_discarded || self.stdout.is_empty(), "{}", self.stdout);
        is_discarded
    }
}

impl Row {
    /// Runs it in one form, and looks at both streams; false where the machine was too busy for it.
    fn check(&self, place: &Place, form: Form) -> bool {
        let file = place.path("text");
        std::fs::remove_file(&file).ok();
        let options: &[&str] = match form {
            Form::Text => &[],
            File => &["-o", &file],
            Json => &["--json", "-"],
            Html => &["--html", "-"],
            Values => &["-x", ","],
        };
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let ran = place.perftax(self.command, &[options, &arguments].concat());
        if ran.is_discarded() {
            return false;
        }
        let Ran { code, stdout, stderr } = &ran;
        let what = format!("{} {form:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---", self.command);
        assert!(code.is_some_and(|code| self.codes.contains(&code)), "{code:?} of {what}");

        let passes_through = self.text == Text::Stderr || ["trace record", "trace top"].contains(&self.command);
        let ours = match passes_through {
            true => {
                assert!(stderr.contains(ERR), "the program's stderr is gone: {what}");
                stdout.strip_prefix(OUT).unwrap_or_else(|| panic!("the program's stdout is not ours first: {what}"))
            }
            false => {
                assert!(!stderr.contains(ERR) && !stdout.starts_with(OUT), "the program's output is not discarded: {what}");
                stdout
            }
        };
        assert!(!ours.lines().any(|line| line.starts_with("perftax: ")), "progress is on stdout: {what}");
        assert!(!stdout.contains('\x1b') && !stderr.contains('\x1b'), "colour without a terminal: {what}");
        match self.progress {
            // Beside another perftax it waits, and says so.
            "" if self.text == Text::Stdout => {
                let is_of_waiting =
                    |line: &&str| line.contains("another perftax is measuring") || line.contains("the other perftax is done");
                assert_eq!(stderr.lines().find(|line| !is_of_waiting(line)), None, "{what}");
            }
            said => assert!(stderr.contains(said), "'{said}' is not on stderr: {what}"),
        }
        let has_marker = |text: &str| !self.marker.is_empty() && text.contains(self.marker);
        match form {
            Form::Text if self.text == Text::Stdout => {
                assert!(has_marker(ours) && !has_marker(stderr), "the text is to be on stdout: {what}");
            }
            Form::Text if self.text == Text::Stderr => {
                assert!(ours.is_empty() && (self.marker.is_empty() || has_marker(stderr)), "the text is to be on stderr: {what}");
            }
            Form::Text => {}
            File => {
                assert!(ours.is_empty() && !has_marker(stderr), "the text is to be in the file alone: {what}");
                assert!(has_marker(&std::fs::read_to_string(&file).unwrap()), "the text is not in the file: {what}");
            }
            Json => {
                let document: Value = serde_json::from_str(ours).unwrap_or_else(|error| panic!("{error}: {what}"));
                assert!(document["schema"].is_number(), "{what}");
            }
            Html => {
                let page = ours.trim_end().to_ascii_lowercase();
                assert!(page.starts_with("<!doctype html") && page.ends_with("</html>"), "{what}");
                assert_eq!(page.matches("<!doctype html").count(), 1, "{what}");
            }
            Values => {
                let head = ours.lines().next().unwrap_or_default();
                let is_name = |field: &str| !field.is_empty() && !field.contains(' ');
                assert!(head.split(',').count() > 1 && head.split(',').all(is_name), "no names in the first line: {what}");
                assert!(ours.lines().all(|line| line.contains(',')), "{what}");
            }
        }
        let is_beside = self.text == Text::Stderr || form == Form::Text;
        assert!(is_beside || !has_marker(stderr), "the text is on stderr, too: {what}");
        true
    }
}

/// The commands that a help page lists.
fn listed(place: &Place, command: &str) -> Vec<String> {
    let arguments: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
    let help = place.perftax(arguments[0], &arguments[1..]).stdout;
    // Those of perftax itself by groups.
    let commands = help.split_once("Commands:\n").map_or(help.as_str(), |(_, commands)| commands);
    let listed = commands.lines().take_while(|line| *line != "Options:");
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(String::from).collect()
}

#[test]
fn every_result_is_where_it_is_looked_for() {
    let place = Place::new();
    let table = table(&place);
    let has = |name: &str| table.iter().any(|row| row.command == name);
    for command in listed(&place, "") {
        let missing: Vec<String> = match command.as_str() {
            group @ ("trace" | "dataset") => {
                listed(&place, group).into_iter().map(|action| format!("{group} {action}")).filter(|name| !has(name)).collect()
            }
            name => Some(name.to_string()).filter(|name| !has(name)).into_iter().collect(),
        };
        assert!(missing.is_empty(), "{missing:?} have no row in this test's table: what do they write where?");
    }
    let (mut looked_at_all, mut forms_of_all) = (0, 0);
    for row in &table {
        let began = Instant::now();
        let forms = std::iter::once(Form::Text).chain(row.forms.iter().copied());
        // A machine that is too busy for one form is so for the others, too.
        let looked_at = forms.take_while(|form| row.check(&place, *form)).count();
        // What measures a program in a second, and calibrates nothing, is never too much.
        assert!(looked_at > 0 || !["plan", "predict", "comm", "trace record"].contains(&row.command), "{}", row.command);
        looked_at_all += looked_at;
        forms_of_all += row.forms.len() + 1;
        println!("{:<14} {looked_at} of {} forms, {:.1} s", row.command, row.forms.len() + 1, began.elapsed().as_secs_f64());
    }
    assert!(looked_at_all * 2 > forms_of_all, "{looked_at_all} of {forms_of_all}");
}

/// `plan | less` has colour where the pipe's other end wants none: what counts is stdout, not whether stderr is a terminal.
#[test]
fn what_is_piped_from_a_terminal_has_no_colour() {
    let place = Place::new();
    let perftax = env!("CARGO_BIN_EXE_perftax");
    let piped = format!("env -u NO_COLOR TERM=xterm {perftax} list page-faults | cat");
    let script = Command::new("script").args(["-qec", &piped, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(script.stdout).unwrap();
    assert!(text.contains("Software events") && !text.contains('\x1b'), "{text:?}");
    let direct = format!("env -u NO_COLOR TERM=xterm {perftax} list page-faults");
    let script = Command::new("script").args(["-qec", &direct, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
    assert!(script.stdout.contains(&0x1b), "a terminal has colour: {:?}", String::from_utf8_lossy(&script.stdout));
    drop(place);
}
