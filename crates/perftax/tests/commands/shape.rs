//! The house's shape: crates need what is below them alone, folders of a crate do not need each other, `unsafe` stands where it is looked after.
//!
//! A crate's modules are a row: whoever needs another stands above it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::links::root;
use crate::sources::{Source, everything, sources};

/// Crates from the ground up: each needs crates of lower floors alone.
const FLOORS: [&[&str]; 6] = [
    &["perftax-dataset", "perftax-doc", "perftax-folders", "perftax-model", "perftax-symbols", "perftax-tag", "perftax-tools"],
    &["perftax-cost", "perftax-engine-c", "perftax-pmu", "perftax-vm"],
    &["perftax-perfdata", "perftax-report", "perftax-target"],
    &["perftax-comm", "perftax-record"],
    &["perftax-lab", "perftax-sim-plugin", "perftax-trace"],
    &["perftax"],
];

/// Where `unsafe` may stand: a crate's folder or file.
const UNSAFE: [&str; 13] = [
    "perftax-engine-c/src/lib.rs",
    "perftax-lab/src/stimulus/entries.rs",
    "perftax-lab/src/stimulus/frames.rs",
    "perftax-lab/src/stimulus/loops.rs",
    "perftax-lab/src/stimulus/task.rs",
    "perftax-lab/src/stimulus/token_ring.rs",
    "perftax-perfdata/tests/bill_mutated.rs",
    "perftax-pmu/src/sys",
    "perftax-pmu/tests/public/events_live.rs",
    "perftax-sim-plugin/src",
    "perftax-tag/benches/mark.rs",
    "perftax-tag/src/lib.rs",
    "perftax-trace/src/rings.rs",
];

/// What is wrong with the crates' dependencies: name, and those that it names.
fn upward(crates: &[(String, Vec<String>)]) -> Vec<String> {
    let floor = |name: &str| FLOORS.iter().position(|floor| floor.contains(&name));
    let mut wrong = Vec::new();
    for (name, needs) in crates {
        match floor(name) {
            None => wrong.push(format!("{name} stands on no floor")),
            Some(own) => wrong.extend(
                needs
                    .iter()
                    .filter(|other| floor(other).is_none_or(|other| other >= own))
                    .map(|other| format!("{name} needs {other}, which is not below it")),
            ),
        }
    }
    wrong
}

/// Groups of modules at the top of each crate that need each other, sorted.
fn circles(sources: &[Source]) -> BTreeSet<(String, Vec<String>)> {
    let mut needs: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    // What a crate's root hands on is its module's: `crate::Error` needs `error`.
    let mut handed_on: BTreeMap<(String, String), String> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.module.is_empty()) {
        for (from, _) in source.code.match_indices("use ") {
            let statement = source.code[from + 4..].split(';').next().unwrap_or_default();
            let (module, items) = statement.split_once("::").unwrap_or_default();
            for item in items.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|item| !item.is_empty()) {
                handed_on.insert((source.krate(), item.to_owned()), module.trim().to_owned());
            }
        }
    }
    let modules: BTreeSet<(String, String)> =
        sources.iter().filter_map(|source| Some((source.krate(), source.module.first()?.clone()))).collect();
    for source in sources {
        if let Some(top) = source.module.first() {
            let resolved = |name: String| {
                let named = (source.krate(), name);
                if modules.contains(&named) { named.1 } else { handed_on.get(&named).cloned().unwrap_or(named.1) }
            };
            needs.entry((source.krate(), top.clone())).or_default().extend(source.needs().into_iter().map(resolved));
        }
    }
    let reached = |krate: &str, from: &str| {
        let mut all = BTreeSet::new();
        let mut left = vec![from.to_owned()];
        while let Some(next) = left.pop() {
            for other in needs.get(&(krate.to_owned(), next)).into_iter().flatten() {
                if needs.contains_key(&(krate.to_owned(), other.clone())) && all.insert(other.clone()) {
                    left.push(other.clone());
                }
            }
        }
        all
    };
    let mut circles = BTreeSet::new();
    for (krate, top) in needs.keys() {
        let group: Vec<String> =
            reached(krate, top).into_iter().filter(|other| other == top || reached(krate, other).contains(top)).collect();
        if group.len() > 1 && group.contains(top) {
            circles.insert((krate.clone(), group));
        }
    }
    circles
}

fn unsafe_elsewhere(sources: &[Source]) -> Vec<&Path> {
    let is_allowed = |source: &&Source| UNSAFE.iter().any(|allowed| source.path.starts_with(allowed));
    sources
        .iter()
        .filter(|source| !is_allowed(source) && source.words().any(|word| word == "unsafe"))
        .map(|source| source.path.as_path())
        .collect()
}

