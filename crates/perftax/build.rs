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
    // What a tool's probes are tried out on is found by its name in a stripped program, too.
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=perftax_probed_push");
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=perftax_probed_step");
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let manifest = here.join("../perftax-sim-plugin/Cargo.toml");
    let is_package = !manifest.is_file();
    if std::env::var_os(BESIDE).is_some() || variable("PROFILE") != "release" && !is_package {
        return;
    }
    let (host, target) = (variable("HOST"), variable("TARGET"));
    if host != target || variable("PROFILE") != "release" {
        println!(
            "cargo::warning=the simulator's plugin is built into releases for {host} alone: `perftax sim` will need PERFTAX_SIM_PLUGIN"
        );
        return;
    }
    let built = PathBuf::from(variable("OUT_DIR")).join("plugin");
    let watched = [
        "plugin",
        "plugin.toml",
        "Cargo.lock",
        "../perftax-sim-plugin/Cargo.toml",
        "../perftax-model/src",
        "../perftax-model/machines",
        "../perftax-doc/src",
        "../perftax-cost/src",
        "../perftax-comm/src",
    ];
    for each in watched.map(|each| here.join(each)).iter().filter(|each| each.exists()) {
        println!("cargo::rerun-if-changed={}", each.display());
    }
    let manifest = if is_package { unpacked(&here, &built) } else { manifest };
    // Another folder than ours, which is locked while we are built.
    let folder = built.join("target");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["build", "--release", "--lib", "--config", "profile.release.strip=true", "--target", &target, "--manifest-path"]);
    cargo.arg(manifest).arg("--target-dir").arg(&folder).env("CARGO_BUILD_BUILD_DIR", &folder);
    // Nobody else's way to compile a workspace, and flags that are meant for a program.
    for of_others in ["RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        cargo.env_remove(of_others);
    }
    let status = cargo.status().unwrap_or_else(|error| panic!("cannot run {:?}: {error}", cargo.get_program()));
    assert!(status.success(), "the simulator's plugin cannot be built: {status}");
    println!("cargo::rustc-cfg=embedded_plugin");
    println!("cargo::rustc-env=PERFTAX_PLUGIN_FILE={}", folder.join(target).join("release/libperftax_sim_plugin.so").display());
}

/// The plugin as a package below `built`, where we are a package without a workspace: the sources that came with us, what they need in the versions that we
/// were released with. All of these are among our own dependencies, so that nothing more is downloaded where these are taken as they were locked.
fn unpacked(here: &Path, built: &Path) -> PathBuf {
    let read = |name: &str| fs::read_to_string(here.join(name)).unwrap_or_else(|error| panic!("cannot read {name}: {error}"));
    let write = |name: &str, text: String| {
        let file = built.join(name);
        fs::write(&file, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
        file
    };
    fs::create_dir_all(built).unwrap_or_else(|error| panic!("cannot make {}: {error}", built.display()));
    if here.join("Cargo.lock").is_file() {
        write("Cargo.lock", read("Cargo.lock"));
    }
    let library = format!("[lib]\npath = {:?}\n", here.join("plugin/lib.rs"));
    write("Cargo.toml", read("plugin.toml").replacen("[lib]\n", &library, 1))
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|error| panic!("cargo did not set {name}: {error}"))
}
