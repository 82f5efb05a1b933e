//! Runs tests against mutants: measures every test without a mutant first, then runs only the tests that reach a
//! mutant, and stops at the first one that fails.

use super::build::{Program, Tree};
use super::mutant::{Mutant, Name};
use anyhow::{Context, Result, ensure};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// A test may use five times its unmutated time: mutants that loop forever end here. It is CPU time, so that a busy
/// machine does not decide. The least limit is far above the start of a process.
const TIMES_BASELINE: f64 = 5.0;
const LEAST_LIMIT_SECONDS: u64 = 4;
/// Address space of a test, in KiB: a mutant that allocates forever ends here. The largest test uses a tenth of it.
const MEMORY_KIB: u64 = 4 << 20;
/// What a test that caught no mutant of a file yet counts as having caught: a fiftieth puts fast tests before slow
/// ones, and tests with success before both.
const CAUGHT_NONE: f64 = 0.02;
/// A test of this length waits for the second round, even if it caught mutants of the file: survivors would pay for
/// all of it.
const LONG_SECONDS: f64 = 4.0;
/// Test programs that are built first for a mutant that needs its own build: most mutants are caught by them, and a
/// build of all programs takes many times as long.
const FIRST_PROGRAMS: usize = 4;
/// Seed of tests that draw random cases, so that a result can be repeated.
const RANDOM_SEED: &str = "1";

/// How a mutant ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// This test failed.
    Caught(String),
    /// This test did not end within its limit.
    TimedOut(String),
    /// Every test that reaches it passes.
    Missed,
    /// No test reaches it.
    Unreached,
    /// It does not compile.
    Unviable,
}

/// One test of a program.
pub(crate) struct Test {
    program: Program,
    name: String,
    /// Seconds without a mutant.
    seconds: f64,
    /// Mutants that it reaches.
    reached: HashSet<usize>,
}

impl Test {
    /// Reads a line of `measure`.
    fn read(program: &Program, line: &str) -> Option<Self> {
        let [name, seconds, reached] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        let reached = reached.split_whitespace().map(|number| number.parse().ok());
        Some(Self {
            program: program.clone(),
            name: name.to_string(),
            seconds: seconds.parse().ok()?,
            reached: reached.collect::<Option<_>>()?,
        })
    }

    fn title(&self) -> String {
        format!("{}: {}", self.program.name, self.name)
    }
}

/// All tests, and which of them caught mutants where.
pub(crate) struct Tests {
    tests: Vec<Test>,
    /// Caught mutants by file and test.
    caught: Mutex<HashMap<(String, usize), usize>>,
}

impl Tests {
    /// Runs every test without a mutant, and records what it reaches. Fails if a test fails. Programs that are
    /// unchanged since the last run are known from `log`.
    pub(crate) fn measure(programs: &[Program], log: &Path) -> Result<Self> {
        let known = std::fs::read_to_string(log).unwrap_or_default();
        let mut tests = Vec::new();
        let mut text = String::new();
        for program in programs {
            let built = std::fs::metadata(&program.path)?.modified()?.duration_since(UNIX_EPOCH)?.as_nanos();
            let stamp = format!("{}\t{built}\t", program.path.display());
            let mut lines: Vec<String> =
                known.lines().filter_map(|line| line.strip_prefix(&stamp)).map(str::to_string).collect();
            if lines.is_empty() {
                for name in list(program)? {
                    lines.push(measure(program, &name, &log.with_extension("reached"))?);
                }
            }
            for line in lines {
                text.push_str(&format!("{stamp}{line}\n"));
                tests.push(Test::read(program, &line).with_context(|| format!("{}: {line}", log.display()))?);
            }
        }
        std::fs::write(log, text)?;
        let total: f64 = tests.iter().map(|test| test.seconds).sum();
        eprintln!("{} tests pass without a mutant in {total:.0} s", tests.len());
        Ok(Self { tests, caught: Mutex::default() })
    }

