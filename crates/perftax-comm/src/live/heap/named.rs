//! Objects with the names of who allocated them.

use perftax_doc::CommObject;

use super::lines::Placed;

/// What stands between a program and its allocator: C++'s `new` and containers' allocators, Rust's. Who called them is asked for.
const WRAPPERS: [&str; 13] = [
    "operator new",
    "_Znwm",
    "_Znam",
    "std::__new_allocator",
    "std::allocator",
    "std::_Vector_base",
    "__gnu_cxx::new_allocator",
    "__rust_alloc",
    "__rust_realloc",
    "__rdl_",
    "alloc::alloc::",
    "alloc::raw_vec::",
    "<alloc::",
];
/// What calls a program, or a thread's first function.
const BELOW: [&str; 6] = ["__libc_start_call_main", "__libc_start_main", "_start", "start_thread", "clone3", "__clone3"];

/// As the document has them. `code` says what an instruction is called, and its source line.
pub fn named(placed: &[Placed], mut code: impl FnMut(u64) -> (String, Option<String>)) -> Vec<CommObject> {
    let object = |placed: &Placed| CommObject {
        bytes: placed.bytes,
        offset: placed.offset,
        number: placed.number,
        times: placed.times,
        allocated_at: frames(&placed.callers, &mut code),
        is_sure: placed.is_sure,
    };
    placed.iter().map(object).collect()
}

/// Callers by name, innermost first: `make_queue (queue.c:12)`, or `make_queue+0x18 [prog]` where the source is not known.
fn frames(callers: &[u64], mut code: impl FnMut(u64) -> (String, Option<String>)) -> Vec<String> {
    // The call stands before what it returns to, which may be another function's.
    let mut names: Vec<(String, Option<String>)> = callers.iter().map(|caller| code(caller.wrapping_sub(1))).collect();
    let bare = |name: &str| function(name).to_string();
    if let Some(end) = names.iter().position(|(name, _)| BELOW.contains(&bare(name).as_str())).filter(|end| *end > 0) {
        names.truncate(end);
    }
    let is_wrapper = |(name, _): &(String, Option<String>)| WRAPPERS.iter().any(|wrapper| name.starts_with(wrapper));
    let first = names.iter().position(|name| !is_wrapper(name)).unwrap_or(0);
    let frame = |(name, source): &(String, Option<String>)| match source {
        // Of what was inlined there, the innermost stands first.
        Some(source) => format!("{} ({})", function(name), source.replace(" < ", " in ")),
        None => name.clone(),
    };
    names[first..].iter().map(frame).collect()
}

/// `main` of `main+0x12 [prog]`.
fn function(name: &str) -> &str {
    let name = name.rsplit_once(" [").map_or(name, |(name, _)| name);
    name.rsplit_once("+0x").map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(ip: u64) -> (String, Option<String>) {
        match ip {
            0xf => ("operator new(unsigned long)+0x18 [libstdc++.so.6]".into(), None),
            0x1f => ("make_queue+0x12 [prog]".into(), Some("queue.h:7 < queue.c:12".into())),
            0x2f => ("main+0x8 [prog]".into(), None),
            _ => ("__libc_start_call_main+0x7a [libc.so.6]".into(), None),
        }
    }

    #[test]
    fn callers_are_those_of_the_program() {
        assert_eq!(frames(&[0x10, 0x20, 0x30, 0x40, 0x50], called), ["make_queue (queue.h:7 in queue.c:12)", "main+0x8 [prog]"]);
        assert_eq!(frames(&[0x10], called), ["operator new(unsigned long)+0x18 [libstdc++.so.6]"], "better than nothing");
        assert_eq!(frames(&[0x50], called), ["__libc_start_call_main+0x7a [libc.so.6]"]);
        assert!(frames(&[], called).is_empty());
    }
}
