//! Repository conventions: every file has a header, files and functions are short, nothing is unfinished, and facts
//! stated in two places agree.
//!
//! The tests read the repository as text. `tests/fences.sh` checks module dependencies, and `tests/manifests.rs`
//! checks the manifests.

mod citations;
mod modules;
mod mutants;
mod prose;
mod reference;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of lines of a file and of a function. A line `// long because: …` lifts the limit: for a file among
/// its opening comments, for a function right above it.
const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
const LONG_BECAUSE: &str = "// long because: ";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every text file of the repository by path, without build results.
fn files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository can be read") {
            let path: PathBuf = entry.expect("an entry can be read").path();
            let name = relative(&path);
            // In a linked work tree, .git is a file.
            if matches!(name.as_str(), "target" | ".git") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push((name, text));
            }
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).expect("found below the root").to_string_lossy().into_owned()
}

fn sources() -> Vec<(String, String)> {
    files().into_iter().filter(|(name, _)| name.ends_with(".rs")).collect()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn assert_none(what: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{what}:\n  {}", breaches.join("\n  "));
}

/// Returns the text with comments, strings and character literals blanked out, so that only code is left.
fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = end_of_non_code(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    out
}

/// Returns the end of the comment, string or character literal that begins at `at`; `at` itself if none does.
fn end_of_non_code(chars: &[char], at: usize) -> usize {
    let get = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let find = |from: usize, pattern: &[char]| {
        (from..chars.len())
            .find(|&i| chars[i..].starts_with(pattern))
            .map_or(chars.len(), |i| i + pattern.len())
    };
    let in_word = at > 0 && (get(at - 1).is_alphanumeric() || get(at - 1) == '_');
    match (get(at), get(at + 1)) {
        ('/', '/') => (at..chars.len()).find(|&i| chars[i] == '\n').unwrap_or(chars.len()),
        ('/', '*') => find(at + 2, &['*', '/']),
        ('"', _) => end_of_quoted(chars, at + 1, '"'),
        ('r', '"' | '#') if !in_word || get(at - 1) == 'b' => {
            let hashes = (at + 1..).take_while(|&i| get(i) == '#').count();
            if get(at + 1 + hashes) != '"' {
                return at; // a raw identifier
            }
            let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            find(at + 2 + hashes, &close)
        }
        ('\'', '\\') => end_of_quoted(chars, at + 1, '\''),
        ('\'', _) if get(at + 2) == '\'' => at + 3,
        _ => at,
    }
}

fn end_of_quoted(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// Returns the functions of a file: name, first line and last line, counted from zero.
fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(keyword) = words.iter().position(|&word| word == "fn") else { continue };
        let before = ["pub", "const", "async", "unsafe", "extern", "default"];
        if !words[..keyword].iter().all(|w| before.iter().any(|b| w.starts_with(b)) || w.ends_with(')')) {
            continue; // a type `fn(…)` within a line
        }
        let name = words.get(keyword + 1).map_or("", |w| w.split(['(', '<']).next().unwrap_or_default());
        if let Some(last) = end_of_body(&lines, first) {
            found.push((name.to_owned(), first, last));
        }
    }
    found
}

