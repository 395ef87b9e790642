//! Programs as people have them: whatever a program is, and wherever it stands, its CPU time is what its own clock says.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use perftax_doc::Prediction;

use crate::common::{copy_executable, is_root, said};

/// CPU time that each program uses by its own clock, s.
const USED_S: f64 = 0.12;

/// Predicts with somebody else's costs: nothing is calibrated here.
fn predict(before: &[&str], options: &[&str], program: &[&str]) -> Output {
    predict_with("predict", before, &[&["-c", "1000003"], options].concat(), program)
}

fn predict_with(name: &str, before: &[&str], options: &[&str], program: &[&str]) -> Output {
    let costs = [name, "--machine", "broadwell", "-e", "UOPS_RETIRED.ALL", "--count-of", "1e8", "-r", "2"];
    let words: Vec<&str> = before.iter().copied().chain([env!("CARGO_BIN_EXE_perftax")]).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(costs).args(options).arg("--").args(program);
    command.env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap()
}

/// Folder with a name that has spaces, and in it what is run.
struct Place {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a  folder (of programs)");
        std::fs::create_dir(&path).unwrap();
        Self { _folder: folder, path }
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> String {
        let path = self.path.join(name);
        let written = path.with_extension("written");
        std::fs::write(&written, text).unwrap();
        copy_executable(&written, &path);
        std::fs::remove_file(written).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().into()
    }

    fn compiled(&self, name: &str, options: &[&str]) -> String {
        let source = self.write(
            "burn.c",
            "#include <time.h>\nint main(void) { while (clock() < CLOCKS_PER_SEC * 12 / 100) ; return 0; }\n",
            0o644,
        );
        let program = self.path.join(name);
        let status = Command::new("cc").args(["-O1"]).args(options).arg("-o").arg(&program).arg(source).status().unwrap();
        assert!(status.success());
        program.to_str().unwrap().into()
    }
}

/// What a prediction measured; `created`: threads and processes besides the first.
fn check(name: &str, output: &Output, created: u64) {
    assert_eq!(output.status.code(), Some(0), "{name}: {}", said(output));
    let prediction: Prediction = serde_json::from_slice(&output.stdout).unwrap();
    let workload = &prediction.workload;
    // Beside a start-up: what an interpreter takes of that is a fraction of a second.
    let cpu_s = workload.cpu_s.estimate;
    assert!((USED_S * 0.95..USED_S + 1.0).contains(&cpu_s), "{name}: {cpu_s}");
    assert!(workload.tasks.as_ref().unwrap().created() >= created, "{name}: {:?}", workload.tasks);
}

/// Asking for the time takes some, too, and of the kernel's mode.
const PERL: &str = "do { my $i = 0; $i++ while $i < 1e4 } while times < 0.12";

#[test]
fn a_program_is_measured_whatever_it_is() {
    let place = Place::new();
    let burn = place.compiled("burn it", &[]);
    let still = place.compiled("static", &["-static", "-s"]);
    let script = place.write("a script", &format!("#!/bin/sh\nexec perl -e '{PERL}'\n"), 0o755);
    // The shell runs what execve(2) refuses for want of a first line, and so does whoever starts it (execvp(3)).
    let bare = place.write("no first line", &format!("exec perl -e '{PERL}'\n"), 0o755);
    let pipeline = format!("perl -e '{PERL}' | cat");
    let python = "import time\nwhile time.process_time() < 0.12: pass";
    let node = "while (process.cpuUsage().user < 120000) ;";
    let programs: [(&str, &[&str], u64); 8] = [
        ("with spaces", &[&burn], 0),
        ("static and stripped", &[&still], 0),
        ("script", &[&script], 0),
        ("script without a first line", &[&bare], 0),
        ("pipeline", &["sh", "-c", &pipeline], 2),
        ("Python", &["python3", "-c", python], 0),
        ("Node", &["node", "-e", node], 4),
        ("one that comes after another", &["nice", "-n", "19", &burn], 0),
    ];
    for (name, program, created) in programs {
        check(name, &predict(&[], &["--json", "-"], program), created);
    }
    // What has no right to be executed is not.
    let closed = place.write("closed", "#!/bin/sh\n", 0o644);
    let refused = predict(&[], &[], &[&closed]);
    assert!(refused.status.code() == Some(126) && said(&refused).contains("chmod +x"), "{}", said(&refused));
}

