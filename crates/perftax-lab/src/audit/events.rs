//! Do several events at once get what each gets alone?

use perftax_cost::document::AuditRow;
use perftax_pmu::event::Event;
use perftax_pmu::record::Header;
use perftax_pmu::sampler::{Delivered, LiveSampler, Sampler, Sampling};
use perftax_pmu::sys::Target;
use perftax_pmu::{Error, Result};

use super::{Experiment, Setting, Source};
use crate::stimulus::Stimulus;

/// More and more events over the same work.
pub struct Events;

/// How many at once: the study's.
const AT_ONCE: [usize; 7] = [1, 2, 4, 5, 6, 8, 16];
/// Debug registers of an x86-64 processor (SDM volume 3, chapter 18), and of ARMv8 at least as many as this.
const DEBUG_REGISTERS: usize = 4;
/// Samples of each event.
const SAMPLES: u64 = 50;
/// Pages of the ring that they share.
const RING_PAGES: usize = 1024;

impl Experiment for Events {
    fn name(&self) -> &'static str {
        "events"
    }

    fn question(&self) -> &'static str {
        "do several events at once get what each gets alone?"
    }

    fn method(&self) -> &'static str {
        "the same event opened 1 to 16 times over the same work: each must get N/R samples; where the machine has fewer registers than events, \
         the kernel must refuse the next one, and not lose its samples"
    }

    fn figures(&self) -> &'static str {
        "figure 12 and table III"
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        super::each_source(setting, |source| AT_ONCE.into_iter().map(|count| at_once(source, setting, count)).collect())
    }
}

fn at_once(source: &Source, setting: &Setting, count: usize) -> Result<AuditRow> {
    let (mut work, event) = source.work(source.many(), setting.catalog)?;
    let period = source.many() / SAMPLES + 1;
    let case = format!("{} every {period}, {count} at once", source.name());
    let is_too_many = *source == Source::Writes && count > DEBUG_REGISTERS;
    let (mut samples, mut lost, mut throttled) = (Vec::new(), 0, 0);
    for _ in 0..setting.runs {
        match one_run(work.as_mut(), &event, period, count) {
            Ok(delivered) => {
                samples.push(delivered.samples() as f64 / count as f64);
                (lost, throttled) = (lost + delivered.lost, throttled + delivered.throttled);
            }
            Err(error) if is_too_many => {
                let refusal = error.to_string();
                let remark = format!("refused, as it must be: {}", refusal.lines().next().unwrap_or_default());
                return Ok(AuditRow::of(case, "events opened", 0.0, &[0.0], 0.0).remarking(remark));
            }
            Err(Error::System { call, source }) => {
                return Ok(AuditRow::of(case, "samples of each", SAMPLES as f64, &[], 0.0).remarking(format!("{call}: {source}")));
            }
            Err(error) => return Err(error),
        }
    }
    let expected = (source.many() + source.own()) / period;
    let row = AuditRow::of(case, "samples of each", expected as f64, &samples, 0.0).losing(lost, throttled);
    Ok(if is_too_many { row.remarking(format!("opened with {DEBUG_REGISTERS} debug registers")) } else { row })
}

fn one_run(work: &mut dyn Stimulus, event: &Event, period: u64, count: usize) -> Result<Delivered> {
    let sampling = Sampling::every(period, RING_PAGES * rustix::param::page_size());
    work.prepare()?;
    let events: Vec<(Event, Sampling)> = (0..count).map(|_| (event.clone(), sampling)).collect();
    let mut sampler = LiveSampler::open(&events, &[Target::ThisThread], RING_PAGES)?;
    sampler.enable()?;
    work.run();
    sampler.disable()?;
    let mut delivered = Delivered::default();
    sampler.drain(&mut |header: Header, body| delivered.count(0, header, body))?;
    delivered.lost = delivered.lost.max(sampler.lost()?);
    Ok(delivered)
}
