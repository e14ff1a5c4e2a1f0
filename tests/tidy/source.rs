//! Reads the project's files for `tidy`: comments and strings taken out, tests told from product code.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One Rust file, seen several ways. All have the same lines, so a line number means the same in each.
pub(crate) struct Source {
    /// Path from the project's root, with `/`.
    pub(crate) path: String,
    /// As it is on disk.
    pub(crate) text: String,
    /// Without comments and without what strings hold.
    pub(crate) code: String,
    /// `code` without test modules.
    pub(crate) product: String,
    /// `text` without comments and test modules.
    pub(crate) product_with_strings: String,
}

impl Source {
    fn new(path: String) -> Self {
        let text = read(&path);
        let code = blank(&text, true);
        let inside = test_lines(&code);
        let only_tests =
            path.ends_with("/tests.rs") || path.contains("/tests/") || path.ends_with("_tests.rs");
        let without_tests = |text: &str| -> String {
            text.lines()
                .enumerate()
                .map(
                    |(number, line)| {
                        if only_tests || inside[number] { "\n".into() } else { format!("{line}\n") }
                    },
                )
                .collect()
        };
        let product = without_tests(&code);
        let product_with_strings = without_tests(&blank(&text, false));
        Self { path, text, code, product, product_with_strings }
    }

    /// The `//!` comment the file starts with.
    pub(crate) fn head(&self) -> String {
        self.text.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n")
    }

    /// The lines that belong to tests only.
    pub(crate) fn tests(&self) -> String {
        let pairs = self.text.lines().zip(self.product.lines().chain(std::iter::repeat("")));
        let test_only = pairs.filter(|(all, product)| !all.is_empty() && product.is_empty());
        test_only.map(|(all, _)| format!("{all}\n")).collect()
    }

    /// Top-level modules of this crate that the product code names, with the line.
    pub(crate) fn modules_used(&self) -> Vec<(usize, String)> {
        let mut used = Vec::new();
        for (at, _) in self.product.match_indices("crate::") {
            let line = self.product[..at].matches('\n').count() + 1;
            used.extend(heads(&self.product[at + 7..]).into_iter().map(|head| (line, head)));
        }
        let depth = self.module_depth();
        let up = "super::".repeat(depth);
        for (at, _) in self.product.match_indices(&up) {
            let line = self.product[..at].matches('\n').count() + 1;
            used.extend(heads(&self.product[at + up.len()..]).into_iter().map(|head| (line, head)));
        }
        used
    }

    /// How many `super::` lead from this file to the crate's root.
    fn module_depth(&self) -> usize {
        let inner = self.path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
        inner.split('/').count()
    }
}

/// First segments of the path, or of every path in the braces, that follows.
fn heads(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else {
        return words(rest)
            .next()
            .filter(|word| rest.starts_with(word))
            .map(str::to_owned)
            .into_iter()
            .collect();
    };
    let mut depth = 0;
    let mut heads = Vec::new();
    let mut expect = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => expect = true,
            c if expect && c.is_alphabetic() => {
                heads.extend(words(&group[at..]).next().map(str::to_owned));
                expect = false;
            }
            _ => {}
        }
    }
    heads
}

/// For each line whether it lies in a `#[cfg(test)]` module or function.
fn test_lines(code: &str) -> Vec<bool> {
    let lines: Vec<&str> = code.lines().collect();
    let mut inside = vec![false; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        if lines[at].trim() == "#[cfg(test)]" {
            let indent = lines[at].len() - lines[at].trim_start().len();
            let close = format!("{}}}", " ".repeat(indent));
            let one_line = lines.get(at + 1).is_some_and(|line| line.trim_end().ends_with(';'));
            let end = if one_line {
                at + 1
            } else {
                (at..lines.len()).find(|line| lines[*line].starts_with(&close)).unwrap_or(lines.len() - 1)
            };
            inside[at..=end].fill(true);
            at = end;
        }
        at += 1;
    }
    inside
}

/// The text with comments (and, if asked, the inside of string and character literals) replaced by blanks.
fn blank(text: &str, strings_too: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let (end, hide) = piece(&chars, at);
        let keep = match hide {
            Hide::Nothing => true,
            Hide::Comment => false,
            Hide::Literal => !strings_too,
        };
        out.extend(chars[at..end].iter().map(|c| if keep || *c == '\n' { *c } else { ' ' }));
        at = end;
    }
    out
}

#[derive(Clone, Copy)]
enum Hide {
    Nothing,
    Comment,
    Literal,
}

/// Where the piece of source that begins at `at` ends, and what it is.
fn piece(chars: &[char], at: usize) -> (usize, Hide) {
    let next = chars.get(at + 1);
    let find = |from: usize, stop: &[char]| {
        (from..chars.len()).find(|i| chars[*i..].starts_with(stop)).map_or(chars.len(), |i| i + stop.len())
    };
    match (chars[at], next) {
        ('/', Some('/')) => (find(at, &['\n']).saturating_sub(1).max(at + 2), Hide::Comment),
        ('/', Some('*')) => (find(at + 2, &['*', '/']), Hide::Comment),
        ('r', Some('"' | '#')) if at == 0 || !is_word(chars[at - 1]) || chars[at - 1] == 'b' => {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            if chars.get(at + 1 + hashes) != Some(&'"') {
                return (at + 1, Hide::Nothing);
            }
            let stop: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            (find(at + 2 + hashes, &stop), Hide::Literal)
        }
        ('"', _) => (quoted(chars, at, '"'), Hide::Literal),
        ('\'', Some('\\')) => (quoted(chars, at, '\''), Hide::Literal),
        ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => (at + 3, Hide::Literal),
        _ => (at + 1, Hide::Nothing),
    }
}

fn quoted(chars: &[char], start: usize, quote: char) -> usize {
    let mut at = start + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Identifiers and words of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

/// Every stretch between `open` and the next `close`.
pub(crate) fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(open).skip(1).filter_map(move |rest| rest.split_once(close).map(|(inner, _)| inner))
}

/// Line number of the first place that holds `needle`.
pub(crate) fn line_of(text: &str, needle: &str) -> usize {
    text.find(needle).map_or(0, |at| text[..at].matches('\n').count() + 1)
}

/// The project's folder.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file; what is not UTF-8 is replaced. A missing file fails the test that asks for it.
pub(crate) fn read(path: &str) -> String {
    let bytes = std::fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Every Rust file below a folder of the project.
pub(crate) fn rust_files(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found.into_iter().filter(|path| path.ends_with(".rs")).map(Source::new).collect()
}

/// Every file git knows (also new ones it does not ignore); all files where this is no git checkout.
pub(crate) fn tracked_files() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let mut paths: Vec<String> = match listed {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            String::from_utf8_lossy(&output.stdout).split('\0').map(str::to_owned).collect()
        }
        _ => {
            let mut found = Vec::new();
            walk(&root(), &mut found);
            found
        }
    };
    paths.retain(|path| root().join(path).is_file());
    paths
}

fn walk(folder: &Path, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != ".git" {
            walk(&path, found);
        } else if let Ok(inner) = path.strip_prefix(root())
            && path.is_file()
        {
            found.push(inner.to_string_lossy().into_owned());
        }
    }
    found.sort();
}
