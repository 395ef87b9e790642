//! Functions of a program at which messages begin and end.
//!
//! A function that returns is caught by the kernel's return probes, which put another address on its stack. Go moves stacks and looks through them, and would end; what C++ and Rust throw is not caught behind such an
//! address, and ends the program: there a probe stands on each of its return instructions. A goroutine comes to a thread in `runtime.gogo`, leaves it in `runtime.mcall`, ends in `runtime.goexit1`, and is let go on by others in
//! `runtime.ready` (runtime/proc.go, asm_amd64.s).

use std::path::Path;

use perftax_doc::steps::Setting;
use perftax_pmu::{Error, Result};
use perftax_symbols::{ProbedFunction, ProbedFunctions, WaysOut};
use perftax_target::Subject;

use super::{GOROUTINE, ID, Plan, SP, STACK, Says, Wanted, file};
use crate::tag::{FunctionSite, MessageId, TagFunctions};

/// Where arguments are, in order (x86-64 psABI, 3.2.3), as the kernel calls registers.
const ARGUMENTS: [&str; 6] = ["%di", "%si", "%dx", "%cx", "%r8", "%r9"];
/// The same in Go (src/cmd/compile/abi-internal.md, amd64 architecture), and which goroutine it is.
const GO_ARGUMENTS: [&str; 9] = ["%ax", "%bx", "%cx", "%di", "%si", "%r8", "%r9", "%r10", "%r11"];
const GO_G: &str = "%r14";
/// Goroutines go from thread to thread there: the function, what it says, and where the goroutine is.
const GO_SCHEDULER: [(&str, Says, &str); 3] = [
    ("runtime.mcall", Says::Leaves, GO_G),
    ("runtime.goexit1", Says::Gone, GO_G),
    // On the system's stack of whoever unlocks, sends, receives; its argument can go on.
    ("runtime.ready", Says::Readies, "%ax"),
];
/// It goes on with a goroutine, whether another one or the same: the body in assembler, which has what it is to go on with (`gobuf`) on the stack, and there the goroutine.
const GO_COMES: [&str; 2] = ["runtime.gogo.abi0", "runtime.gogo"];
const GO_COMES_G: &str = "+16(+8(%sp))";
/// Where a goroutine's stack begins, from which all lies as far however often it is moved (`g.stack.hi`).
const GO_STACK: &str = "+8(%r14)";
/// The first release whose files say which it is; functions have had arguments in registers since the one before.
const GO_SINCE: (u32, u32) = (1, 18);
/// Places of one name at most: more are no message.
const MAX_PLACES: usize = 64;

/// Where they stand, and what they fetch.
///
/// # Errors
/// Where the program has no such functions, or what tells a message is not to be had there.
pub(super) fn plan(wanted: &TagFunctions, subject: &Subject) -> Result<Plan> {
    let (binary, place) = file::find(wanted.binary.as_deref(), subject)?;
    let program = Program::of(ProbedFunctions::of(&place)?, &binary)?;
    let mut probes = program.site(&wanted.begin, Says::Start)?;
    probes.extend(program.site(&wanted.end, Says::Done)?);
    if wanted.is_a_call() {
        probes.iter_mut().for_each(|probe| probe.fetches.extend(program.depth()));
    }
    if program.is_go {
        probes.extend(program.scheduler()?);
    }
    Ok(Plan { binary, place, probes })
}

/// A file's functions, and how they call each other.
struct Program<'a> {
    functions: ProbedFunctions,
    binary: &'a Path,
    is_go: bool,
}

impl<'a> Program<'a> {
    fn of(functions: ProbedFunctions, binary: &'a Path) -> Result<Self> {
        let is_go = functions.is_go();
        if is_go {
            let why = match functions.go_release() {
                _ if !functions.is_x86_64() => Some("it is not for x86-64".to_string()),
                Some(release) if release >= GO_SINCE => None,
                Some((major, minor)) => Some(format!("Go {major}.{minor} built it")),
                None => Some("it does not say which release of Go built it, as 1.18 and later do".into()),
            };
            if let Some(why) = why {
                return Err(Error::Unsupported {
                    what: format!("tell messages by functions of {}", binary.display()),
                    why: format!("{why}: where its functions have their arguments and goroutines is not known"),
                    remedy: format!("a build by Go {}.{} or later for x86-64", GO_SINCE.0, GO_SINCE.1),
                });
            }
        }
        Ok(Self { functions, binary, is_go })
    }

