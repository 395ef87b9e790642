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
