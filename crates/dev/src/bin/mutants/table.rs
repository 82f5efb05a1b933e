//! Results: one line per mutant in the target folder, and what the repository keeps of them: counts per function,
//! survivors with their reasons, the results of functions that are not finished, and the page `docs/mutants.md`.

use super::mutant::{Mutant, Name, is_full};
use super::run::Outcome;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Files of the repository with results.
const COUNTS: &str = "tests/mutants/results.tsv";
const SURVIVORS: &str = "tests/mutants/survivors.tsv";
const UNFINISHED: &str = "tests/mutants/unfinished.tsv";
const PAGE: &str = "docs/mutants.md";
const COUNTS_HEAD: &str = "# Mutants per function, written by `make mutants`: file, function, hash of its tokens, caught, of these \
                           by the time limit, unviable, missed.\n";
const SURVIVORS_HEAD: &str = "# Mutants that all tests miss, written by `make mutants`: file, function, change, and the reason why \
                              none need catch it, written by hand.\n";
const UNFINISHED_HEAD: &str = "# Results of functions of which some mutants have none yet, written by `make mutants`: file, function, \
                               change, hash of the function's tokens, outcome, test.\n";

/// Counts of a function whose mutants all have results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    fingerprint: String,
    caught: usize,
    by_limit: usize,
    unviable: usize,
    missed: usize,
}

impl Counts {
    fn total(&self) -> usize {
        self.caught + self.unviable + self.missed
    }
}

/// All known results.
pub(crate) struct Results {
    root: PathBuf,
    log: PathBuf,
    /// Results of single mutants, of this machine and of unfinished functions. Valid while the function's fingerprint
    /// stays.
    own: HashMap<Name, (String, Outcome)>,
    /// The repository's counts by file and function.
    counts: BTreeMap<(String, String), Counts>,
    /// The repository's survivors, with reasons.
    survivors: BTreeMap<Name, String>,
}

impl Results {
    /// Reads the results of the repository at `root` and of this machine.
    pub(crate) fn read(root: &Path, log: &Path) -> Result<Self> {
        let mut results = Self {
            root: root.to_path_buf(),
            log: log.to_path_buf(),
            own: HashMap::new(),
            counts: BTreeMap::new(),
            survivors: BTreeMap::new(),
        };
        let unfinished = rows(&root.join(UNFINISHED), 6)?;
        for fields in unfinished.into_iter().chain(rows(log, 6)?) {
            let outcome = match fields[4].as_str() {
                "caught" => Outcome::Caught(fields[5].clone()),
                "time limit" => Outcome::TimedOut(fields[5].clone()),
                "missed" => Outcome::Missed,
                "unreached" => Outcome::Unreached,
                "unviable" => Outcome::Unviable,
                other => bail!("unknown outcome {other:?} of {}", fields[..3].join(" ")),
            };
            results.own.insert(name(&fields), (fields[3].clone(), outcome));
        }
        for fields in rows(&root.join(COUNTS), 7)? {
            let number = |at: usize| fields[at].parse().with_context(|| format!("{COUNTS}: {}", fields[at]));
            let counts = Counts {
                fingerprint: fields[2].clone(),
                caught: number(3)?,
                by_limit: number(4)?,
                unviable: number(5)?,
                missed: number(6)?,
            };
            results.counts.insert((fields[0].clone(), fields[1].clone()), counts);
        }
        for fields in rows(&root.join(SURVIVORS), 4)? {
            results.survivors.insert(name(&fields), fields[3].clone());
        }
        Ok(results)
    }

    /// Records a result; it survives an interruption.
    pub(crate) fn record(&mut self, mutant: &Mutant, outcome: Outcome) -> Result<()> {
        let line = line(mutant, &outcome);
        let mut log = fs::OpenOptions::new().append(true).create(true).open(&self.log)?;
        log.write_all(format!("{line}\n").as_bytes())?;
        self.own.insert(mutant.name.clone(), (mutant.fingerprint.clone(), outcome));
        Ok(())
    }

    /// Returns the result of a mutant, if its function is unchanged.
    pub(crate) fn own(&self, mutant: &Mutant) -> Option<&Outcome> {
        self.own
            .get(&mutant.name)
            .filter(|(fingerprint, _)| *fingerprint == mutant.fingerprint)
            .map(|(_, outcome)| outcome)
    }

