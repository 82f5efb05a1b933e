//! Builds the mutated copy of the source tree, and finds the mutants that do not compile.

use super::mutant::{Mutant, Name, hash};
use super::run::SIGXCPU;
use super::schema::{self, Schema};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiler errors that the mutated expression itself causes. Any other error, such as one of the borrow checker or
/// in a constant, may come from the switch, and the mutant gets a build of its own.
const OF_THE_MUTANT: [&str; 17] = [
    "E0277", "E0308", "E0369", "E0599", "E0282", "E0283", "E0600", "E0067", "E0368", "E0412", "E0423",
    "E0425", "E0432", "E0433", "E0061", "E0004", "E0271",
];

/// The copy of the source tree in which mutants are compiled.
pub(crate) struct Tree {
    /// The copied tree.
    root: PathBuf,
    /// Cargo's target folder of the copy.
    target: PathBuf,
    /// The mutated package.
    package: String,
    /// The packages whose tests run.
    tested: Vec<String>,
    /// The root module of the mutated package.
    lib: String,
    /// The original text of every file that has mutants, and of the root module.
    originals: BTreeMap<String, String>,
}

/// CPU time in which a process of the build of one mutant must end: a constant may never be evaluated to its end, since
/// lints do not stop the compiler here. Other builds take a minute or two.
const SINGLE_SECONDS: u64 = 300;

/// A mutant's fate before any test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compiled {
    /// It is behind a switch.
    Switch,
    /// It needs a build of its own.
    Single,
    /// It does not compile.
    Unviable,
}

impl Compiled {
    const LETTERS: [(Self, char); 3] = [(Self::Switch, 's'), (Self::Single, '1'), (Self::Unviable, 'u')];

    fn letter(self) -> char {
        Self::LETTERS.iter().find(|(fate, _)| *fate == self).map_or('s', |(_, letter)| *letter)
    }

    fn of_letter(letter: char) -> Option<Self> {
        Self::LETTERS.iter().find(|(_, known)| *known == letter).map(|(fate, _)| *fate)
    }
}

/// A test program, and the folder in which it runs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// Cargo's option that builds it: `--lib` or `--test=NAME`.
    pub(crate) option: String,
    pub(crate) path: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Program {
    /// Whether both are builds of the same test program.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.option, &self.folder) == (&other.option, &other.folder)
    }
}

/// What a build gives: test programs, or the compiler's errors; none if a process exceeded its CPU time.
enum Built {
    Programs(Vec<Program>),
    Errors(Vec<Value>),
}

impl Tree {
    /// Copies the files of the source tree. Files that are equal keep their time, so that cargo builds nothing twice.
    pub(crate) fn copy(from: &Path, files: &[PathBuf], to: &Path, package: &str, lib: &str) -> Result<Self> {
        let known: BTreeSet<PathBuf> = files.iter().map(|file| to.join(file)).collect();
        remove_others(to, &known)?;
        for file in files {
            let bytes =
                fs::read(from.join(file)).with_context(|| format!("cannot read {}", file.display()))?;
            // The mutated files follow in `write`; an equal text keeps their time.
            if !is_mutable(file, lib) || !to.join(file).exists() {
                write_if_changed(&to.join(file), &bytes)?;
            }
        }
        let mut originals = BTreeMap::new();
        for file in files.iter().filter(|file| is_mutable(file, lib)) {
            let text = fs::read_to_string(from.join(file))?;
            originals.insert(file.to_string_lossy().into_owned(), text);
        }
        ensure!(originals.contains_key(lib), "{lib} is not among the files of {}", from.display());
        Ok(Self {
            root: to.to_path_buf(),
            target: to.with_extension("target"),
            package: package.to_string(),
            tested: vec![package.to_string()],
            lib: lib.to_string(),
            originals,
        })
    }

    /// Runs the tests of these packages instead of the mutated package's own.
    #[must_use]
    pub(crate) fn tested_by(self, packages: &[String]) -> Self {
        Self { tested: packages.to_vec(), ..self }
    }

    /// Compiles all mutants in behind switches. Returns what became of each, and the test programs. Mutants that are
    /// known not to compile are left out.
    pub(crate) fn build(
        &self,
        mutants: &[Mutant],
        is_unviable: impl Fn(&Mutant) -> bool,
    ) -> Result<(Vec<Compiled>, Vec<Program>)> {
        let known = |mutant| if is_unviable(mutant) { Compiled::Unviable } else { Compiled::Switch };
        let key = self.key(mutants);
        let mut fates: Vec<Compiled> =
            self.known_fates(&key).unwrap_or_else(|| mutants.iter().map(known).collect());
        loop {
            let schemas = self.write(mutants, &mut fates)?;
            match self.compile()? {
                Built::Programs(programs) => {
                    let fates_file = self.root.with_extension("fates");
                    fs::write(
                        fates_file,
                        format!("{key}\n{}", fates.iter().map(|fate| fate.letter()).collect::<String>()),
                    )?;
                    return Ok((fates, programs));
                }
                Built::Errors(errors) => blame(&errors, &schemas, &mut fates)?,
            }
            let left = fates.iter().filter(|&&fate| fate == Compiled::Switch).count();
            eprintln!("{left} of {} mutants compile behind a switch", mutants.len());
        }
    }