/// Returns the line of the closing brace of the function that begins at `first`; `None` for a declaration.
fn end_of_body(lines: &[&str], first: usize) -> Option<usize> {
    let (mut braces, mut brackets) = (0, 0);
    for (number, line) in lines.iter().enumerate().skip(first) {
        for c in line.chars() {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                ';' if braces == 0 && brackets == 0 => return None,
                '{' => braces += 1,
                '}' => {
                    braces -= 1;
                    if braces == 0 {
                        return Some(number);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

#[test]
fn every_source_file_has_a_header_comment() {
    let breaches: Vec<String> =
        sources().into_iter().filter(|(_, text)| !text.starts_with("//! ")).map(|(name, _)| name).collect();
    assert_none("begin with a `//! ` comment that describes the file", &breaches);
}

#[test]
fn long_files_give_a_reason() {
    let breaches: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| text.lines().count() > FILE_LINES)
        .filter(|(_, text)| {
            !text.lines().take_while(|line| line.starts_with("//")).any(|line| line.starts_with(LONG_BECAUSE))
        })
        .map(|(name, text)| format!("{name}: {} lines", text.lines().count()))
        .collect();
    assert_none(
        &format!("split files longer than {FILE_LINES} lines, or give a reason in `{LONG_BECAUSE}…`"),
        &breaches,
    );
}

#[test]
fn long_functions_give_a_reason() {
    let mut breaches = Vec::new();
    for (file, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (name, first, last) in functions(&code(&text)) {
            let above = lines[..first].iter().rev().take_while(|line| {
                let line = line.trim();
                line.starts_with("//") || line.starts_with("#[")
            });
            let length = last + 1 - first;
            if length > FUNCTION_LINES && !above.into_iter().any(|line| line.trim().starts_with(LONG_BECAUSE))
            {
                breaches.push(format!("{file}:{}: {name} has {length} lines", first + 1));
            }
        }
    }
    assert_none(
        &format!(
            "split functions longer than {FUNCTION_LINES} lines, or give a reason above in `{LONG_BECAUSE}…`"
        ),
        &breaches,
    );
}

#[test]
fn function_lengths_are_measured_correctly() {
    let text = r##"
impl A {
    pub(crate) async fn a<'a>(x: &'a str) -> char {
        let _ = ("}", '}', '\'', b'}', r#""}"#);
        // }
        if x.is_empty() {
        }
        '{'
    }
}
trait B {
    fn b(x: [u8; 2]);
}
fn c() {}
"##;
    assert_eq!(functions(&code(text)), [("a".to_owned(), 2, 8), ("c".to_owned(), 13, 13)]);
}

#[test]
fn no_unfinished_code_is_committed() {
    let mut breaches = Vec::new();
    for (file, text) in sources() {
        for (number, line) in code(&text).lines().enumerate() {
            for word in ["todo!", "unimplemented!", "#[ignore", "#[should_panic", "dbg!"] {
                if line.contains(word) {
                    breaches.push(format!("{file}:{}: {word}", number + 1));
                }
            }
        }
    }
    assert_none("finish or remove it", &breaches);
}

/// `grep -q` ends at the first match. With `pipefail`, the pipe then fails if the command before it writes more.
#[test]
fn no_script_pipes_into_a_grep_that_ends_early() {
    let scripts = files().into_iter().filter(|(name, _)| name.ends_with(".sh"));
    let breaches: Vec<String> = scripts
        .flat_map(|(name, text)| {
            let lines = text.lines().enumerate().filter(|(_, line)| line.contains("| grep -q"));
            lines.map(|(at, _)| format!("{name}:{}", at + 1)).collect::<Vec<_>>()
        })
        .collect();
    assert_none("compare the output, as in `[[ $(command) == *text* ]]`", &breaches);
}

/// `grep -c` fails if it counts nothing, and `set -e` then ends the script.
#[test]
fn scripts_count_with_grep_also_if_nothing_matches() {
    let counts = |line: &str| {
        let mut calls = line.split("grep -").skip(1).map(|call| call.split(' ').next().unwrap_or_default());
        line.contains("$(") && calls.any(|flags| flags.contains('c'))
    };
    assert!(counts("n=$(($(grep -vc x file) * 2))") && !counts("n=$(grep -v x file)"));
    let scripts = files().into_iter().filter(|(name, _)| name.ends_with(".sh"));
    let breaches: Vec<String> = scripts
        .flat_map(|(name, text)| {
            let lines = text.lines().enumerate();
            let lines = lines.filter(|(_, line)| counts(line) && !line.contains("|| true"));
            lines.map(|(at, _)| format!("{name}:{}", at + 1)).collect::<Vec<_>>()
        })
        .collect();
    assert_none("add `|| true` in the command substitution", &breaches);
}

#[test]
fn no_file_contains_a_path_of_a_developers_machine() {
    // In two parts each, so that this file does not match itself.
    let places = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/tm", "p/"),
        concat!("/Us", "ers/"),
    ];
    let mut breaches = Vec::new();
    for (file, text) in files() {
        for (number, line) in text.lines().enumerate() {
            for place in places {
                if line.contains(place) {
                    breaches.push(format!("{file}:{}: {place}", number + 1));
                }
            }
        }
    }
    assert_none("use no path outside the repository; tests use a temporary folder", &breaches);
}

/// Returns the value of the first line `key = "value"` of a TOML text.
fn toml_string(text: &str, key: &str) -> String {
    text.lines()
        .find_map(|line| {
            line.strip_prefix(key)?
                .trim_start()
                .strip_prefix('=')?
                .trim()
                .strip_prefix('"')?
                .strip_suffix('"')
        })
        .unwrap_or_else(|| panic!("no line `{key} = \"…\"`"))
        .to_owned()
}

#[test]
fn toolchain_version_is_the_same_everywhere() {
    let channel = toml_string(&read("rust-toolchain.toml"), "channel");
    let minimum = toml_string(&read("Cargo.toml"), "rust-version");
    assert!(
        channel.starts_with(&format!("{minimum}.")),
        "Cargo.toml asks for Rust {minimum}, rust-toolchain.toml pins {channel}"
    );
    let docker = read("Dockerfile");
    assert!(
        docker.contains(&format!("\nFROM rust:{channel}-slim-trixie AS build\n")),
        "the Dockerfile builds with Rust {channel}"
    );
    assert!(
        docker.contains(&format!("RUSTUP_TOOLCHAIN={channel} ")),
        "the Dockerfile sets rustup to Rust {channel}"
    );
}

#[test]
fn every_fidelity_row_names_an_existing_test() {
    let Ok(text) = fs::read_to_string(root().join("FIDELITY.md")) else { return };
    let sources = sources();
    let functions: BTreeSet<String> =
        sources.iter().flat_map(|(_, text)| functions(&code(text))).map(|(name, ..)| name).collect();
    let (mut breaches, mut rows, mut in_table) = (Vec::new(), 0, false);
    for (number, line) in text.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|') else {
            in_table = false;
            continue;
        };
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default().trim();
        if !in_table {
            in_table = last.eq_ignore_ascii_case("test");
            continue;
        }
        if last.chars().all(|c| matches!(c, '-' | ':' | ' ')) {
            continue;
        }
        rows += 1;
        let named: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        let known = |name: &&str| functions.contains(*name) || root().join(name).exists();
        if named.is_empty() || !named.iter().all(known) {
            breaches.push(format!("FIDELITY.md:{}: {last}", number + 1));
        }
    }
    assert_none("the last column must name existing test functions or files, in backticks", &breaches);
    assert!(rows > 0, "FIDELITY.md has a table whose last column is headed Test");
}

/// Returns the numbered folders of examples/ in order. The others are programs.
fn examples() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root().join("examples"))
        .expect("there are examples")
        .map(|entry| entry.expect("an entry can be read"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    names.sort();
    names
}

#[test]
fn examples_and_rows_of_their_table_match() {
    let rows: Vec<String> = read("examples/README.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| [")?.split_once(']'))
        .map(|(name, rest)| {
            assert!(
                rest.starts_with(&format!("({name}) ")),
                "examples/README.md: the row of {name} links to its folder"
            );
            name.to_owned()
        })
        .collect();
    assert_eq!(rows, examples(), "the rows of examples/README.md, and the folders");
}

