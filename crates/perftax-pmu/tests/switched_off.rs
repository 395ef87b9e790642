//! A thread that an event keeps between its signal's handler and the kernel gets out when another thread switches all events off.
//! Alone in its process: nothing can be switched on afterwards.

#![allow(clippy::unwrap_used)] // tests may

use std::sync::mpsc::channel;
use std::time::Duration;

use perftax_pmu::Error;
use perftax_pmu::event::{Catalog, parse};
use perftax_pmu::sampler::{LiveSampler, Sampler, Sampling, Wakeup};
use perftax_pmu::sys::{Target, disable_open_events};

const RING_PAGES: usize = 8;
/// Far longer than the work takes, and than a busy machine makes of it.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_thread_that_is_caught_by_its_own_event_gets_out() {
    let catalog = Catalog::of_this_machine();
    let event = match parse("raw_syscalls:sys_enter", &catalog) {
        Ok(mut events) => events.remove(0),
        Err(error) if !rustix::process::geteuid().is_root() => return eprintln!("not tried, as a plain user: {error}"),
        Err(error) => panic!("{error}"),
    };
    let sampling = Sampling { wakeup: Wakeup::EverySample, ..Sampling::every(1, RING_PAGES * rustix::param::page_size()) };
    let (tell, told) = channel();
    let again = event.clone();
    let caught = std::thread::spawn(move || {
        let mut sampler = LiveSampler::open(&[(event, sampling)], &[Target::ThisThread], RING_PAGES).unwrap();
        sampler.events()[0].deliver_signal(libc::SIGIO).unwrap();
        tell.send("opened").unwrap();
        // The return from the handler is a system call, which is a sample, which is a signal.
        sampler.enable().unwrap();
        std::hint::black_box(rustix::process::getppid());
        tell.send("got out").unwrap();
    });
    assert_eq!(told.recv_timeout(LONG), Ok("opened"));
    assert!(told.recv_timeout(Duration::from_millis(500)).is_err(), "it was not caught: this test shows nothing");
    for _ in 0..20 {
        disable_open_events();
        if told.recv_timeout(LONG / 20) == Ok("got out") {
            caught.join().unwrap();
            let refused = LiveSampler::open(&[(again, sampling)], &[Target::ThisThread], RING_PAGES).err().unwrap();
            return assert!(matches!(refused, Error::Discarded { .. }), "{refused}");
        }
    }
    panic!("it is still caught");
}
