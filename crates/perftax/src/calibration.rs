//! Calibrations, with a bar.

use anyhow::Result;
use perftax_lab::calibrate::{Campaign, Goal, Outcome, Spec};
use perftax_pmu::guard::check_interrupted;

use crate::progress::Progress;

/// Runs a campaign to its end, with a bar.
pub fn run(spec: &Spec, goal: Goal, seed: u64) -> Result<Outcome> {
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