#[test]
fn every_example_follows_the_syntax_of_the_readme() {
    let mut breaches = Vec::new();
    for example in examples() {
        let namespace = example.split_once('-').expect("a number, then a name").1;
        let steps = read(&format!("examples/{example}/steps.txt"));
        let lines: Vec<&str> =
            steps.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        let mut wrong = |line: &str| breaches.push(format!("examples/{example}/steps.txt: {line}"));
        for (number, line) in lines.iter().enumerate() {
            if line.starts_with("title ") != (number == 0) || !is_step(line, &format!("examples/{example}")) {
                wrong(line);
            }
        }
        if lines
            .iter()
            .skip_while(|line| !line.starts_with("finally "))
            .any(|line| !line.starts_with("finally "))
        {
            wrong("`finally` lines must come last");
        }
        for line in [
            format!("finally kubectl delete all --all --namespace {namespace}"),
            format!("finally kubectl delete namespace {namespace} --wait=false --ignore-not-found"),
        ] {
            if !lines.contains(&line.as_str()) {
                wrong(&format!("no line `{line}`"));
            }
        }
    }
    assert_none("examples/README.md specifies all steps", &breaches);
}

/// Reports whether a line is a step as specified in examples/README.md, and the files it names exist.
fn is_step(line: &str, folder: &str) -> bool {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    match verb {
        "title" | "say" | "only" => !rest.trim().is_empty(),
        "kubectl" | "supercargo" => {
            let words: Vec<&str> = rest.split(' ').collect();
            let files = words.windows(2).filter(|w| matches!(w[0], "-f" | "--patch-file")).map(|w| w[1]);
            words
                .iter()
                .all(|word| !word.is_empty() && !word.contains(['\'', '"', '$', '|', '>', '<', ';', '*']))
                && files.into_iter().all(|file| root().join(folder).join(file).is_file())
        }
        "since" => rest.strip_prefix("1.").is_some_and(|minor| minor.parse::<u32>().is_ok()),
        "finally" => rest.starts_with("kubectl ") && is_step(rest, folder),
        "expect" => rest.split_once(' ').is_some_and(|(pods, what)| !pods.is_empty() && is_expectation(what)),
        _ => false,
    }
}

