//! `perftax sim stat`: counts are the same as another user, in another folder, with another environment; one instruction is found in its function.
//! Needs qemu-user and the plugin; `make test` sees to both.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{copy_executable, is_root};

/// A program that asks for all that differs from run to run, and works by it: chance, the clock, its own name, the machine, threads that hand over to
/// each other. `hash` is where one instruction more stands.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn;
static volatile unsigned sum;
__attribute__((noinline)) static void hash(const char *text) {
    for (; *text; text++) sum = (sum ^ (unsigned char)*text) * 16777619u;
#ifdef ONE_MORE
    __asm__ volatile("nop");
#endif
}
__attribute__((noinline)) static void work(unsigned long n) { for (n %= 5000; n; n--) sum += n; }
static void *other(void *which) {
    struct timespec pause = {0, 200000};
    for (int i = 0; i < 50; i++) {
        pthread_mutex_lock(&lock);
        while (turn != (int)(long)which) pthread_cond_wait(&turned, &lock);
        turn = !turn;
        pthread_cond_signal(&turned);
        pthread_mutex_unlock(&lock);
        if (i % 10 == 0) nanosleep(&pause, 0);
    }
    return 0;
}
int main(int argc, char **argv) {
    unsigned long chance;
    struct timespec now;
    struct utsname name;
    struct rlimit limit;
    cpu_set_t cpus;
    char text[300];
    getrandom(&chance, sizeof chance, 0); work(chance);
    FILE *file = fopen("/dev/urandom", "r"); fread(&chance, sizeof chance, 1, file); fclose(file); work(chance);
    clock_gettime(CLOCK_REALTIME, &now); work(now.tv_nsec); work(now.tv_sec);
    sched_getaffinity(0, sizeof cpus, &cpus); work(CPU_COUNT(&cpus)); for (int i = 0; i < 64; i++) if (CPU_ISSET(i, &cpus)) work(i);
    uname(&name); hash(name.nodename); hash(name.release);
    getrlimit(RLIMIT_NOFILE, &limit); work(limit.rlim_cur);
    ssize_t n = readlink("/proc/self/exe", text, sizeof text - 1); work(n > 0 ? n : 0);
    hash(argv[0]); work((unsigned long)&argc); for (char **e = environ; *e; e++) hash(*e);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, other, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("%u\n", sum);
    return 0;
}
"#;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn build(&self, name: &str, options: &[&str]) -> PathBuf {
        std::fs::write(self.at("prog.c"), SOURCE).unwrap();
        std::fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-pthread", "-w", "-o"]).arg(self.at(name)).args(options).arg(self.at("prog.c"));
        assert!(cc.status().unwrap().success());
        self.at(name)
    }
}

fn perftax() -> Command {
    let mut perftax = Command::new(env!("CARGO_BIN_EXE_perftax"));
    perftax.env("NO_COLOR", "1");
    perftax
}

