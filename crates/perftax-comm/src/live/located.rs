//! The places in a program: of one that is held where it begins, or that runs already.

use std::time::Duration;

use perftax_doc::steps::Setting;
use perftax_pmu::sys::{AtExec, Child, Stopped};
use perftax_pmu::{Error, Result};

use super::place::{Place, PlaceName};
use super::variables::Variables;

/// How long a program may take to be loaded.
const LOADING: Duration = Duration::from_secs(60);

/// Whether a program's libraries must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libraries {
    /// Where a place is not in the program itself.
    AsNeeded,
    /// At any rate.
    Loaded,
}

/// A child that has executed its program, and the places that were found in it.
///
/// Libraries are waited for only where they are `wanted`, or the program itself does not have all places.
///
/// # Errors
/// Where it cannot be executed, or a place is not found: it is ended then before its first instruction.
pub fn stop_at_exec(child: &mut Child, names: &[PlaceName], wanted: Libraries) -> Result<(AtExec, Located)> {
    let mut stops = AtExec::release(child)?;
    let places = find_held(&mut stops, child.pid() as u32, names, wanted)?;
    Ok((stops, places))
}

fn find_held(stops: &mut AtExec, pid: u32, names: &[PlaceName], wanted: Libraries) -> Result<Located> {
    let not_loaded = |stopped| Error::System {
        call: "loading the command".into(),
        source: std::io::Error::other(if stopped == Stopped::Ended { "it ended" } else { "it took more than a minute" }),
    };
    match stops.wait_for_exec(LOADING)? {
        Stopped::AtExec => {}
        // What could not be executed says why when it is waited for.
        Stopped::Ended => return Ok(Located::default()),
        stopped => return Err(not_loaded(stopped)),
    }
    let early = Variables::of(pid, false)?;
    let found = Located::of(&early, names)?;
    if found.absent == 0 && wanted == Libraries::AsNeeded {
        return Ok(found);
    }
    match stops.wait_for_entry(LOADING)? {
        Stopped::AtEntry => {}
        stopped => return Err(not_loaded(stopped)),
    }
    find(pid, names).map_err(|error| match error {
        Error::Argument { argument, value, needed } => {
            let needed =
                format!("{needed}\n  (name the program itself: one that starts another, as env or sh do, has places of its own)");
            Error::Argument { argument, value, needed }
        }
        other => other,
    })
}

/// The places in a process that runs.
///
/// # Errors
/// Where one is not found.
pub fn find(pid: u32, names: &[PlaceName]) -> Result<Located> {
    let found = Located::of(&Variables::of(pid, true)?, names)?;
    if found.places.is_empty() && found.absent > 0 {
        return Err(Error::Argument {
            argument: Setting::LinesFrom.name(),
            value: format!("{} addresses", found.absent),
            needed: format!(
                "some that the program has mapped when watching begins: in another run libraries, stacks and the heap lie elsewhere. \
                 Take them from the process itself ({}), or from a program that is not position-independent",
                Setting::Process
            ),
        });
    }
    Ok(found)
}

/// Places that were looked for.
#[derive(Debug, Default)]
pub struct Located {
    /// Those that were found.
    pub places: Vec<Place>,
    /// How each was named.
    pub names: Vec<PlaceName>,
    /// How many others there are.
    pub absent: usize,
}

impl Located {
    /// Those of objects that are not there yet stand where they wait.
    fn of(variables: &Variables, names: &[PlaceName]) -> Result<Self> {
        let mut all = Self::default();
        for (number, name) in names.iter().enumerate() {
            match name.awaited(number).map_or_else(|| variables.find(name), |place| Ok(Some(place)))? {
                Some(place) => {
                    all.places.push(place);
                    all.names.push(name.clone());
                }
                None => all.absent += 1,
            }
        }
        Ok(all)
    }
}
