//! `/tmp/perf-PID.map`, a line a function: where it begins and how long it is, in hexadecimal, and its name (tools/perf/Documentation/jit-interface.txt, Linux 2.6.33 on).

use super::GeneratedCode;

impl GeneratedCode {
    /// Reads what a runtime has written so far; what is no such line is passed over, as the last one is that is being written.
    pub fn of_perf_map(text: &[u8]) -> Self {
        let mut code = Self::default();
        for line in text.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n")) {
            if let Some((from, bytes, name)) = read(line) {
                code.put(from, bytes, name);
            }
        }
        code
    }
}

fn read(line: &[u8]) -> Option<(u64, u64, String)> {
    let line = String::from_utf8_lossy(line);
    let (from, rest) = line.trim_start().split_once(' ')?;
    let (bytes, name) = rest.trim_start().split_once(' ')?;
    // Some write them with what C puts before such numbers.
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
    Some((hex(from)?, hex(bytes)?, name.trim().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_runtimes_write_them() {
        let text = b"7f00 20 int Main.fib(int)\n0x00007f20 0x0000000000000040    Interpreter\nno line\n\n zz 1 x\n7f60 8 JS:~f /a b.js:1:2\n7f80 10 half a li";
        let code = GeneratedCode::of_perf_map(text);
        let at = |address| code.function(address);
        assert_eq!(
            [at(0x7f00), at(0x7f5f), at(0x7f60), at(0x7f80)],
            [Some("int Main.fib(int)"), Some("Interpreter"), Some("JS:~f /a b.js:1:2"), None]
        );
        assert_eq!(code.count(), 3);
    }
}
