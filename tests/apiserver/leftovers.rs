//! No process outlives a harness, however it ends. Processes that are detached on purpose are found again, and no
//! others are touched.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::cluster_state::{self, Standing, State};
use crate::harness::guard::Guard;
use crate::harness::process::{Record, stop_all};
use crate::harness::{Component, ControlPlane, Process, Program, wait_for};

/// Set in a process that a test starts and kills: the file to which that process writes its folder.
const VICTIM: &str = "SUPERCARGO_TEST_VICTIM";

/// Longer than any of these tests, in case a test is killed without its guard.
const LONG: Duration = Duration::from_secs(300);

/// Timeout for the end of a control plane on a busy machine.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn dropped_control_plane_leaves_nothing() -> Result<()> {
    let plane = ControlPlane::builder().start().await?;
    let folder = plane.folder().to_owned();
    let beside = plane.launch(&forever(&folder))?;
    plane.admin().kubectl(&["get", "namespaces"]).await?;
    plane.pause(Component::Etcd)?;
    assert!(mentioning(&folder)?.len() >= 4, "etcd, the API server, the program beside and the guard run");
    drop(plane);
    assert_eq!(mentioning(&folder)?, Vec::<String>::new());
    assert!(!folder.exists());
    drop(beside);
    Ok(())
}

#[tokio::test]
async fn panicking_test_leaves_nothing() -> Result<()> {
    let plane = ControlPlane::builder().start().await?;
    let folder = plane.folder().to_owned();
    let ended = tokio::spawn(async move {
        let _plane = plane;
        panic!("a test fails");
    });
    assert!(ended.await.unwrap_err().is_panic());
    assert_eq!(mentioning(&folder)?, Vec::<String>::new());
    assert!(!folder.exists());
    Ok(())
}

#[tokio::test]
async fn killed_harness_leaves_nothing() -> Result<()> {
    if let Some(folder_file) = victim() {
        let plane = ControlPlane::builder().with(Component::ALL).start().await?;
        plane.pause(Component::Scheduler)?;
        return hold(&folder_file, plane.folder());
    }
    kill_a_victim("leftovers::killed_harness_leaves_nothing", Signal::SIGKILL, 6).await
}

#[tokio::test]
async fn interrupted_harness_leaves_nothing() -> Result<()> {
    if let Some(folder_file) = victim() {
        let folder = tempfile::tempdir()?.keep();
        let guard = Guard::new(&folder)?;
        let mut children = (0..2)
            .map(|_| Process::start(&forever(&folder), &folder, guard.group()))
            .collect::<Result<Vec<_>>>()?;
        children[0].pause()?;
        return hold(&folder_file, &folder);
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        kill_a_victim("leftovers::interrupted_harness_leaves_nothing", signal, 3).await?;
    }
    Ok(())
}

#[test]
fn folder_with_other_files_is_not_touched() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let precious = folder.path().join("thesis.txt");
    std::fs::write(&precious, "years of work")?;
    let runtime = tokio::runtime::Runtime::new()?;
    let started = runtime.block_on(ControlPlane::builder().folder(folder.path()).start());
    let error = started.err().context("it took the folder")?;
    assert!(format!("{error:#}").contains("is not a control plane's folder"), "{error:#}");
    assert_eq!(std::fs::read_to_string(&precious)?, "years of work");
    Ok(())
}

#[test]
fn released_children_keep_running_and_are_found_again() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let guard = Guard::new(folder.path())?;
    let child = Process::start(&forever(folder.path()), folder.path(), guard.group())?;
    let record = child.record()?;
    child.detach();
    guard.release()?;
    assert!(record.is_alive());
    let state = State { kubeconfig: PathBuf::from("/k"), records: vec![record.clone()], port: None };
    state.write(folder.path())?;
    let read = State::read(folder.path())?;
    assert_eq!((read.kubeconfig.clone(), read.records.clone()), (state.kubeconfig, state.records));
    assert_eq!(read.standing(), Standing::Up);
    Record::stop_all(&read.records, SOON)?;
    assert!(!record.is_alive());
    assert_eq!(read.standing(), Standing::Down);
    Ok(())
}

#[test]
fn reused_process_id_is_not_ours() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let guard = Guard::new(folder.path())?;
    let mut stranger = Process::start(&forever(folder.path()), folder.path(), guard.group())?;
    let mut json = stranger.record()?.to_json();
    json["started"] = json!(json["started"].as_u64().context("a number")? - 1);
    let outdated = Record::from_json(&json).context("what was written can be read")?;
    assert!(!outdated.is_alive());
    let state =
        State { kubeconfig: PathBuf::new(), records: vec![outdated.clone(), stranger.record()?], port: None };
    assert_eq!(state.standing(), Standing::Broken);
    Record::stop_all(&[outdated], Duration::ZERO)?;
    stranger.check()
}

