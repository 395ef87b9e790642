//! Programs as people have them: whatever a program is, and wherever it stands, its CPU time is what its own clock says.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use perftax_cost::document::Prediction;

use crate::common::{is_root, said};

/// CPU time that each program uses by its own clock, s.
const USED_S: f64 = 0.12;

/// Predicts with somebody else's costs: nothing is calibrated here.
fn predict(before: &[&str], options: &[&str], program: &[&str]) -> Output {
    let costs = ["predict", "--machine", "broadwell", "-e", "UOPS_RETIRED.ALL", "--count-of", "1e8", "-r", "2", "-c", "1000003"];
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
        std::fs::write(&path, text).unwrap();
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