/// The same of languages with a runtime of their own, whose compilers take their time.
#[test]
#[ignore = "half a minute, and needs go and a JDK: part of make acceptance"]
fn so_are_go_and_java() {
    let place = Place::new();
    place.write(
        "burn.go",
        "package main\nimport (\"syscall\"; \"time\")\nfunc main() {\n  go func() { for { time.Sleep(time.Millisecond) } }()\n  var u syscall.Rusage\n  \
         for syscall.Getrusage(0, &u); u.Utime.Nano() < 120e6; syscall.Getrusage(0, &u) {\n    for i := 0; i < 10000; i++ { sink += i }\n  }\n}\nvar sink int\n",
        0o644,
    );
    place.write(
        "Burn.java",
        "public class Burn { static long sink; public static void main(String[] words) throws Exception {\n  \
         Thread other = new Thread(() -> { for (int i = 0; i < 1000; i++) sink += i; }); other.start(); other.join();\n  \
         var threads = java.lang.management.ManagementFactory.getThreadMXBean();\n  \
         while (threads.getCurrentThreadCpuTime() < 120_000_000L) for (int i = 0; i < 10000; i++) sink += i;\n} }\n",
        0o644,
    );
    let built = |command: &str, arguments: &[&str]| {
        let status = Command::new(command).args(arguments).current_dir(&place.path).status();
        assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "{command}: {status:?}");
    };
    built("go", &["build", "-o", "burn", "burn.go"]);
    built("javac", &["Burn.java"]);
    let go = place.path.join("burn").display().to_string();
    check("Go", &predict(&[], &["--json", "-"], &[&go]), 1);
    check("Java", &predict(&[], &["--json", "-"], &["java", "-cp", place.path.to_str().unwrap(), "Burn"]), 5);
}

#[test]
fn so_it_is_wherever_perftax_stands() {
    let burn = Place::new();
    let burn = burn.compiled("burn", &[]);
    let burn: &[&str] = &[&burn];
    for before in [
        &["taskset", "-c", "0"][..],
        &["nice", "-n", "19"],
        &["env", "-i", "PATH=/usr/bin:/bin", "LANG=C"],
        &["env", "TERM=dumb", "COLUMNS=40"],
    ] {
        check(&before.join(" "), &predict(before, &["--json", "-"], burn), 0);
    }
    // Beside somebody who records all that runs.
    if is_root() {
        let perf = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-o", "/dev/null", "--"];
        check("beside perf record -a", &predict(&perf, &["--json", "-"], burn), 0);
    }
    // In a mount namespace where the program stands elsewhere.
    let elsewhere = tempfile::tempdir().unwrap();
    let at = elsewhere.path().join("mounted");
    std::fs::create_dir(&at).unwrap();
    if is_root() {
        let script =
            format!("mount --bind '{}' '{}' && exec \"$@\"", Path::new(burn[0]).parent().unwrap().display(), at.display());
        let program = at.join("burn").display().to_string();
        check("mounted", &predict(&["unshare", "-m", "sh", "-c", &script, "sh"], &["--json", "-"], &[&program]), 0);
    }
}

/// Where nothing can be written, nothing is lost but that: it is said, with the file.
#[test]
fn what_cannot_be_written_is_said() {
    let place = Place::new();
    let burn = place.compiled("burn", &[]);
    for (options, named) in [
        (["-o", "/dev/full"], "/dev/full"),
        (["--json", "/proc/no.json"], "/proc/no.json"),
        (["--html", "/no/page.html"], "/no/page.html"),
    ] {
        let output = predict(&[], &options, &[&burn]);
        assert!(output.status.code() == Some(1) && said(&output).contains(named), "{:?} {}", output.status, said(&output));
    }
    // Whoever closes the pipe has seen enough.
    let script = "\"$@\" | head -n 1; echo \"${PIPESTATUS[0]}\"; \"$@\" >/dev/full; echo $?";
    let mut command = Command::new("bash");
    command.args([
        "-c",
        script,
        "bash",
        env!("CARGO_BIN_EXE_perftax"),
        "predict",
        "--machine",
        "broadwell",
        "-e",
        "UOPS_RETIRED.ALL",
    ]);
    command.args(["--count-of", "1e8", "-r", "2", "--", &burn]).env("NO_COLOR", "1").stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines.len() == 3 && lines[0].starts_with("machine") && lines[1] == "0" && lines[2] == "1",
        "{text} {}",
        said(&output)
    );
    assert!(said(&output).contains("cannot write stdout"), "{}", said(&output));
}

/// Names of what is in a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// `cd` to a folder, with another for what is temporary.
fn standing_in<'a>(folder: &'a str, temporary: &'a str) -> [&'a str; 4] {
    ["env", "-C", folder, temporary]
}

