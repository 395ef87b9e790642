//! A page in a browser, as a reader has it.
//!
//! Needs `chromium` (Debian package of that name). A missing browser is a failure, not a skip: these are the only tests that see what a
//! reader sees.

#![allow(dead_code)] // each test uses a part

use std::path::PathBuf;
use std::process::Command;

/// A file that goes away with the test.
pub struct Page(PathBuf);

impl Page {
    /// Writes it.
    pub fn write(name: &str, content: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perftax-{name}-{}.html", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }

    /// Its elements after its scripts have run, in a browser that can reach no network.
    pub fn rendered(&self) -> String {
        self.rendered_at("")
    }

    /// The same, opened at a fragment of its address.
    pub fn rendered_at(&self, fragment: &str) -> String {
        let profile = self.0.with_extension("profile");
        let output = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"])
            .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=20000", "--window-size=1300,2600"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("--dump-dom")
            .arg(format!("file://{}{fragment}", self.0.display()))
            .output()
            .unwrap_or_else(|error| panic!("cannot run chromium ({error}): this test needs it: apt-get install chromium"));
        std::fs::remove_dir_all(profile).ok();
        assert!(output.status.success(), "chromium failed: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}