fn run(command: &mut Command, code: i32) -> Output {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Events and functions of a result, and what the program wrote.
fn counted(command: &mut Command, program: &Path) -> (Value, Value, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stat.json");
    if is_root() {
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    let output = run(
        command.args(["sim", "stat", "-e", "instructions:u,branches:u,loads:u", "--json"]).arg(&file).arg("--").arg(program),
        0,
    );
    let mut stat: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(stat["warnings"], serde_json::json!([]), "nothing is left to chance");
    (stat["counts"].take(), stat["functions"].take(), output.stdout)
}

#[test]
fn counts_are_the_same_elsewhere_and_as_somebody_else() {
    let place = Place::new();
    let program = place.build("prog", &[]);
    let here = counted(&mut perftax(), &program);
    assert_eq!(counted(&mut perftax(), &program), here, "again");
    let elsewhere = place.at("a/rather/long/way/from/where/it/was/built/prog");
    std::fs::create_dir_all(elsewhere.parent().unwrap()).unwrap();
    copy_executable(&program, &elsewhere);
    let mut other = perftax();
    other
        .current_dir("/")
        .env("LC_ALL", "de_DE.UTF-8")
        .env("LANG", "tr_TR")
        .env("TZ", "Asia/Tokyo")
        .env("HOME", "/nowhere")
        .env("X", "y".repeat(999));
    assert_eq!(counted(&mut other, &elsewhere), here, "in another folder, with another environment");
    if is_root() {
        let built = Path::new(env!("CARGO_BIN_EXE_perftax")).parent().unwrap();
        for file in ["perftax", "libperftax_sim_plugin.so"] {
            copy_executable(&built.join(file), &place.at(file));
        }
        std::fs::set_permissions(place.0.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut user = Command::new(place.at("perftax"));
        user.uid(1000).gid(1000).env("HOME", "/").env_remove("XDG_RUNTIME_DIR");
        assert_eq!(counted(&mut user, &program), here, "as another user");
    }
}

#[test]
fn one_instruction_is_a_verdict_and_its_function_is_named() {
    let place = Place::new();
    let (before, after) = (place.build("before/prog", &[]), place.build("after/prog", &["-DONE_MORE"]));
    let baseline = place.at("baseline.json");
    let stat = |options: &[&str], program: &Path, code| {
        run(perftax().args(["sim", "stat", "-r", "2"]).args(options).arg("--").arg(program), code)
    };
    let file = baseline.to_str().unwrap();
    let missing = stderr(&stat(&["--baseline", file], &before, 2));
    assert!(missing.contains("--write-baseline") && !baseline.exists(), "{missing}");
    let written = stderr(&stat(&["--write-baseline", file], &before, 0));
    assert!(written.contains(&format!("perftax sim stat --baseline {file} -- ")), "{written}");
    let same = stderr(&stat(&["--baseline", file], &before, 0));
    assert!(same.contains("as in ") && same.contains("of the same program to the byte"), "{same}");
    let other = stderr(&stat(&["--baseline", file, "-x", ","], &after, 4));
    assert!(other.is_empty(), "{other}");
    let report = place.at("report.json");
    let other = stderr(&stat(&["--baseline", file, "--json", report.to_str().unwrap()], &after, 4));
    let comparison: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let functions = comparison["comparison"]["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 1, "{functions:?}");
    let (was, is) = (functions[0]["before"].as_i64().unwrap(), functions[0]["now"].as_i64().unwrap());
    let times = is - was;
    assert!(functions[0]["function"] == "hash" && times > 3, "{functions:?}");
    // One instruction, as often as the function is called.
    let counts = &comparison["comparison"]["counts"][0];
    assert_eq!(counts["now"].as_f64().unwrap() - counts["before"].as_f64().unwrap(), times as f64);
    assert!(other.contains("not as in ") && other.contains(&format!("+{times} ")) && other.contains("hash"), "{other}");
    stat(&["--baseline", file, "--tolerance", "10%"], &after, 0);

    let refused = stderr(&stat(&["--baseline", file, "--seed", "2"], &before, 2));
    assert!(refused.contains("the seed was 1, and is 2") && refused.contains("--write-baseline"), "{refused}");
    let refused = stderr(&stat(&["--baseline", file, "--env", "A=1"], &before, 2));
    assert!(refused.contains("the environment was"), "{refused}");
    std::fs::write(&baseline, "{}").unwrap();
    let refused = stderr(&stat(&["--baseline", file], &before, 2));
    assert!(refused.contains("what --write-baseline has written"), "{refused}");
}

#[test]
fn what_cannot_be_counted_is_said_and_a_programs_code_is_ours() {
    for (event, words) in [
        ("instructions:k", "perftax vm stat"),
        ("instructions:pp", "user mode alone"),
        ("cache-misses:u", "what the instructions themselves tell"),
        ("frobs", "does not count frobs"),
    ] {
        let said = stderr(&run(perftax().args(["sim", "stat", "-e", event, "--", "true"]), 2));
        assert!(said.contains(words), "{event}: {said}");
    }
    let code = run(perftax().args(["sim", "stat", "--", "sh", "-c", "echo out; exit 7"]), 7);
    assert_eq!(code.stdout, b"out\n");
    let lines = stderr(&run(perftax().args(["sim", "stat", "-j", "--", "true"]), 0));
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["event"]), (2, &"instructions:u".into()));
    assert!(lines[0]["counter-value"].as_str().unwrap().parse::<f64>().unwrap() > 1000.0);
    let forked = stderr(&run(perftax().args(["sim", "stat", "--", "sh", "-c", "true | true"]), 0));
    assert!(forked.contains("the program forked"), "{forked}");
}