/// A program that leaves a file of another name in each run is noticed; in copies of the folder it leaves nothing.
#[test]
fn what_runs_leave_is_told_of_or_goes() {
    let place = Place::new();
    let (here, temporary) = (place.path.join("here"), place.path.join("tmp"));
    std::fs::create_dir(&here).unwrap();
    std::fs::create_dir(&temporary).unwrap();
    let folder = here.to_str().unwrap();
    let set = format!("TMPDIR={}", temporary.display());
    place.write("here/input", "something", 0o600);
    let script = format!("test -s input && head -c 70000 /dev/zero >out.$$ && : >\"$TMPDIR/mine.$$\" && exec perl -e '{PERL}'");
    let program = ["sh", "-c", &script];

    let left = predict(&standing_in(folder, &set), &["--json", "-"], &program);
    check("leaves files", &left, 0);
    assert!(said(&left).contains("leaves new files") && said(&left).contains("/out."), "{}", said(&left));
    assert_eq!(said(&left).matches("leaves new files").count(), 1, "{}", said(&left));
    let prediction: Prediction = serde_json::from_slice(&left.stdout).unwrap();
    let warned = serde_json::to_string(&prediction.origin.warnings).unwrap();
    assert!(warned.contains("KiB a run, and 4 runs") && warned.contains("--scratch"), "{warned}");
    assert_eq!((names(&here).len(), names(&temporary).len()), (5, 4));

    for folder in [&here, &temporary] {
        for name in names(folder).into_iter().filter(|name| name != "input") {
            std::fs::remove_file(folder.join(name)).unwrap();
        }
    }
    let copied = predict(&standing_in(folder, &set), &["--scratch", "--json", "-"], &program);
    check("in copies", &copied, 0);
    assert!(said(&copied).contains("(1 file, 1 KiB copied for each)") && !said(&copied).contains("leaves"), "{}", said(&copied));
    assert_eq!((names(&here), names(&temporary).len()), (vec!["input".to_string()], 0));

    // A probe on a file that is copied would never be hit, and would cost nothing.
    let burn = place.compiled("here/burn", &[]);
    let own = ["--work", "uprobe:./burn:main"];
    let refused = predict_with("plan", &standing_in(folder, &set), &[&own[..], &["--scratch"]].concat(), &[&burn]);
    assert!(refused.status.code() == Some(2) && said(&refused).contains("outside"), "{:?} {}", refused.status, said(&refused));
}

/// A server in a copy of its folder, which says when it is ready; its load finds what it has written there.
#[test]
fn a_server_runs_in_a_copy() {
    let place = Place::new();
    let here = place.path.join("here");
    std::fs::create_dir(&here).unwrap();
    let served = place.path.join("served").display().to_string();
    let server = "open my $f, '>', 'started'; print STDERR \"listening on $$\\n\"; my $i = 0; 1 while 1e7 > $i++; sleep 1000";
    let load = format!("test -e started && echo x >>'{served}'; sleep 0.2");
    let options = ["--scratch", "--load", &load, "--ready", "^listening on [0-9]+", "--json", "-"];
    let measured = predict(&standing_in(here.to_str().unwrap(), "A=b"), &options, &["perl", "-e", server]);
    assert_eq!(measured.status.code(), Some(0), "{}", said(&measured));
    assert_eq!(std::fs::read_to_string(&served).unwrap().lines().count(), 4, "{}", said(&measured));
    assert!(names(&here).is_empty());
}

#[test]
fn a_frequency_is_the_period_that_gives_it_in_this_program() {
    let place = Place::new();
    let burn = place.compiled("burn", &[]);
    let output = predict_with("predict", &[], &["-F", "1000,100", "--json", "-", "-o", "/dev/null"], &[&burn]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let prediction: Prediction = serde_json::from_slice(&output.stdout).unwrap();
    let cpu_s = prediction.workload.cpu_s.estimate;
    let periods: Vec<u64> = prediction.rows.iter().map(|row| row.period).collect();
    let expected = [1000.0, 100.0].map(|hz| (1e8 / cpu_s / hz).round() as u64);
    assert_eq!(periods, expected, "{cpu_s} s");
    let both = predict_with("predict", &[], &["-F", "1000", "-c", "1000003"], &[&burn]);
    assert_eq!(both.status.code(), Some(2), "{}", said(&both));
    let none = predict_with("predict", &[], &["-F", "0"], &[&burn]);
    assert_eq!(none.status.code(), Some(2), "{}", said(&none));
}
