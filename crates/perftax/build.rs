//! Builds the simulator's plugin into the program where nothing stands beside it: `cargo install` takes the program alone. Whoever installs the plugin beside
//! it (`make`, `make dist`) sets `PERFTAX_PLUGIN_BESIDE`; builds for tests have it in their target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const BESIDE: &str = "PERFTAX_PLUGIN_BESIDE";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(embedded_plugin)");
    println!("cargo::rerun-if-env-changed={BESIDE}");
    println!("cargo::rerun-if-changed=build.rs");
    if variable("PROFILE") != "release" || std::env::var_os(BESIDE).is_some() {
        return;
    }
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let built = PathBuf::from(variable("OUT_DIR")).join("plugin");
    for sources in ["plugin", "../perftax-model/src", "../perftax-comm/src"]
        .map(|folder| here.join(folder))
        .iter()
        .filter(|folder| folder.is_dir())
    {
        println!("cargo::rerun-if-changed={}", sources.display());
    }
    let beside = here.join("../perftax-sim-plugin/Cargo.toml");
    let manifest = if beside.is_file() { beside } else { unpacked(&here, &built) };
    println!("cargo::rerun-if-changed={}", manifest.display());
    // Another folder than ours, which is locked while we are built.
    let target = built.join("target");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["build", "--release", "--lib", "--config", "profile.release.strip=true", "--manifest-path"]);
    cargo.arg(manifest).arg("--target-dir").arg(&target);
    // Nobody else's way to compile a workspace.
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("CARGO_BUILD_TARGET");
    let status = cargo.status().unwrap_or_else(|error| panic!("cannot run {:?}: {error}", cargo.get_program()));
    assert!(status.success(), "the simulator's plugin cannot be built: {status}");
    println!("cargo::rustc-cfg=embedded_plugin");
    println!("cargo::rustc-env=PERFTAX_PLUGIN_FILE={}", target.join("release/libperftax_sim_plugin.so").display());
}

/// The plugin as a package below `built`, where we are a package without a workspace: the sources that came with us, what they need in the versions that we
/// were released with. All of these are among our own dependencies, so that nothing more is downloaded.
fn unpacked(here: &Path, built: &Path) -> PathBuf {
    let manifest = built.join("Cargo.toml");
    let copied = |from: &Path, to: &Path| {
        fs::copy(from, to).unwrap_or_else(|error| panic!("cannot copy {} to {}: {error}", from.display(), to.display()));
    };
    fs::create_dir_all(built).unwrap_or_else(|error| panic!("cannot make {}: {error}", built.display()));
    copied(&here.join("plugin.toml"), &manifest);
    let locked = here.join("Cargo.lock");
    if locked.is_file() {
        copied(&locked, &built.join("Cargo.lock"));
    }
    let link = built.join("src");
    if !link.is_dir() {
        std::os::unix::fs::symlink(here.join("plugin"), &link)
            .unwrap_or_else(|error| panic!("cannot link {} to {}: {error}", link.display(), here.display()));
    }
    manifest
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|error| panic!("cargo did not set {name}: {error}"))
}