fn is_expectation(what: &str) -> bool {
    let (verb, rest) = what.split_once(' ').unwrap_or((what, ""));
    let reason = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphabetic());
    match verb {
        "on" => !rest.is_empty() && !rest.contains(' '),
        "placed" => rest.parse::<u32>().is_ok(),
        "spread" => rest.strip_prefix("over ").and_then(|rest| rest.split_once(": ")).is_some_and(
            |(label, counts)| {
                let counts: Result<Vec<u32>, _> = counts.split(' ').map(str::parse).collect();
                !label.is_empty() && counts.is_ok_and(|counts| counts.is_sorted_by(|a, b| a >= b))
            },
        ),
        "waiting" | "event" => {
            rest.split_once(": ").is_some_and(|(name, text)| reason(name) && !text.is_empty())
        }
        "no" => rest.strip_prefix("event ").is_some_and(reason),
        _ => false,
    }
}

#[test]
fn build_context_of_the_image_has_every_included_file() {
    let ignored = read(".dockerignore");
    let ignored: Vec<&str> =
        ignored.lines().filter(|line| line.starts_with('/')).map(|line| &line[1..]).collect();
    assert!(ignored.contains(&"target"), "{ignored:?}");
    let mut breaches = Vec::new();
    let mut included = 0;
    for (name, text) in sources() {
        let is_test = name.ends_with("tests.rs") || name.contains("/tests/") || name.starts_with("tests/");
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for macro_name in ["include_str!(\"", "include_bytes!(\""] {
            for part in code.split(macro_name).skip(1).filter(|_| !is_test) {
                let Some((path, _)) = part.split_once('"') else { continue };
                let path = root().join(&name).parent().expect("a file has a folder").join(path);
                let Ok(path) = path.canonicalize() else { continue };
                let path = relative(&path);
                included += 1;
                if ignored.iter().any(|ignored| path.split('/').next() == Some(ignored)) {
                    breaches.push(format!("{name}: {path}"));
                }
            }
        }
    }
    assert!(included > 10, "{included}");
    assert_none("included files that .dockerignore leaves out", &breaches);
}