    /// Returns what became of each mutant in the last build, if it had the same mutants and sources. The files of the
    /// copy then stay as they are, and nothing is built again.
    fn known_fates(&self, key: &str) -> Option<Vec<Compiled>> {
        let text = fs::read_to_string(self.root.with_extension("fates")).ok()?;
        let letters = text.strip_prefix(key)?.strip_prefix('\n')?;
        letters.chars().map(Compiled::of_letter).collect()
    }

    /// Returns a hash of the sources and of the mutants with their numbers.
    fn key(&self, mutants: &[Mutant]) -> String {
        let mut text: String = self.originals.values().map(String::as_str).collect();
        for Mutant { name: Name { file, function, change }, .. } in mutants {
            text.extend([file, function, change].map(|part| format!("\t{part}")));
        }
        format!("{:016x}", hash(&text))
    }

    /// Builds the given programs with one mutant alone, in the form in which cargo-mutants would; `None` if it does
    /// not compile.
    pub(crate) fn build_single(
        &self,
        mutant: &Mutant,
        programs: &[&Program],
    ) -> Result<Option<Vec<Program>>> {
        for (file, text) in &self.originals {
            let mut text = text.clone();
            if *file == mutant.name.file {
                text.replace_range(mutant.start..mutant.end, &mutant.replacement);
            }
            write_if_changed(&self.root.join(file), text.as_bytes())?;
        }
        let options: Vec<&str> = programs.iter().map(|program| program.option.as_str()).collect();
        let command = [&["test", "--no-run"], &options[..]].concat();
        Ok(match self.cargo(&command, &self.tested, &SINGLE_SECONDS.to_string())? {
            Built::Errors(_) => None,
            Built::Programs(programs) => Some(programs),
        })
    }

    /// Builds all test programs. The check before it finds most errors in a fraction of the time.
    fn compile(&self) -> Result<Built> {
        match self.cargo(&["check", "--lib"], std::slice::from_ref(&self.package), "unlimited")? {
            Built::Programs(_) => self.cargo(&["test", "--no-run"], &self.tested, "unlimited"),
            errors @ Built::Errors(_) => Ok(errors),
        }
    }

    /// Writes all files with the mutants that are still behind switches.
    fn write(&self, mutants: &[Mutant], fates: &mut [Compiled]) -> Result<BTreeMap<String, Schema>> {
        let mut schemas = BTreeMap::new();
        for (file, text) in &self.originals {
            let own: Vec<(usize, &Mutant)> = mutants
                .iter()
                .enumerate()
                .filter(|(number, mutant)| mutant.name.file == *file && fates[*number] == Compiled::Switch)
                .collect();
            let mut schema =
                schema::compile_in(text, &own).with_context(|| format!("cannot parse {file}"))?;
            for &number in &schema.unviable {
                fates[number] = Compiled::Unviable;
            }
            for &number in &schema.single {
                fates[number] = Compiled::Single;
            }
            if *file == self.lib {
                schema.text.push_str(&schema::switch(mutants.len()));
            }
            write_if_changed(&self.root.join(file), schema.text.as_bytes())?;
            schemas.insert(file.clone(), schema);
        }
        Ok(schemas)
    }

    /// Builds, once more from the start if the linker fails: an incremental build that was interrupted can leave parts
    /// that do not fit together. Each process may use the given CPU time, in seconds.
    fn cargo(&self, command: &[&str], packages: &[String], seconds: &str) -> Result<Built> {
        let built = self.cargo_once(command, packages, seconds)?;
        let is_linking =
            |error: &Value| error["message"].as_str().is_some_and(|text| text.starts_with("linking with"));
        if !matches!(&built, Built::Errors(errors) if errors.iter().any(is_linking)) {
            return Ok(built);
        }
        eprintln!("The linker failed; {} is built from the start", self.package);
        let package = format!("--package={}", self.package);
        let status = Command::new("cargo")
            .args(["clean", "--quiet", &package])
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .status()
            .context("cannot start cargo")?;
        ensure!(status.success(), "cargo clean failed");
        self.cargo_once(command, packages, seconds)
    }