    /// Returns all results of single mutants, of functions as they were then.
    pub(crate) fn earlier(&self) -> impl Iterator<Item = (&Name, &Outcome)> {
        self.own.iter().map(|(name, (_, outcome))| (name, outcome))
    }

    /// Returns whether a mutant is unexplained and survives.
    pub(crate) fn is_open(&self, mutant: &Mutant) -> bool {
        let survives = match self.own(mutant) {
            Some(outcome) => matches!(outcome, Outcome::Missed | Outcome::Unreached),
            None => self.survivors.contains_key(&mutant.name),
        };
        survives && self.survivors.get(&mutant.name).is_none_or(String::is_empty)
    }

    /// Returns whether the repository has counts of the mutant's function in its present form.
    pub(crate) fn is_counted(&self, mutant: &Mutant, of_function: usize) -> bool {
        self.counts
            .get(&(mutant.name.file.clone(), mutant.name.function.clone()))
            .is_some_and(|counts| counts.fingerprint == mutant.fingerprint && counts.total() == of_function)
    }

    /// Rewrites the repository's files.
    pub(crate) fn write(&mut self, selected: &[Mutant]) -> Result<()> {
        let mut counts = BTreeMap::new();
        let mut survivors = BTreeMap::new();
        let mut left: BTreeMap<String, usize> = BTreeMap::new();
        let mut unfinished = UNFINISHED_HEAD.to_string();
        for ((file, function), mutants) in by_function(selected) {
            let Some((row, missed)) = self.count(&mutants) else {
                for mutant in mutants {
                    match self.own(mutant) {
                        Some(outcome) => writeln!(unfinished, "{}", line(mutant, outcome))?,
                        None => *left.entry(file.clone()).or_default() += 1,
                    }
                    // The reason may hold for the new form of the function, too.
                    if let Some(reason) = self.survivors.get(&mutant.name).filter(|reason| !reason.is_empty())
                    {
                        survivors.insert(mutant.name.clone(), reason.clone());
                    }
                }
                continue;
            };
            for name in missed {
                let reason = self.survivors.get(&name).cloned().unwrap_or_default();
                survivors.insert(name, reason);
            }
            counts.insert((file, function), row);
        }
        (self.counts, self.survivors) = (counts, survivors);
        let mut text = COUNTS_HEAD.to_string();
        for ((file, function), row) in &self.counts {
            let Counts { fingerprint, caught, by_limit, unviable, missed } = row;
            writeln!(text, "{file}\t{function}\t{fingerprint}\t{caught}\t{by_limit}\t{unviable}\t{missed}")?;
        }
        save(&self.root.join(COUNTS), &text)?;
        let mut text = SURVIVORS_HEAD.to_string();
        for (Name { file, function, change }, reason) in &self.survivors {
            writeln!(text, "{file}\t{function}\t{change}\t{reason}")?;
        }
        save(&self.root.join(SURVIVORS), &text)?;
        save(&self.root.join(UNFINISHED), &unfinished)?;
        save(&self.root.join(PAGE), &self.page(&left))
    }

    /// Counts the results of one function; `None` while some are missing.
    fn count(&self, mutants: &[&Mutant]) -> Option<(Counts, Vec<Name>)> {
        let first = mutants[0];
        let mut missed = Vec::new();
        let mut row = Counts { fingerprint: first.fingerprint.clone(), ..Counts::default() };
        if mutants.iter().all(|mutant| self.own(mutant).is_some()) {
            for mutant in mutants {
                match self.own(mutant)? {
                    Outcome::Caught(_) => row.caught += 1,
                    Outcome::TimedOut(_) => (row.caught, row.by_limit) = (row.caught + 1, row.by_limit + 1),
                    Outcome::Unviable => row.unviable += 1,
                    Outcome::Missed | Outcome::Unreached => missed.push(mutant.name.clone()),
                }
            }
            row.missed = missed.len();
            return Some((row, missed));
        }
        if !self.is_counted(first, mutants.len()) {
            return None;
        }
        // Another machine's counts, with this machine's new results of its survivors.
        row.clone_from(self.counts.get(&(first.name.file.clone(), first.name.function.clone()))?);
        for mutant in mutants.iter().filter(|mutant| self.survivors.contains_key(&mutant.name)) {
            match self.own(mutant) {
                Some(Outcome::Caught(_) | Outcome::TimedOut(_)) => {
                    (row.caught, row.missed) = (row.caught + 1, row.missed - 1);
                }
                _ => missed.push(mutant.name.clone()),
            }
        }
        Some((row, missed))
    }

