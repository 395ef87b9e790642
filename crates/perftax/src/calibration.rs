//! Calibrations, with a bar.

use anyhow::Result;
use perftax_lab::calibrate::{Campaign, Goal, Outcome, Spec};
use perftax_pmu::Error;
use perftax_pmu::guard::check_interrupted;
use perftax_pmu::process::tracer;

use crate::progress::Progress;

/// Runs a campaign to its end, with a bar.
///
/// # Errors
/// What the campaign meets; where somebody traces us, whose prices would be the tracer's.
pub fn run(spec: &Spec, goal: Goal, seed: u64) -> Result<Outcome> {
    if let Some((pid, name)) = tracer() {
        return Err(Error::Unsupported {
            what: "measure what sampling costs".into(),
            why: format!("process {pid} ({name}) traces perftax: each of its system calls, and each program executed, takes many times as long"),
            remedy: "run it without strace, gdb and the like; what is measured then serves under them, too".into(),
        }
        .into());
    }
    let mut campaign = Campaign::start(spec, goal, seed)?;
    let bar = Progress::new("calibrating", goal.time_limit.as_millis() as u64);
    let mut foreseen = false;
    let stopped = campaign.run(|progress| {
        check_interrupted()?;
        if let Some(foresight) = progress.foresight.filter(|_| !foreseen) {
            foreseen = true;
            let sessions = foresight.rounds.max(goal.least_sessions);
            crate::progress::announce(&format!(
                "pilot of {} sessions: ±{:.0} % needs about {sessions} sessions ({:.0} s, at most {:.0} s); \
                 the A/A control will then detect a bias of {:.1} %",
                progress.sessions,
                goal.half_width * 100.0,
                f64::from(sessions) * goal.spacing.as_secs_f64(),
                goal.time_limit.as_secs_f64(),
                foresight.detects * 100.0
            ));
        }
        let reached = progress.half_width.map_or(String::new(), |w| format!("±{:.1} %", w * 100.0));
        bar.at(progress.elapsed.as_millis() as u64, format!("{} sessions {reached}", progress.sessions));
        Ok(())
    });
    Ok(campaign.finish(stopped?)?)
}
