//! `perftax vm stat`: counts repeat to the instruction, threads and timers included, and one instruction more is found in its function.

use std::path::Path;
use std::process::{Command, Output};

use crate::common;

/// Threads that hand over to each other by time and by locks, and a function that gets one instruction more.
const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <time.h>
static volatile unsigned sum;
__attribute__((noinline)) static void step(void) {
    sum = sum * 16777619u + 1;
#ifdef ONE_MORE
    __asm__ volatile("nop");
#endif
}
static void *work(void *x) {
    struct timespec pause = {0, 100000};
    for (int i = 0; i < 20000; i++) { step(); if (i % 5000 == 0) nanosleep(&pause, 0); }
    return x;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    puts("done");
}
"#;

fn build(folder: &Path, options: &[&str]) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("prog.c"), SOURCE).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-pthread", "-o"]).arg(folder.join("prog")).args(options).arg(folder.join("prog.c"));
    assert!(cc.status().unwrap().success());
}

fn stat(share: &Path, options: &[&str]) -> Output {
    let mut perftax = Command::new(common::perftax());
    perftax.args(["vm", "stat", "--append", "nopti", "--share"]).arg(share).args(options).args(["--", "./prog"]);
    perftax.env("NO_COLOR", "1").output().unwrap()
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

#[test]
fn counts_repeat_and_a_change_is_found_in_its_function() {
    let place = tempfile::tempdir().unwrap();
    let (before, after) = (place.path().join("before"), place.path().join("a/longer/way/after"));
    build(&before, &[]);
    build(&after, &["-DONE_MORE"]);
    let baseline = place.path().join("baseline.json");
    let file = baseline.to_str().unwrap();
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let written = stat(&before, &["-r", "2", "--write-baseline", file]);
    assert_eq!((written.status.code(), written.stdout.as_slice()), (Some(0), b"done\n".as_slice()), "{}", said(&written));
    assert!(said(&written).contains("2 runs, all alike"), "{}", said(&written));
    let elsewhere = place.path().join("elsewhere/prog");
    std::fs::create_dir_all(elsewhere.parent().unwrap()).unwrap();
    std::fs::copy(before.join("prog"), &elsewhere).unwrap();
    let same = stat(elsewhere.parent().unwrap(), &["--no-functions", "--baseline", file]);
    assert_eq!(same.status.code(), Some(0), "{}", said(&same));
    let other = stat(&after, &["--baseline", file]);
    assert_eq!(other.status.code(), Some(4), "{}", said(&other));
    let text = said(&other);
    // By 40,000 calls; the kernel's share of user time is none.
    assert!(text.contains("+40,000") && text.contains(" step "), "{text}");
}

/// Of whoever asks, wherever: owners, names of users, folders, locales and environments of this machine do not get into the other.
#[test]
fn counts_are_the_same_whoever_asks_and_from_where() {
    let place = tempfile::tempdir().unwrap();
    let (here, elsewhere) = (place.path().join("here"), place.path().join("a/longer/way/there"));
    build(&here, &[]);
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::copy(here.join("prog"), elsewhere.join("prog")).unwrap();
    std::fs::write(elsewhere.join("beside"), "x".repeat(100_000)).unwrap();
    let baseline = place.path().join("baseline.json");
    let written = stat(&here, &["--no-functions", "--write-baseline", baseline.to_str().unwrap()]);
    assert_eq!(written.status.code(), Some(0), "{}", String::from_utf8_lossy(&written.stderr));
    // A user that may read the machine where it was built, and nothing else of root's.
    let mut other = match is_root() {
        true => {
            let mut setpriv = Command::new("setpriv");
            let capabilities = "+dac_override,+dac_read_search";
            setpriv.args(["--reuid=1000", "--regid=1000", "--clear-groups"]);
            setpriv.args(["--inh-caps", capabilities, "--ambient-caps", capabilities, "--"]).arg(common::perftax());
            setpriv
        }
        false => Command::new(common::perftax()),
    };
    let cache = perftax_vm::cache_folder();
    let caches = cache.ancestors().nth(2).unwrap();
    other.args(["vm", "stat", "--append", "nopti", "--no-functions", "-r", "2", "--baseline"]).arg(&baseline);
    other.args(["--share", "longer/way/there", "--", "./prog"]).current_dir(place.path().join("a"));
    other.env("XDG_CACHE_HOME", caches).env("HOME", "/").env("USER", "somebody-else").env("LC_ALL", "tr_TR.UTF-8");
    other.env("LANG", "tr_TR.UTF-8").env("TZ", "Asia/Tokyo").env("MORE", "x".repeat(3000)).env("NO_COLOR", "1");
    let same = other.output().unwrap();
    let said = String::from_utf8_lossy(&same.stderr);
    assert!(same.status.code() == Some(0) && said.contains("2 runs, all alike"), "{said}");
}
