//! The loop around a program that is looked at: until it ends, or the time is over, or somebody interrupts us.

use std::time::{Duration, Instant};

use perftax_pmu::Result;
use perftax_pmu::guard::{check_interrupted, take_interrupt_as_end};

use crate::Program;

/// How long a program that was told to end may take.
const GRACE: Duration = Duration::from_secs(1);

/// Who looks at a program.
pub trait Watch {
    /// The time is over, whatever the program does. It is still looked at: what came before is taken.
    ///
    /// # Errors
    /// Where the kernel refuses.
    fn stop(&mut self) -> Result<()>;

    /// Whether it was told so.
    fn is_stopped(&self) -> bool;

    /// Whether there is nothing more to be seen, though the program goes on.
    fn is_done(&self) -> bool {
        false
    }

    /// The CPU time that the program has used so far can be asked for now.
    fn ask(&mut self, _program: &mut Program) {}

    /// Takes what has come.
    ///
    /// # Errors
    /// Where the rings cannot be read, or nothing can be kept: the program is killed then where it is ours.
    fn look(&mut self) -> Result<()>;

    /// Does what is due, and waits for what may come.
    ///
    /// # Errors
    /// Where the kernel refuses.
    fn wait(&mut self) -> Result<()>;
}

/// Looks at a program to its end, or for so long at most: a command goes on by itself then, a process of somebody else's is left. Whoever interrupts us wants the
/// program to end, and what was seen.
///
/// # Errors
/// What looking meets.
pub fn run_loop(program: &mut Program, at_most: Option<Duration>, watch: &mut impl Watch) -> Result<()> {
    let began = Instant::now();
    let mut told_to_end: Option<Instant> = None;
    loop {
        let is_over = watch.is_done() || at_most.is_some_and(|at_most| began.elapsed() >= at_most);
        if is_over && !watch.is_stopped() {
            watch.stop()?;
            program.leave();
        }
        if check_interrupted().is_err() {
            take_interrupt_as_end();
            match told_to_end {
                None => program.stop(),
                Some(since) if since.elapsed() > GRACE => program.kill(),
                Some(_) => {}
            }
            told_to_end.get_or_insert_with(Instant::now);
        }
        // Asked before looking: what is written after its end is nobody's.
        let last = program.has_ended();
        if !watch.is_stopped() {
            watch.ask(program);
        }
        if let Err(error) = watch.look() {
            program.kill();
            return Err(error);
        }
        if last {
            return Ok(());
        }
        watch.wait()?;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::Subject;
    use perftax_pmu::Error;
    use perftax_pmu::sys::Ended;
    use std::ffi::OsString;

    /// Counts what it is asked, and fails at a look.
    #[derive(Default)]
    struct Counting {
        looks: u32,
        asked: u32,
        stopped: u32,
        fails_at: Option<u32>,
    }

    impl Watch for Counting {
        fn stop(&mut self) -> Result<()> {
            self.stopped += 1;
            Ok(())
        }

        fn is_stopped(&self) -> bool {
            self.stopped > 0
        }

        fn ask(&mut self, program: &mut Program) {
            self.asked += u32::from(program.pid() > 0);
        }

        fn look(&mut self) -> Result<()> {
            self.looks += 1;
            match self.fails_at {
                Some(at) if at == self.looks => {
                    Err(Error::Argument { argument: "", value: String::new(), needed: String::new() })
                }
                _ => Ok(()),
            }
        }

        fn wait(&mut self) -> Result<()> {
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        }
    }

    fn started(command: &str) -> Program {
        let argv = ["sh", "-c", command].map(OsString::from).to_vec();
        let mut program = Program::open(&Subject::Command(argv), Vec::new()).unwrap();
        program.release().unwrap();
        program
    }

    #[test]
    fn a_command_is_looked_at_to_its_end_and_once_more() {
        let (mut program, mut watch) = (started("exit 7"), Counting::default());
        run_loop(&mut program, None, &mut watch).unwrap();
        assert_eq!((watch.looks, watch.stopped), (watch.asked, 0));
        assert!(watch.looks >= 1);
        assert_eq!(program.finish().unwrap().ended, Ended::Code(7));
    }

    #[test]
    fn a_command_goes_on_when_the_time_is_over_and_a_process_is_left() {
        let (mut program, mut watch) = (started("sleep 0.2"), Counting::default());
        run_loop(&mut program, Some(Duration::ZERO), &mut watch).unwrap();
        assert_eq!((watch.asked, watch.stopped), (0, 1));
        assert!(watch.looks > 1, "it is looked at to its end");
        assert_eq!(program.finish().unwrap().ended, Ended::Code(0));
        let mut sleep = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (mut joined, mut watch) = (Program::open(&Subject::process(sleep.id()), Vec::new()).unwrap(), Counting::default());
        run_loop(&mut joined, Some(Duration::ZERO), &mut watch).unwrap();
        assert_eq!((watch.looks, watch.stopped), (1, 1));
        sleep.kill().unwrap();
        sleep.wait().unwrap();
    }

    #[test]
    fn a_program_of_which_nothing_can_be_taken_is_killed() {
        let (mut program, mut watch) = (started("sleep 60"), Counting { fails_at: Some(2), ..Counting::default() });
        run_loop(&mut program, None, &mut watch).unwrap_err();
        assert_eq!(watch.looks, 2);
        assert!(matches!(program.finish().unwrap().ended, Ended::Signal(SIGKILL)));
    }

    /// signal(7).
    const SIGKILL: i32 = 9;
}
