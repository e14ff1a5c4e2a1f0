//! Holds the shape of the project by reading its files: which layer may use which, what no file may contain, and
//! that documents name things that exist.
//!
//! Every rule is one test; a failure says where (`file:line`) and what to do.

#[path = "tidy/source.rs"]
mod source;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use source::{Source, between, line_of, read, root, rust_files, tracked_files, words};

/// Longest file that still can be read in one sitting.
const MAX_LINES: usize = 800;

/// What a layer may use of its own crate, and words that would give it powers it must not have.
struct Layer {
    name: &'static str,
    may_use: &'static [&'static str],
    never: &'static [&'static str],
}

/// The dependency table. A folder of `src/` that is not here fails the test: add a line for it.
const LAYERS: &[Layer] = &[
    Layer {
        name: "share",
        may_use: &["share"],
        never: &[
            "fuser",
            "libc",
            "nix",
            "tokio",
            "parking_lot",
            "fjall",
            "std::fs",
            "std::io",
            "std::net",
            "std::process",
            "std::thread",
            "SystemTime::now",
            "Instant::now",
            "Mutex",
            "RwLock",
        ],
    },
    Layer {
        name: "wire",
        may_use: &["wire", "share"],
        never: &["fuser", "libc", "nix", "tokio", "std::net", "std::fs"],
    },
    Layer { name: "store", may_use: &["store", "share", "wire"], never: &["fuser"] },
    Layer {
        name: "fs",
        may_use: &["fs", "store", "share"],
        never: &["fuser", "libc", "nix", "Errno", "errno", "hyper", "axum", "reqwest", "http"],
    },
    Layer { name: "fuse", may_use: &["fuse", "fs", "share"], never: &["fjall", "hyper", "axum", "reqwest"] },
    Layer { name: "rest", may_use: &["rest", "fs", "store", "share", "wire"], never: &["fuser"] },
    Layer { name: "cli", may_use: &["cli", "fuse", "rest", "fs", "store", "share", "wire"], never: &[] },
];

/// Fails with every finding, one per line.
fn hold(findings: &[String], what_to_do: &str) {
    assert!(findings.is_empty(), "\n{}\n→ {what_to_do}\n", findings.join("\n"));
}

fn layer_of(source: &Source) -> Option<&str> {
    source.path.strip_prefix("src/")?.split_once('/').map(|(layer, _)| layer)
}

#[test]
fn layers_use_only_what_the_table_allows() {
    let mut findings = Vec::new();
    for source in rust_files("src") {
        let Some(name) = layer_of(&source) else { continue };
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
            findings.push(format!("{}:1: folder src/{name} is not in the dependency table", source.path));
            continue;
        };
        for (line, used) in source.modules_used() {
            if !layer.may_use.contains(&used.as_str()) {
                findings.push(format!("{}:{line}: {name} uses crate::{used}", source.path));
            }
        }
        for (number, line) in source.product.lines().enumerate() {
            for word in layer.never.iter().filter(|word| contains_path(line, word)) {
                findings.push(format!("{}:{}: {name} must never use {word}", source.path, number + 1));
            }
        }
    }
    hold(
        &findings,
        "move the code to the layer that may do this (table in docs/ARCHITECTURE.md and in tests/tidy.rs)",
    );
}

/// Whether `line` holds `path` as whole words (`nix` is found in `nix::unistd`, not in `unix`).
fn contains_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        // `.errno()` or `std::os::unix`: only a path's first segment or a bare word names the thing itself.
        !before.is_some_and(|c| is_word(c) || c == '.') && !after.is_some_and(is_word)
    })
}

#[test]
fn unsafe_stays_at_the_edge_of_the_system() {
    let mut findings = Vec::new();
    for source in rust_files("src") {
        let edge = match layer_of(&source) {
            Some("fuse" | "cli") => true,
            Some("store") => source.head().contains("OS edge"),
            _ => false,
        };
        if edge {
            continue;
        }
        for (number, line) in source.code.lines().enumerate() {
            if words(line).any(|word| word == "unsafe") {
                findings.push(format!("{}:{}: unsafe", source.path, number + 1));
            }
        }
    }
    hold(
        &findings,
        "use a safe wrapper (std, nix), or move it to src/fuse or to a file of src/store whose head says \"OS edge\"",
    );
}