    /// The probes of a place.
    fn site(&self, site: &FunctionSite, says: Says) -> Result<Vec<Wanted>> {
        let goroutine = self.is_go.then(|| format!("{GOROUTINE}={GO_G}:u64"));
        let mut probes = Vec::new();
        for function in self.find(&site.function)? {
            let may_be_left = self.is_go || ["_Z", "_R"].iter().any(|mangled| function.linked.starts_with(mangled));
            let places = match (may_be_left, site.is_return) {
                (true, true) => self.returns(function)?,
                (_, false) if self.is_go => vec![self.functions.go_entry(function)],
                _ => vec![function.offset],
            };
            let is_return = site.is_return && !may_be_left;
            let id = site
                .id
                .as_ref()
                .map(|id| Ok::<_, Error>(format!("{ID}={}", id.fetched_from(self.register(site, id, is_return)?))));
            let fetches: Vec<String> = id.transpose()?.into_iter().chain(goroutine.clone()).collect();
            probes.extend(places.into_iter().map(|offset| Wanted {
                says,
                offset,
                is_return,
                semaphore: None,
                fetches: fetches.clone(),
            }));
        }
        if probes.len() > MAX_PLACES {
            let needed = format!("a name of at most {MAX_PLACES} places in {}: it has {}", self.binary.display(), probes.len());
            return Err(wrong(site.function.clone(), needed));
        }
        Ok(probes)
    }

    fn find(&self, name: &str) -> Result<Vec<&ProbedFunction>> {
        let found = self.functions.find(name);
        if !found.is_empty() {
            return Ok(found);
        }
        let has = match (self.functions.count(), self.functions.nearest(name).as_slice()) {
            (0, _) => "it names none (stripped); its distribution's debug symbols, installed, are read".into(),
            (count, []) => {
                format!("it names {count} others, static ones perhaps not among them; what is inlined everywhere is none")
            }
            (_, near) => format!("nearest: {}", near.join(", ")),
        };
        Err(wrong(name.into(), format!("a function of {}: {has}", self.binary.display())))
    }

    /// How deep in its stack a thread is.
    fn depth(&self) -> Vec<String> {
        let stack = self.is_go.then(|| format!("{STACK}={GO_STACK}:u64"));
        [format!("{SP}=%sp:u64")].into_iter().chain(stack).collect()
    }

    /// Where goroutines come to threads, leave them, and end.
    fn scheduler(&self) -> Result<Vec<Wanted>> {
        let mut probes = Vec::new();
        let mut add = |says, offset, goroutine: &str| {
            let fetches = vec![format!("{GOROUTINE}={goroutine}:u64")];
            probes.push(Wanted { says, offset, is_return: false, semaphore: None, fetches });
        };
        for (name, says, goroutine) in GO_SCHEDULER {
            self.find(name)?.into_iter().for_each(|function| add(says, self.functions.go_entry(function), goroutine));
        }
        let bodies = GO_COMES.into_iter().flat_map(|name| self.functions.find(name));
        let mut bodies: Vec<u64> =
            bodies.filter(|function| self.functions.takes_from_stack(function)).map(|function| function.offset).collect();
        bodies.sort_unstable();
        bodies.dedup();
        if bodies.is_empty() {
            let needed = format!("a body of {} as it has been since Go 1.18", GO_COMES[1]);
            return Err(wrong(GO_COMES[1].into(), needed));
        }
        bodies.into_iter().for_each(|offset| add(Says::Comes, offset, GO_COMES_G));
        Ok(probes)
    }

    /// The return instructions of a function.
    fn returns(&self, function: &ProbedFunction) -> Result<Vec<u64>> {
        let ways = if self.functions.is_x86_64() { self.functions.ways_out(function) } else { WaysOut::default() };
        if ways.returns.is_empty() || ways.jumps_away {
            let needed = "a function that returns by itself, of x86-64, whose size the file says: this one ends with a jump to another, as compilers do with a last call; \
                          name that one's return, or another place";
            return Err(wrong(format!("{}%return", function.linked), needed.into()));
        }
        Ok(ways.returns)
    }

    /// Where what tells a message is.
    fn register(&self, site: &FunctionSite, id: &MessageId, is_return: bool) -> Result<&'static str> {
        let Some(number) = id.argument else { return Ok(if is_return { "$retval" } else { "%ax" }) };
        if !self.functions.is_x86_64() {
            return Err(Error::Unsupported {
                what: format!("tell messages by argument {number} of {}", site.function),
                why: "where arguments are is known of x86-64 alone".into(),
                remedy: format!("{} func:{}, by thread", Setting::Tag, site.function),
            });
        }
        let all: &[&str] = if self.is_go { &GO_ARGUMENTS } else { &ARGUMENTS };
        all.get(number - 1).copied().ok_or_else(|| {
            let needed = format!("one of the first {} arguments, which are in registers", all.len());
            wrong(format!("{}@{number}", site.function), needed)
        })
    }
}

fn wrong(value: String, needed: String) -> Error {
    Error::Argument { argument: Setting::Tag.name(), value: format!("func with {value}"), needed }
}
