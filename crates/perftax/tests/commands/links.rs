//! The repository's own pages: what they link to exists, and the README's first screen says how to start.

use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README, CONTRIBUTING and the pages of docs/.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.extension() {
                _ if entry.is_dir() => folders.push(entry),
                Some(extension) if extension == "md" => pages.push(entry),
                _ => {}
            }
        }
    }
    pages
}

/// A page's text without code: what stands there in brackets is no link.
fn prose(page: &Path) -> String {
    let text = std::fs::read_to_string(page).unwrap();
    let (mut is_fenced, mut prose) = (false, String::new());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced && !line.starts_with("    ") {
            // Every other piece stands between back quotes.
            line.split('`').step_by(2).for_each(|piece| prose.push_str(piece));
            prose.push('\n');
        }
    }
    prose
}

/// Targets of `[text](target)` and of `[name]: target`.
fn links(page: &Path) -> Vec<String> {
    let prose = prose(page);
    let inline = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let named = prose.lines().filter_map(|line| line.trim_start().strip_prefix('[')?.split_once("]: ")).map(|(_, target)| target);
    inline.chain(named).map(|target| target.split_whitespace().next().unwrap_or_default().to_string()).collect()
}

/// As GitHub names a heading: lower case, letters, digits, hyphens, and hyphens for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_anchor(page: &Path, wanted: &str) -> bool {
    let text = std::fs::read_to_string(page).unwrap();
    text.lines().filter_map(|line| line.strip_prefix('#')).any(|rest| anchor(rest.trim_start_matches('#')) == wanted)
}

#[test]
fn every_relative_link_leads_somewhere() {
    let (mut seen, mut dead) = (0, Vec::new());
    for page in pages() {
        for link in links(&page).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            seen += 1;
            let (file, fragment) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let is_there = target.exists() && (fragment.is_empty() || !target.is_file() || has_anchor(&target, fragment));
            if !is_there {
                dead.push(format!("{}: {link}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(seen > 50, "only {seen} links were found");
    assert!(dead.is_empty(), "these lead nowhere:\n{}", dead.join("\n"));
}

/// As on a terminal of 24 lines: how to run the main job from a fresh clone, and how to pass the tests.
#[test]
fn the_first_screen_names_the_two_commands() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let screen: Vec<&str> = readme.lines().take(24).collect();
    for command in ["make plan", "make test"] {
        let is_command = |line: &&str| line.starts_with("    ") && line.trim_start().starts_with(command);
        assert!(screen.iter().any(is_command), "{command} is no command of the first screen:\n{}", screen.join("\n"));
        let target = format!("\n{}:", &command["make ".len()..]);
        assert!(std::fs::read_to_string(root().join("Makefile")).unwrap().contains(&target), "{target} is not in the Makefile");
    }
}

#[test]
fn the_licences_are_there_in_full() {
    let licence = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    assert!(licence("LICENSE-MIT").contains("Permission is hereby granted, free of charge"));
    let apache = licence("LICENSE-APACHE");
    assert!(apache.contains("Version 2.0, January 2004") && apache.contains("END OF TERMS AND CONDITIONS"));
    assert!(apache.contains("9. Accepting Warranty or Additional Liability."));
    let gpl = licence("LICENSE-GPL-2.0");
    assert!(gpl.contains("Version 2, June 1991") && gpl.contains("END OF TERMS AND CONDITIONS"));
}