#[test]
fn only_the_gate_touches_the_share_state() {
    let mut findings = Vec::new();
    for source in rust_files("src") {
        if source.path.starts_with("src/share/") || source.path.starts_with("src/fs/gate") {
            continue;
        }
        for (number, line) in source.code.lines().enumerate() {
            if words(line).any(|word| word == "FileShareState") {
                findings.push(format!("{}:{}: FileShareState", source.path, number + 1));
            }
        }
    }
    hold(&findings, "ask src/fs/gate instead: share modes are judged in one place only");
}

#[test]
fn no_file_is_too_long() {
    let mut findings = Vec::new();
    for path in tracked_files() {
        let code = [".rs", ".sh", ".py", ".h"].iter().any(|end| path.ends_with(end));
        let lines = if code { read(&path).lines().count() } else { 0 };
        if lines > MAX_LINES {
            findings.push(format!("{path}:{lines}: more than {MAX_LINES} lines"));
        }
    }
    hold(&findings, "split the file along what its parts are for");
}

#[test]
fn every_module_says_what_it_is_for() {
    let silent = |source: &Source| !source.text.starts_with("//!");
    let findings: Vec<_> = ["src", "tests", "examples"]
        .iter()
        .flat_map(|folder| rust_files(folder))
        .filter(silent)
        .map(|source| format!("{}:1: no //! head", source.path))
        .collect();
    hold(&findings, "start the file with //!: what it is for and what it must never do");
}

#[test]
fn nothing_is_left_half_done() {
    let forbidden = ["todo!(", "unimplemented!(", "dbg!(", "#[ignore"];
    let mut findings = Vec::new();
    for source in ["src", "tests", "examples", "benches"].iter().flat_map(|folder| rust_files(folder)) {
        for (number, line) in source.code.lines().enumerate() {
            for text in forbidden.iter().filter(|text| line.contains(*text)) {
                findings.push(format!("{}:{}: {text}", source.path, number + 1));
            }
        }
    }
    // In pieces, so that this file does not find itself. The short mark is also a picture in tables.
    let marks = [concat!("FIX", "ME"), concat!("// XX", "X"), concat!("# XX", "X"), concat!("XX", "X:")];
    for path in tracked_files().iter().filter(|path| is_ours(path)) {
        for (number, line) in read(path).lines().enumerate() {
            if let Some(mark) = marks.iter().find(|mark| line.contains(**mark)) {
                findings.push(format!("{path}:{}: {mark}", number + 1));
            }
        }
    }
    hold(&findings, "finish it, or write down the limit in docs/SEMANTICS.md");
}

/// Texts written here, as opposed to licences and what a tool writes.
fn is_ours(path: &str) -> bool {
    !path.starts_with("LICENSE") && path != "Cargo.lock"
}

#[test]
fn every_crash_point_is_used_by_a_test() {
    let proofs: String =
        ["tests", "scripts"].iter().flat_map(|folder| files_below(folder)).map(|path| read(&path)).collect();
    let in_source: String = rust_files("src").iter().map(Source::tests).collect();
    let mut findings = Vec::new();
    for source in rust_files("src") {
        for name in between(&source.product_with_strings, "crash_point(\"", "\"") {
            let used = words(&proofs).chain(words(&in_source)).any(|word| word == name);
            if !used {
                let line = line_of(&source.text, &format!("crash_point(\"{name}\""));
                findings.push(format!("{}:{line}: no test dies at {name}", source.path));
            }
        }
    }
    hold(&findings, "name the point in a crash test, or remove it");
}

fn files_below(folder: &str) -> Vec<String> {
    tracked_files().into_iter().filter(|path| path.starts_with(&format!("{folder}/"))).collect()
}

