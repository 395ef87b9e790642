//! Functions of a program at which messages begin and end.
//!
//! A function that returns is caught by the kernel's return probes, which put another address on its stack. Go moves stacks and looks through them, and would end: there a probe stands on each of its
//! return instructions. A goroutine comes to a thread in `runtime.execute`, leaves it in `runtime.mcall`, and ends in `runtime.goexit1` (runtime/proc.go, asm_amd64.s).

use std::path::Path;

use perftax_doc::steps::Setting;
use perftax_pmu::{Error, Result};
use perftax_symbols::{ProbedFunction, ProbedFunctions};
use perftax_target::Subject;

use super::{GOROUTINE, ID, Plan, Says, Wanted, file};
use crate::tag::{FunctionSite, MessageId, TagFunctions};

/// Where arguments are, in order (x86-64 psABI, 3.2.3), as the kernel calls registers.
const ARGUMENTS: [&str; 6] = ["%di", "%si", "%dx", "%cx", "%r8", "%r9"];
/// The same in Go (src/cmd/compile/abi-internal.md, amd64 architecture), and which goroutine it is.
const GO_ARGUMENTS: [&str; 9] = ["%ax", "%bx", "%cx", "%di", "%si", "%r8", "%r9", "%r10", "%r11"];
const GO_G: &str = "%r14";
/// Goroutines go from thread to thread there: the function, what it says, and where the goroutine is.
const GO_SCHEDULER: [(&str, Says, &str); 3] =
    [("runtime.execute", Says::Comes, "%ax"), ("runtime.mcall", Says::Leaves, GO_G), ("runtime.goexit1", Says::Gone, GO_G)];
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
    if program.is_go {
        for (name, says, goroutine) in GO_SCHEDULER {
            for function in program.find(name)? {
                probes.push(Wanted {
                    says,
                    offset: program.functions.go_entry(function),
                    is_return: false,
                    semaphore: None,
                    fetches: vec![format!("{GOROUTINE}={goroutine}:u64")],
                });
            }
        }
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
        let id = site.id.as_ref().map(|id| Ok::<_, Error>(format!("{ID}={}", id.fetched_from(self.register(site, id)?))));
        let goroutine = self.is_go.then(|| format!("{GOROUTINE}={GO_G}:u64"));
        let fetches: Vec<String> = id.transpose()?.into_iter().chain(goroutine).collect();
        let mut probes = Vec::new();
        for function in self.find(&site.function)? {
            let places = match (self.is_go, site.is_return) {
                (true, true) => self.go_returns(function)?,
                (true, false) => vec![self.functions.go_entry(function)],
                (false, _) => vec![function.offset],
            };
            let is_return = site.is_return && !self.is_go;
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

    fn go_returns(&self, function: &ProbedFunction) -> Result<Vec<u64>> {
        let returns = self.functions.returns(function);
        if returns.is_empty() {
            let needed = "a function that returns: this one jumps to another, or nobody says where it ends".into();
            return Err(wrong(format!("{}%return", function.linked), needed));
        }
        Ok(returns)
    }

    /// Where what tells a message is.
    fn register(&self, site: &FunctionSite, id: &MessageId) -> Result<&'static str> {
        let Some(number) = id.argument else { return Ok(if self.is_go { "%ax" } else { "$retval" }) };
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