/// What cargo says of our crates.
fn metadata() -> serde_json::Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn crates_need_what_is_below_them_alone() {
    let metadata = metadata();
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap().to_owned();
    // What tests need may lie anywhere.
    let is_ours = |dependency: &&serde_json::Value| dependency["path"].is_string() && dependency["kind"].as_str() != Some("dev");
    let needs =
        |package: &serde_json::Value| package["dependencies"].as_array().unwrap().iter().filter(is_ours).map(name).collect();
    let crates: Vec<(String, Vec<String>)> =
        metadata["packages"].as_array().unwrap().iter().map(|package| (name(package), needs(package))).collect();
    assert!(crates.iter().any(|(name, needs)| name == "perftax" && needs.contains(&"perftax-lab".to_owned())), "{crates:?}");
    assert_eq!(upward(&crates), Vec::<String>::new());
    let planted = [("perftax-pmu".to_owned(), vec!["perftax-target".to_owned()]), ("perftax-new".to_owned(), Vec::new())];
    assert_eq!(upward(&planted).len(), 2);
}

/// Of a crate's manifest, dependencies that its sources do not name: those of the library and programs in src, those of tests anywhere.
fn unused(package: &serde_json::Value, sources: &[Source]) -> Vec<String> {
    let folder = PathBuf::from(package["name"].as_str().unwrap());
    let code = |is_read: &dyn Fn(&Path) -> bool| -> String {
        let of_crate = sources.iter().filter_map(|source| Some((source.path.strip_prefix(&folder).ok()?, source)));
        of_crate.filter(|(path, _)| is_read(path)).map(|(_, source)| source.text.as_str()).collect()
    };
    let [own, everything, building] =
        [code(&|path| path.starts_with("src")), code(&|_| true), code(&|path| path == Path::new("build.rs"))];
    let is_named = |dependency: &&serde_json::Value| {
        let name = dependency["rename"].as_str().or(dependency["name"].as_str()).unwrap().replace('-', "_");
        let code = match dependency["kind"].as_str() {
            None => &own,
            Some("build") => &building,
            Some(_) => &everything,
        };
        code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
    };
    let dependencies = package["dependencies"].as_array().unwrap().iter();
    dependencies.filter(|dependency| !is_named(dependency)).map(|dependency| dependency["name"].to_string()).collect()
}

#[test]
fn what_a_crate_depends_on_it_uses() {
    let (metadata, sources) = (metadata(), everything());
    for package in metadata["packages"].as_array().unwrap() {
        assert_eq!(unused(package, &sources), Vec::<String>::new(), "{}", package["name"]);
    }
    let planted = serde_json::json!({ "name": "perftax-doc", "dependencies": [{ "name": "never-heard-of", "kind": null }] });
    assert_eq!(unused(&planted, &sources).len(), 1);
}

/// `cargo package` takes what lies in the crate's folder alone.
#[test]
fn every_crate_has_its_licence() {
    for package in metadata()["packages"].as_array().unwrap() {
        let folder = root().join("crates").join(package["name"].as_str().unwrap());
        let wanted: &[&str] = match package["license"].as_str().unwrap() {
            "GPL-2.0-or-later" => &["LICENSE-GPL-2.0"],
            _ => &["LICENSE-MIT", "LICENSE-APACHE"],
        };
        for file in wanted {
            assert!(folder.join(file).is_file(), "{}: no {file}", folder.display());
        }
    }
}

#[test]
fn modules_of_a_crate_do_not_need_each_other_in_circles() {
    assert_eq!(circles(&sources()), BTreeSet::new());
}

#[test]
fn a_planted_circle_is_found_in_all_its_spellings() {
    let source = |path: &str, text: &str| Source::new(Path::new(path), text);
    let plant = |in_b: &str| {
        circles(&[source("c/src/a/mod.rs", "use crate::{b::Of, d};"), source("c/src/b/e.rs", in_b), source("c/src/d.rs", "")])
    };
    let circle = BTreeSet::from([("c".to_owned(), vec!["a".to_owned(), "b".to_owned()])]);
    for in_b in ["use crate::a;", "use super::super::a::X;", "fn f() { crate::a::g() }", "use crate::{d, a::{x, y}};"] {
        assert_eq!(plant(in_b), circle, "{in_b}");
    }
    // By what the root hands on.
    let root = source("c/src/lib.rs", "mod a;\npub use a::{Of, Other};");
    let by_root = circles(&[root, source("c/src/a/mod.rs", "use crate::b;"), source("c/src/b/e.rs", "use crate::Other;")]);
    assert_eq!(by_root, circle);
    for in_b in
        ["// use crate::a;", "\"crate::a::b\"", "use super::a;", "use crate::d;", "#[cfg(test)]\nmod tests {\n use crate::a;"]
    {
        assert_eq!(plant(in_b), BTreeSet::new(), "{in_b}");
    }
}

#[test]
fn unsafe_stands_where_it_is_looked_after() {
    assert_eq!(unsafe_elsewhere(&everything()), Vec::<&Path>::new());
    let planted = |path: &str, text: &str| unsafe_elsewhere(&[Source::new(Path::new(path), text)]).len();
    assert_eq!(planted("perftax-lab/src/run/mod.rs", "fn f() { unsafe { g() } }"), 1);
    assert_eq!(
        planted("perftax-lab/src/run/mod.rs", "// unsafe\n#![deny(unsafe_op_in_unsafe_fn)] const T: &str = \"unsafe\";"),
        0
    );
    assert_eq!(planted("perftax-pmu/src/sys/clock.rs", "unsafe {}"), 0);
}