#[test]
fn the_contract_names_tests_that_exist() {
    let contract = read("docs/SEMANTICS.md");
    let mut known = BTreeSet::new();
    for source in ["src", "tests"].iter().flat_map(|folder| rust_files(folder)) {
        known.extend(between(&source.code, "fn ", "(").map(str::to_owned));
    }
    for path in files_below("scripts").into_iter().chain(files_below("tests")) {
        known.insert(path.rsplit('/').next().unwrap_or_default().to_owned());
        known.insert(path);
    }
    let mut findings = Vec::new();
    let mut marks = 0;
    // In the whole text: a mark with many names goes over several lines.
    for name in between(&contract, "(test: ", ")").flat_map(|names| names.split(',')) {
        let name = name.trim().trim_matches('`');
        marks += 1;
        let last = name.rsplit("::").next().unwrap_or(name);
        if !known.contains(last) {
            let line = line_of(&contract, name);
            findings.push(format!("docs/SEMANTICS.md:{line}: no test or script called {name}"));
        }
    }
    assert!(marks > 0, "docs/SEMANTICS.md names no test at all: mark its sentences with (test: name)");
    hold(&findings, "write the test, or correct the name");
}

#[test]
fn every_dependency_is_explained() {
    let explained: BTreeSet<String> = read("docs/DEPENDENCIES.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name.to_owned()))
        .collect();
    let manifest = read("Cargo.toml");
    let mut section = "";
    let mut used = BTreeSet::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if section.ends_with("dependencies")
            && let Some((name, _)) = line.split_once('=')
        {
            used.insert(name.trim().split('.').next().unwrap_or_default().to_owned());
        }
    }
    assert!(used.contains("fuser"), "cannot read the dependencies of Cargo.toml any more");
    let missing = used.difference(&explained).map(|name| format!("docs/DEPENDENCIES.md: no line for {name}"));
    let stale = explained.difference(&used).map(|name| format!("docs/DEPENDENCIES.md: {name} is not used"));
    hold(
        &missing.chain(stale).collect::<Vec<_>>(),
        "keep one line \"| `name` | what for | why this one |\" per direct dependency",
    );
}

#[test]
fn nothing_names_one_machine() {
    // In pieces, so that this file does not find itself.
    let forbidden = [
        concat!("/ro", "ot/"),
        concat!("/wo", "rk/"),
        concat!("/tmp/", "wt/"),
        concat!("/tmp/", "target-"),
        concat!("/opt/", "wheels"),
        concat!("/Us", "ers/"),
        concat!("/ho", "me/"),
        concat!("index.", "crates.io"),
        concat!("static.", "crates.io"),
        concat!("registry.", "npmjs.org"),
        concat!("pypi.", "org/simple"),
        concat!("files.", "pythonhosted"),
        concat!("--index", "-url"),
        concat!("--extra-index", "-url"),
        concat!("--find", "-links"),
        concat!("artifac", "tory"),
    ];
    let mut findings = Vec::new();
    for path in tracked_files() {
        for (number, line) in read(&path).lines().enumerate() {
            // A made-up home directory is a fair example in a unit test.
            let example = |text: &str| text == concat!("/ho", "me/") && path.starts_with("src/");
            for text in forbidden.iter().filter(|text| line.contains(**text) && !example(text)) {
                findings.push(format!("{path}:{}: {text}", number + 1));
            }
            let source = line.strip_prefix("source = ").filter(|_| path == "Cargo.lock");
            if source.is_some_and(|from| from != "\"registry+https://github.com/rust-lang/crates.io-index\"")
            {
                findings.push(format!("{path}:{}: {line}", number + 1));
            }
        }
    }
    hold(&findings, "use $HOME, a temporary folder, or the tool's own default registry");
}

#[test]
fn scripts_are_strict_and_executable() {
    let mut findings = Vec::new();
    let scripts = files_below("scripts").into_iter().chain(files_below(".ci"));
    for path in scripts.filter(|path| path.ends_with(".sh") || path.ends_with(".py") || path == ".ci/run") {
        let text = read(&path);
        let wanted = if path.ends_with(".py") { "#!/usr/bin/env python3" } else { "#!/usr/bin/env bash" };
        if text.lines().next() != Some(wanted) {
            findings.push(format!("{path}:1: does not start with {wanted}"));
        }
        let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
        if !path.ends_with(".py") && first != Some("set -euo pipefail") {
            findings.push(format!("{path}:1: the first command is not `set -euo pipefail`"));
        }
        let mode =
            root().join(&path).metadata().expect("a listed file can be looked at").permissions().mode();
        if mode & 0o111 != 0o111 {
            findings.push(format!("{path}:1: not executable (chmod +x)"));
        }
    }
    hold(&findings, "every script must run by itself and stop at the first error");
}
