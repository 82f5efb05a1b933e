//! A child process: its command line, log file, signals and end.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Default time between SIGTERM and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(5);

/// Proxy variables, removed so that loopback traffic is not proxied.
const PROXY: [&str; 6] = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// A program to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name in messages and of the log file.
    pub name: String,
    path: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// Destination of stderr instead of the log file.
    stderr: Option<Arc<OwnedFd>>,
}

impl Program {
    /// Describes the executable at `path`, named `name`.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), path: path.into(), args: Vec::new(), env: Vec::new(), stderr: None }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Redirects stderr.
    pub fn stderr(mut self, to: Option<OwnedFd>) -> Self {
        self.stderr = to.map(Arc::new);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
}

/// A child process. Dropping it stops it: SIGTERM, [`GRACE`], SIGKILL.
pub struct Process {
    name: String,
    path: PathBuf,
    log: PathBuf,
    /// `None` after `detach`.
    child: Option<Child>,
}

impl Process {
    /// Starts `program` in the process group of a [`super::guard::Guard`]. Its output is appended to `<name>.log` in
    /// `logs`.
    pub fn start(program: &Program, logs: &Path, group: i32) -> Result<Self> {
        let log = logs.join(format!("{}.log", program.name));
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(&program.path);
        for name in PROXY {
            command.env_remove(name);
        }
        command.args(&program.args).envs(program.env.iter().map(|(name, value)| (name, value)));
        let stderr = match &program.stderr {
            Some(to) => Stdio::from(to.try_clone()?),
            None => Stdio::from(output.try_clone()?),
        };
        command.stdin(Stdio::null()).stdout(output).stderr(stderr).process_group(group);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {} ({})", program.name, program.path.display()))?;
        Ok(Self { name: program.name.clone(), path: program.path.clone(), log, child: Some(child) })
    }

    /// Returns its program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its process ID.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("only `detach` takes it, and consumes the process").id()
    }

    /// Returns its exit status, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child_mut().try_wait()?)
    }

    /// Sends a signal. Does nothing if the process has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.ended()?.is_none() {
            kill(to_pid(self.pid()), signal)
                .with_context(|| format!("cannot send {signal} to {}", self.name))?;
        }
        Ok(())
    }

    /// Suspends it and waits until all its threads are stopped, because SIGSTOP takes effect asynchronously.
    pub fn pause(&mut self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        let deadline = Instant::now() + GRACE;
        while !all_threads_stand(self.pid()) {
            self.check()?;
            if Instant::now() >= deadline {
                bail!("{} cannot be suspended", self.name);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Resumes it after [`Self::pause`].
    pub fn resume(&mut self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        self.child_mut().kill()?;
        Ok(self.child_mut().wait()?)
    }

    /// Sends SIGTERM, SIGKILL after `grace`, and waits for its end.
    pub fn stop(&mut self, grace: Duration) -> Result<ExitStatus> {
        self.ask_to_end()?;
        self.wait_or_kill(Instant::now() + grace)
    }

    /// Waits for it to end. Fails at the deadline and leaves it running.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                bail!("{} is still running after {within:?}\n{}", self.name, self.log_tail(20));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the path of its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the last lines of its log with a heading.
    pub fn log_tail(&self, lines: usize) -> String {
        log_tail(&self.log, lines)
    }

    /// Fails if it has ended; the error has the end of its log.
    pub fn check(&mut self) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(how) => bail!("{} has ended ({how}); {}", self.name, self.log_tail(20)),
        }
    }

    /// Returns a record by which another run can find it.
    pub fn record(&self) -> Result<Record> {
        let pid = self.pid();
        let started =
            started(pid).with_context(|| format!("{} has ended; {}", self.name, self.log_tail(20)))?;
        Ok(Record { name: self.name.clone(), pid, started, program: self.path.display().to_string() })
    }

    /// Detaches the process, so that dropping this value does not stop it.
    pub fn detach(mut self) {
        self.child = None;
    }

    /// Sends SIGTERM, and SIGCONT in case it is suspended.
    fn ask_to_end(&mut self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        self.signal(Signal::SIGCONT)
    }

    fn wait_or_kill(&mut self, deadline: Instant) -> Result<ExitStatus> {
        while Instant::now() < deadline {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill()
    }

    fn child_mut(&mut self) -> &mut Child {
        self.child.as_mut().expect("only `detach` takes it, and consumes the process")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.is_some() {
            let _ = self.stop(GRACE);
        }
    }
}

/// Stops several processes concurrently, within one grace period.
pub fn stop_all(processes: &mut [Process], grace: Duration) {
    for process in &mut *processes {
        let _ = process.ask_to_end();
    }
    let deadline = Instant::now() + grace;
    for process in &mut *processes {
        let _ = process.wait_or_kill(deadline);
    }
}

/// Returns the last lines of a log with a heading.
pub fn log_tail(path: &Path, lines: usize) -> String {
    format!("last lines of {}:\n{}", path.display(), tail(path, lines))
}

/// Returns the last lines of a text file, or the error if it is unreadable.
pub fn tail(path: &Path, lines: usize) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(64 * 1024)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) if text.trim().is_empty() => String::from("(empty)"),
        Ok(text) => {
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("(unreadable: {error})"),
    }
}