    /// Counts earlier results, so that the likeliest tests come first from the start.
    pub(crate) fn learn<'a>(&self, earlier: impl Iterator<Item = (&'a Name, &'a Outcome)>) {
        let by_title: HashMap<String, usize> =
            self.tests.iter().enumerate().map(|(at, test)| (test.title(), at)).collect();
        for (name, outcome) in earlier {
            let (Outcome::Caught(title) | Outcome::TimedOut(title)) = outcome else { continue };
            if let Some(&at) = by_title.get(title) {
                self.count(name, at);
            }
        }
    }

    /// Counts a mutant that a test caught.
    fn count(&self, name: &Name, at: usize) {
        let mut caught = self.caught.lock().unwrap_or_else(PoisonError::into_inner);
        *caught.entry((name.file.clone(), at)).or_default() += 1;
    }

    /// Returns for each test how many mutants of the file it caught.
    fn caught_in(&self, file: &str) -> Vec<usize> {
        let caught = self.caught.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |at| caught.get(&(file.to_owned(), at)).copied().unwrap_or(0);
        (0..self.tests.len()).map(of).collect()
    }

    /// Tests a mutant that is behind a switch. `None` if its tests do not fit in the time.
    pub(crate) fn test(
        &self,
        number: usize,
        name: &Name,
        budget: Option<Duration>,
    ) -> Result<Option<Outcome>> {
        let reaching: Vec<usize> =
            (0..self.tests.len()).filter(|&at| self.tests[at].reached.contains(&number)).collect();
        if reaching.is_empty() {
            return Ok(Some(Outcome::Unreached));
        }
        let active = number.to_string();
        self.first_failure(reaching, name, budget, |test| {
            run(&test.program, &test.name, Some(limit(test)), &[("MUTANT", active.as_ref())])
        })
    }

    /// Tests a mutant that needs its own build: every test runs, since nothing is known about what reaches it. The
    /// programs that caught the most mutants of its file are built and run before the others.
    pub(crate) fn test_single(&self, tree: &Tree, mutant: &Mutant) -> Result<Outcome> {
        let programs = self.programs_by_success(&mutant.name.file);
        let (first, others) = programs.split_at(programs.len().min(FIRST_PROGRAMS));
        for part in [first, others].into_iter().filter(|part| !part.is_empty()) {
            let Some(built) = tree.build_single(mutant, part)? else { return Ok(Outcome::Unviable) };
            let program_of = |test: &Test| built.iter().find(|program| program.is_same(&test.program));
            let tests = (0..self.tests.len()).filter(|&at| program_of(&self.tests[at]).is_some()).collect();
            let outcome = self.first_failure(tests, &mutant.name, None, |test| {
                let program = program_of(test).context("its program was built")?;
                run(program, &test.name, Some(limit(test)), &[])
            })?;
            if let Some(outcome) = outcome.filter(|outcome| *outcome != Outcome::Missed) {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Missed)
    }

    /// Returns the programs, first those whose tests caught the most mutants of the file.
    fn programs_by_success(&self, file: &str) -> Vec<&Program> {
        let mut programs: Vec<(&Program, usize)> = Vec::new();
        for (test, caught) in self.tests.iter().zip(self.caught_in(file)) {
            match programs.iter_mut().find(|(program, _)| program.is_same(&test.program)) {
                Some((_, sum)) => *sum += caught,
                None => programs.push((&test.program, caught)),
            }
        }
        programs.sort_by_key(|&(_, caught)| Reverse(caught));
        programs.into_iter().map(|(program, _)| program).collect()
    }

    /// Runs tests, the likeliest and fastest first, until one fails.
    fn first_failure(
        &self,
        mut order: Vec<usize>,
        name: &Name,
        budget: Option<Duration>,
        run: impl Fn(&Test) -> Result<ExitStatus>,
    ) -> Result<Option<Outcome>> {
        // A test that caught mutants of the same file is far more likely to catch this one.
        let caught = self.caught_in(&name.file);
        let cost = |at: &usize| self.tests[*at].seconds / (caught[*at] as f64 + CAUGHT_NONE);
        order.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let began = Instant::now();
        for at in order {
            let test = &self.tests[at];
            let needed = began.elapsed() + Duration::from_secs_f64(test.seconds);
            let is_worth_it = caught[at] > 0 && test.seconds < LONG_SECONDS;
            if !is_worth_it && budget.is_some_and(|budget| needed > budget) {
                return Ok(None);
            }
            let status = run(test)?;
            if status.success() {
                continue;
            }
            let title = test.title();
            self.count(name, at);
            let timed_out = matches!(status.signal(), Some(SIGXCPU | SIGKILL));
            return Ok(Some(if timed_out { Outcome::TimedOut(title) } else { Outcome::Caught(title) }));
        }
        Ok(Some(Outcome::Missed))
    }
}

/// The signals that end a process which used its CPU time.
pub(crate) const SIGXCPU: i32 = 24;
const SIGKILL: i32 = 9;

fn limit(test: &Test) -> u64 {
    LEAST_LIMIT_SECONDS.max((test.seconds * TIMES_BASELINE).ceil() as u64)
}

/// Runs a test without a mutant, and returns its name, its seconds and the mutants that it reaches.
fn measure(program: &Program, name: &str, reached: &Path) -> Result<String> {
    let _ = std::fs::remove_file(reached);
    let began = Instant::now();
    let status = run(program, name, None, &[("MUTANT_LOG", reached.as_os_str())])?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(status.success(), "{}: {name} fails without a mutant", program.name);
    let reached = std::fs::read_to_string(reached).unwrap_or_default().replace('\n', " ");
    Ok(format!("{name}\t{seconds:.3}\t{reached}"))
}

/// Returns the names of a program's tests.
fn list(program: &Program) -> Result<Vec<String>> {
    let output = Command::new(&program.path)
        .args(["--list", "--format", "terse"])
        .current_dir(&program.folder)
        .output()
        .with_context(|| format!("cannot start {}", program.path.display()))?;
    ensure!(output.status.success(), "{} cannot list its tests", program.name);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_string).collect())
}

/// Runs one test in a process with limits.
fn run(
    program: &Program,
    test: &str,
    seconds: Option<u64>,
    variables: &[(&str, &std::ffi::OsStr)],
) -> Result<ExitStatus> {
    let seconds = seconds.map_or_else(|| "unlimited".to_string(), |seconds| seconds.to_string());
    Command::new("sh")
        .args(["-c", "ulimit -t $1; ulimit -v $2; ulimit -c 0; shift 2; exec \"$@\"", "sh"])
        .args([&seconds, &MEMORY_KIB.to_string()])
        .arg(&program.path)
        .args(["--exact", test, "--test-threads=1", "--quiet"])
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("RUST_BACKTRACE", "0")
        .env("PROPTEST_RNG_SEED", RANDOM_SEED)
        // A failing case is enough; it need not be small, and it must not be kept for the next mutant.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", program.path.display()))
}