    /// Returns the page for readers.
    fn page(&self, left: &BTreeMap<String, usize>) -> String {
        #[derive(Default)]
        struct Line {
            functions: usize,
            counts: Counts,
            explained: usize,
            left: usize,
        }
        let mut lines: BTreeMap<(bool, String), Line> = BTreeMap::new();
        for ((file, _), row) in &self.counts {
            let line = lines.entry(part(file)).or_default();
            line.functions += 1;
            line.counts.caught += row.caught;
            line.counts.by_limit += row.by_limit;
            line.counts.unviable += row.unviable;
            line.counts.missed += row.missed;
        }
        let is_explained = |name: &Name, reason: &str| {
            !reason.is_empty() && self.counts.contains_key(&(name.file.clone(), name.function.clone()))
        };
        for (name, _) in self.survivors.iter().filter(|(name, reason)| is_explained(name, reason)) {
            lines.entry(part(&name.file)).or_default().explained += 1;
        }
        for (file, mutants) in left {
            lines.entry(part(file)).or_default().left += mutants;
        }
        let mut page = include_str!("page.txt").to_string();
        for ((_, part), line) in &lines {
            let Line { functions, counts, explained, left } = line;
            let Counts { caught, by_limit, unviable, missed, .. } = counts;
            let open = missed - explained;
            let _ = writeln!(
                page,
                "| {part} | {functions} | {caught} | {by_limit} | {unviable} | {explained} | {open} | {left} |"
            );
        }
        page.push_str("\n## Survivors\n\n| Function | Change | Why no test need catch it |\n|---|---|---|\n");
        for (Name { file, function, change }, reason) in &self.survivors {
            let reason = if reason.is_empty() { "open" } else { reason };
            let file = file.strip_prefix("crates/core/src/").unwrap_or(file);
            let change = change.replace('|', "\\|");
            let _ = writeln!(page, "| `{function}` in `{file}` | `{change}` | {reason} |");
        }
        page
    }
}

/// Returns the line of a result.
fn line(mutant: &Mutant, outcome: &Outcome) -> String {
    let (word, test) = match outcome {
        Outcome::Caught(test) => ("caught", test.as_str()),
        Outcome::TimedOut(test) => ("time limit", test.as_str()),
        Outcome::Missed => ("missed", ""),
        Outcome::Unreached => ("unreached", ""),
        Outcome::Unviable => ("unviable", ""),
    };
    let Name { file, function, change } = &mutant.name;
    [file, function, change, &mutant.fingerprint, word, test].join("\t")
}

/// Returns the mutants by file and function.
pub(crate) fn by_function(mutants: &[Mutant]) -> BTreeMap<(String, String), Vec<&Mutant>> {
    let mut functions: BTreeMap<_, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        functions.entry((mutant.name.file.clone(), mutant.name.function.clone())).or_default().push(mutant);
    }
    functions
}

/// Returns the line of the page on which a file counts; files of the sample come last.
fn part(file: &str) -> (bool, String) {
    let path = file.strip_prefix("crates/core/src/").unwrap_or(file);
    let module = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
    if is_full(file) { (false, format!("`{module}`")) } else { (true, format!("`{module}`, sample")) }
}

fn name(fields: &[String]) -> Name {
    Name { file: fields[0].clone(), function: fields[1].clone(), change: fields[2].clone() }
}

/// Reads the rows of a file of tab-separated values; a missing file has none.
fn rows(path: &Path, fields: usize) -> Result<Vec<Vec<String>>> {
    let Ok(text) = fs::read_to_string(path) else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let row: Vec<String> = line.split('\t').map(str::to_string).collect();
        if row.len() != fields {
            bail!("{}: expected {fields} fields: {line}", path.display());
        }
        rows.push(row);
    }
    Ok(rows)
}

fn save(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