    fn cargo_once(&self, command: &[&str], packages: &[String], seconds: &str) -> Result<Built> {
        let output = Command::new("sh")
            .args(["-c", "ulimit -S -t \"$1\"; shift; exec cargo \"$@\"", "sh", seconds])
            .args(command)
            .args(["--message-format=json", "--quiet"])
            .args(packages.iter().map(|package| format!("--package={package}")))
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            // Lints of the project do not concern mutants.
            .env("RUSTFLAGS", "--cap-lints=allow")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "1")
            .output()
            .context("cannot start cargo")?;
        let mut programs = Vec::new();
        let mut errors = Vec::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(mut message) = serde_json::from_str::<Value>(line) else { continue };
            if message["reason"] == "compiler-message" && message["message"]["level"] == "error" {
                errors.push(message["message"].take());
            } else if message["profile"]["test"] == true
                && let Some(path) = message["executable"].as_str()
            {
                let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
                let name = message["target"]["name"].as_str().unwrap_or_default();
                let kind = message["target"]["kind"][0].as_str().unwrap_or_default();
                programs.push(Program {
                    name: name.to_string(),
                    option: if kind == "lib" { "--lib".to_string() } else { format!("--{kind}={name}") },
                    path: PathBuf::from(path),
                    folder: manifest.parent().unwrap_or(&self.root).to_path_buf(),
                });
            }
        }
        if output.status.success() {
            return Ok(Built::Programs(programs));
        }
        let other = String::from_utf8_lossy(&output.stderr);
        if other.contains(&format!("(signal: {SIGXCPU}")) {
            return Ok(Built::Errors(Vec::new()));
        }
        ensure!(!errors.is_empty(), "cargo failed without an error of the compiler: {other}");
        Ok(Built::Errors(errors))
    }
}

/// Removes the mutants at which the compiler's errors point from the switches.
fn blame(errors: &[Value], schemas: &BTreeMap<String, Schema>, fates: &mut [Compiled]) -> Result<()> {
    let suspects: Vec<_> = errors.iter().map(|error| (error, suspects(error, schemas))).collect();
    let certain: BTreeSet<usize> = suspects.iter().flat_map(|(_, (certain, _))| certain).copied().collect();
    let mut blamed = certain.len();
    for (error, (certain_here, possible)) in suspects {
        let code = error["code"]["code"].as_str().unwrap_or_default();
        let fate = if OF_THE_MUTANT.contains(&code) { Compiled::Unviable } else { Compiled::Single };
        certain_here.iter().for_each(|number| fates[*number] = fate);
        // An error around a mutant that does not compile may only follow from it.
        if possible.is_disjoint(&certain) {
            possible.iter().for_each(|number| fates[*number] = Compiled::Single);
            blamed += possible.len();
        }
    }
    if blamed == 0 {
        let text: Vec<_> = errors.iter().filter_map(|error| error["rendered"].as_str()).take(3).collect();
        bail!("no mutant explains these errors of the compiler:\n{}", text.join("\n"));
    }
    Ok(())
}

/// Returns the mutants in whose own text an error is. If there is none, the mutants of the innermost expression around
/// the error.
fn suspects(error: &Value, schemas: &BTreeMap<String, Schema>) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let mut spans: Vec<&Value> = error["spans"].as_array().into_iter().flatten().collect();
    spans.sort_by_key(|span| span["is_primary"] != true);
    let place = |span: &Value| {
        let schema = schemas.get(span["file_name"].as_str()?)?;
        let byte = |key: &str| usize::try_from(span[key].as_u64()?).ok();
        Some((schema, byte("byte_start")?..byte("byte_end")?))
    };
    for span in &spans {
        let Some((schema, at)) = place(span) else { continue };
        let within =
            schema.inserted.iter().filter(|(range, _)| range.start <= at.start && at.end <= range.end);
        let within: BTreeSet<usize> = within.map(|(_, number)| *number).collect();
        if !within.is_empty() {
            return (within, BTreeSet::new());
        }
    }
    for span in &spans {
        let Some((schema, at)) = place(span) else { continue };
        let around = schema.around.iter().filter(|(range, _)| range.start <= at.start && at.end <= range.end);
        if let Some((_, numbers)) = around.min_by_key(|(range, _)| range.len()) {
            return (BTreeSet::new(), numbers.iter().copied().collect());
        }
    }
    (BTreeSet::new(), BTreeSet::new())
}

/// Returns whether a file belongs to the mutated package's sources.
fn is_mutable(file: &Path, lib: &str) -> bool {
    let folder = Path::new(lib).parent().unwrap_or(Path::new(""));
    file.starts_with(folder) && file.extension().is_some_and(|extension| extension == "rs")
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Removes files that the source tree no longer has: cargo finds test files by itself.
fn remove_others(folder: &Path, known: &BTreeSet<PathBuf>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, known)?;
        } else if !known.contains(&path) && !path.ends_with("Cargo.lock") {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