/// A record of a process that another run can find and distinguish from a later process with the same ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its program's name.
    pub name: String,
    /// Its process ID.
    pub pid: u32,
    /// Its start time, in clock ticks since boot.
    started: u64,
    /// Its executable, from its command line.
    program: String,
}

impl Record {
    /// Reports whether this very process is running.
    pub fn is_alive(&self) -> bool {
        // Right after its start, a process has an empty command line.
        let same_program = |program: String| program.is_empty() || program == self.program;
        started(self.pid) == Some(self.started) && program_of(self.pid).is_some_and(same_program)
    }

    /// Stops all recorded processes that still run: SIGTERM, `grace`, SIGKILL. Other processes with the same ID are
    /// left alone.
    pub fn stop_all(records: &[Self], grace: Duration) -> Result<()> {
        let signal_all = |signal: Signal| {
            for record in records.iter().filter(|record| record.is_alive()) {
                let _ = kill(to_pid(record.pid), signal);
            }
        };
        signal_all(Signal::SIGTERM);
        signal_all(Signal::SIGCONT);
        if !Self::all_gone(records, grace) {
            signal_all(Signal::SIGKILL);
            if !Self::all_gone(records, GRACE) {
                let left: Vec<_> = records.iter().filter(|record| record.is_alive()).collect();
                bail!("these processes do not stop: {left:?}");
            }
        }
        Ok(())
    }

    /// Encodes the record for the state file.
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "pid": self.pid, "started": self.started, "program": self.program})
    }

    /// The inverse of [`Self::to_json`].
    pub fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            name: value["name"].as_str()?.to_owned(),
            pid: u32::try_from(value["pid"].as_u64()?).ok()?,
            started: value["started"].as_u64()?,
            program: value["program"].as_str()?.to_owned(),
        })
    }

    fn all_gone(records: &[Self], within: Duration) -> bool {
        let deadline = Instant::now() + within;
        loop {
            if !records.iter().any(Self::is_alive) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn to_pid(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).expect("process ids are below 2^22"))
}

/// Returns the start time of process `pid`; `None` if there is no such process or it is a zombie.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (state, rest) = state_and_rest(&stat)?;
    if matches!(state, "Z" | "X") { None } else { rest.split_whitespace().nth(18)?.parse().ok() }
}

/// A thread that ends meanwhile counts as stopped.
fn all_threads_stand(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let mut stats =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    stats.all(|stat| state_and_rest(&stat).is_some_and(|(state, _)| matches!(state, "T" | "t" | "Z" | "X")))
}

/// Splits a line of `/proc/<pid>/stat` after the name, which may contain spaces and parentheses. The state follows,
/// and the start time 18 fields later.
fn state_and_rest(stat: &str) -> Option<(&str, &str)> {
    stat.rsplit_once(')')?.1.trim_start().split_once(' ')
}

fn program_of(pid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(String::from_utf8_lossy(line.split(|byte| *byte == 0).next()?).into_owned())
}
