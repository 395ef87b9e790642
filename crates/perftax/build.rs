//! Builds the simulator's plugin into the program where nothing stands beside it: `cargo install` takes the program alone. Whoever installs the plugin beside
//! it (`make`, `make dist`) sets `PERFTAX_PLUGIN_BESIDE`; builds for tests have it in their target folder.

use std::path::PathBuf;
use std::process::Command;

const BESIDE: &str = "PERFTAX_PLUGIN_BESIDE";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(embedded_plugin)");
    println!("cargo::rerun-if-env-changed={BESIDE}");
    println!("cargo::rerun-if-changed=build.rs");
    if variable("PROFILE") != "release" || std::env::var_os(BESIDE).is_some() {
        return;
    }
    let sources = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../perftax-sim-plugin");
    if !sources.join("Cargo.toml").is_file() {
        println!("cargo::warning=there is no {}: `perftax sim` will need PERFTAX_SIM_PLUGIN", sources.display());
        return;
    }
    for folder in ["src", "Cargo.toml", "../perftax-model/src", "../perftax-comm/src"] {
        println!("cargo::rerun-if-changed={}", sources.join(folder).display());
    }
    // Another folder than ours, which is locked while we are built.
    let target = PathBuf::from(variable("OUT_DIR")).join("plugin");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["build", "--release", "--lib", "--config", "profile.release.strip=true", "--manifest-path"]);
    cargo.arg(sources.join("Cargo.toml")).arg("--target-dir").arg(&target);
    // Nobody else's way to compile a workspace.
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("CARGO_BUILD_TARGET");
    let status = cargo.status().unwrap_or_else(|error| panic!("cannot run {:?}: {error}", cargo.get_program()));
    assert!(status.success(), "the simulator's plugin cannot be built: {status}");
    println!("cargo::rustc-cfg=embedded_plugin");
    println!("cargo::rustc-env=PERFTAX_PLUGIN_FILE={}", target.join("release/libperftax_sim_plugin.so").display());
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|error| panic!("cargo did not set {name}: {error}"))
}