#[test]
fn only_one_command_runs_on_a_cluster_at_a_time() -> Result<()> {
    let parent = tempfile::tempdir()?;
    let folder = parent.path().join("cluster");
    let first = cluster_state::lock(&folder)?;
    let error = cluster_state::lock(&folder).unwrap_err().to_string();
    assert!(error.starts_with("another `up` or `down` is running"), "{error}");
    drop(first);
    cluster_state::lock(&folder)?;
    assert_eq!(State::read(&folder)?.standing(), Standing::Down);
    Ok(())
}

#[test]
fn damaged_state_file_is_an_error() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(
        folder.path().join("processes.json"),
        r#"{"kubeconfig": "/k", "processes": [{"pid": -1}]}"#,
    )?;
    let error = State::read(folder.path()).err().context("it was read")?;
    assert!(format!("{error:#}").contains("is not a valid state file"), "{error:#}");
    Ok(())
}

#[test]
fn process_that_ignores_sigterm_is_killed_after_grace_period() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let guard = Guard::new(folder.path())?;
    let ready = folder.path().join("ready");
    let script = format!("trap '' TERM; : > '{}'; while :; do sleep 0.1; done", ready.display());
    let stubborn = Program::new("stubborn", "/bin/sh").args(["-c", &script]);
    let mut processes = vec![Process::start(&stubborn, folder.path(), guard.group())?];
    while !ready.exists() {
        processes[0].check()?;
        std::thread::sleep(Duration::from_millis(5));
    }
    stop_all(&mut processes, Duration::from_millis(50));
    let status = processes[0].ended()?.context("it still runs")?;
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::SIGKILL as i32));
    Ok(())
}

/// Runs this test again in a process of its own, which starts something, and ends it with `signal`. At first, at
/// least `count` processes mention its folder; afterwards, all of them and the folder must be gone.
async fn kill_a_victim(test: &str, signal: Signal, count: usize) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let folder_file = scratch.path().join("folder");
    let guard = Guard::new(scratch.path())?;
    let itself = std::env::current_exe()?;
    // Signals may be ignored if the tests run in the background or with nohup.
    let program = Program::new("victim", "/usr/bin/env")
        .args(["--default-signal=INT,TERM,HUP", &itself.display().to_string()])
        .args(["--exact", test, "--nocapture"])
        .env(VICTIM, folder_file.display().to_string());
    let mut victim = Process::start(&program, scratch.path(), guard.group())?;
    let folder = wait_for("the victim to write its folder", SOON * 2, || {
        let folder = victim.check().and_then(|()| Ok(std::fs::read_to_string(&folder_file)?));
        async { Ok(PathBuf::from(folder?)) }
    })
    .await?;
    let running = mentioning(&folder)?;
    ensure!(running.len() >= count, "only these run: {running:#?}");
    victim.signal(signal)?;
    victim.wait(SOON)?;
    wait_for(&format!("everything to end after {signal}"), SOON, || async {
        let left = mentioning(&folder)?;
        ensure!(left.is_empty(), "these still run: {left:#?}");
        ensure!(!folder.exists(), "{} still exists", folder.display());
        Ok(())
    })
    .await
}

/// The victim's part: writes its folder and waits to be killed.
fn hold(folder_file: &Path, folder: &Path) -> Result<()> {
    crate::harness::pki::write_private(folder_file, &folder.display().to_string())?;
    std::thread::sleep(LONG);
    anyhow::bail!("this process was not killed")
}

fn victim() -> Option<PathBuf> {
    std::env::var_os(VICTIM).map(PathBuf::from)
}

/// A program that runs until it is stopped, with `folder` in its command line.
fn forever(folder: &Path) -> Program {
    Program::new("forever", "/bin/sh")
        .args([String::from("-c"), format!("while :; do sleep 1; done # {}", folder.display())])
}

/// Returns the command lines of running processes that mention `folder`. Processes that have ended have none.
fn mentioning(folder: &Path) -> Result<Vec<String>> {
    let folder = folder.display().to_string();
    let processes = std::fs::read_dir("/proc")?.flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let texts = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    Ok(texts.filter(|line| line.contains(&folder)).collect())
}
