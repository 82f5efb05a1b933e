//! Text that people read: links and cited files exist, comments fit the line, and no idiom of the banned list returns.

use super::{assert_none, files, root};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Maximum length of a comment line in characters: code has 110 (`rustfmt.toml`); a link or a table row needs more.
const COMMENT_COLUMNS: usize = 120;

/// Idioms and the field's terms that replace them. Names count as words: underscores separate.
const BANNED: [(&str, &str); 22] = [
    ("whoever", "the caller, the reader, a client"),
    ("somebody", "a pod, a user, another scheduler"),
    ("nobody", "no pod, no caller"),
    ("anybody", "any pod, any caller"),
    ("in mind", "hypothetical"),
    ("sent away", "evicted"),
    ("send away", "evict"),
    ("sends away", "evicts"),
    ("slip of the pen", "typo"),
    ("fresh look", "full evaluation"),
    ("made from memory", "cached"),
    ("from memory", "cached"),
    ("stumbles over", "panics on"),
    ("told of", "notified of"),
    ("tells of", "reports"),
    ("tell of", "report"),
    ("has its turn", "is processed"),
    ("fits nowhere", "is unschedulable"),
    ("thinks nothing", "no-op"),
    ("what is remembered", "the cache"),
    ("made anew", "rebuilt"),
    ("computed anew", "recomputed"),
];

/// Returns the words of a text in lower case, one space between two, so that a line break does not hide an idiom.
fn words(text: &str) -> String {
    let text: String = text
        .replace("///", " ")
        .replace("//", " ")
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || c == '\'' {
                c.to_ascii_lowercase()
            } else if c.is_whitespace() || c == '_' {
                ' '
            } else {
                '.'
            }
        })
        .collect();
    format!(" {} ", text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn is_text(name: &str) -> bool {
    [".rs", ".md", ".sh", ".yaml", ".toml"].iter().any(|end| name.ends_with(end))
        && !name.starts_with("tests/golden/")
        && name != "tests/tidy/prose.rs"
}

#[test]
fn no_text_uses_a_banned_idiom() {
    let mut breaches = Vec::new();
    for (name, text) in files().into_iter().filter(|(name, _)| is_text(name)) {
        let words = words(&text);
        for (idiom, instead) in BANNED {
            for at in words.match_indices(&format!(" {idiom} ")).map(|(at, _)| at) {
                let from = words[..at].char_indices().rev().nth(40).map_or(0, |(at, _)| at);
                let to = words[at..].char_indices().nth(60).map_or(words.len(), |(more, _)| at + more);
                breaches.push(format!("{name}: \"…{}…\": say {instead}", &words[from..to]));
            }
        }
    }
    assert_none("idioms instead of standard terms", &breaches);
}

#[test]
fn an_idiom_is_found_across_a_line_break_and_in_a_name() {
    assert!(words("/// A pod sent\n    /// away.").contains(" sent away."));
    assert!(words("fn pods_sent_away_return()").contains(" sent away return"));
}

#[test]
fn comment_lines_fit_the_limit() {
    let mut breaches = Vec::new();
    for (name, text) in files().into_iter().filter(|(name, _)| name.ends_with(".rs")) {
        for (number, line) in text.lines().enumerate() {
            let is_long = line.trim_start().starts_with("//") && line.chars().count() > COMMENT_COLUMNS;
            // An address cannot be wrapped.
            if is_long && !line.contains("://") && !line.contains(super::LONG_BECAUSE) {
                breaches.push(format!("{name}:{}", number + 1));
            }
        }
    }
    assert_none(&format!("comment lines longer than {COMMENT_COLUMNS} characters"), &breaches);
}

/// Returns Markdown without its fenced code blocks.
fn without_blocks(text: &str) -> String {
    let mut is_code = false;
    let prose = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    prose.collect::<Vec<_>>().join("\n")
}

/// Returns the anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Resolves `.` and `..` of a path below the root of the repository.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::Normal(name) => out.push(name),
            _ => {}
        }
    }
    out
}

#[test]
fn every_link_of_a_page_has_a_target() {
    let pages = files();
    let mut breaches = Vec::new();
    for (name, text) in pages.iter().filter(|(name, _)| name.ends_with(".md")) {
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        for link in without_blocks(text).split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let (target, heading) = link.0.split_once('#').map_or((link.0, None), |(to, at)| (to, Some(at)));
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let path = if target.is_empty() { PathBuf::from(name) } else { normal(&folder.join(target)) };
            if !root().join(&path).exists() {
                breaches.push(format!("{name}: {}", link.0));
                continue;
            }
            let Some((_, page)) = pages.iter().find(|(name, _)| Path::new(name) == path) else { continue };
            let has = |wanted: &str| {
                let prose = without_blocks(page);
                prose.lines().any(|line| line.starts_with('#') && anchor(line) == wanted)
            };
            if heading.is_some_and(|heading| !has(heading)) {
                breaches.push(format!("{name}: {} (no such heading)", link.0));
            }
        }
    }
    assert_none("links without a target", &breaches);
}

/// Returns the comments of a file; of a page, its prose.
fn prose(name: &str, text: &str) -> String {
    let after = |mark: &str| {
        let comments = text.lines().filter_map(|line| line.split_once(mark).map(|(_, rest)| rest));
        comments.collect::<Vec<_>>().join("\n")
    };
    match Path::new(name).extension().and_then(|end| end.to_str()) {
        Some("md") => without_blocks(text),
        Some("rs") => after("//"),
        _ => after("#"),
    }
}

/// Returns the file names and paths that a text cites in backticks, without placeholders (`NAME.rs`) and patterns.
fn cited(text: &str) -> Vec<&str> {
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_file = |word: &&str| {
        let ends =
            [".rs", ".md", ".sh", ".toml"].iter().any(|end| word.ends_with(end) && word.len() > end.len());
        let is_path = word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        ends && is_path && !word.split('/').any(|part| part.starts_with("NAME"))
    };
    quoted.filter(is_file).collect()
}

#[test]
fn every_cited_file_exists() {
    let pages = files();
    let paths: BTreeSet<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    let names: BTreeSet<&str> = paths.iter().filter_map(|path| path.rsplit('/').next()).collect();
    let mut breaches = Vec::new();
    for (name, text) in &pages {
        let is_read =
            [".md", ".rs", ".sh", ".toml", ".yaml", "Makefile"].iter().any(|end| name.ends_with(end));
        if !is_read || name == "tests/tidy/prose.rs" {
            continue;
        }
        for word in cited(&prose(name, text)) {
            let exists = if word.contains('/') {
                let ends = format!("/{}", normal(Path::new(word)).display());
                paths.iter().any(|path| *path == &ends[1..] || path.ends_with(&ends))
            } else {
                names.contains(word)
            };
            if !exists {
                breaches.push(format!("{name}: {word}"));
            }
        }
    }
    assert_none("cited files that do not exist", &breaches);
}

#[test]
fn citations_are_recognized() {
    assert_eq!(cited("see `src/run.rs` and `a.b`, `NAME.rs`, `cargo x.rs`"), ["src/run.rs"]);
    assert_eq!(anchor("## What's in `a-b`, 2?"), "whats-in-a-b-2");
    assert_eq!(normal(Path::new("docs/../src/./run.rs")), Path::new("src/run.rs"));
}
