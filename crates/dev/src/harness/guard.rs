//! Stops everything a harness started, however the harness ends: return, panic, Ctrl-C or SIGKILL.
//!
//! Two small shells run beside the harness. The *anchor* leads a process group that every child joins. The *watcher*
//! is outside the group and reads from a pipe whose only writer is the harness. When the harness ends, the kernel
//! closes the pipe, and the watcher kills the group and removes its folder. No child can be missed: the writing end
//! is close-on-exec, so a forked child that has not joined the group yet still holds the pipe open.
//!
//! Graceful stops (SIGTERM, then SIGKILL) are done by [`super::process::Process`]. The guard is for when the harness
//! is gone.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Outlives the harness briefly, so that the group's ID cannot be reused before the watcher has killed the group.
const ANCHOR: &str = r#"trap '' HUP INT TERM; read -r word || exec sleep 20"#;

/// `$1` is the group and `$2` the folder to remove. A line on the pipe, instead of its end, releases the group.
const WATCHER: &str =
    r#"trap '' HUP INT TERM; read -r word && exit 0; kill -s KILL -- "-$1"; [ -z "$2" ] || rm -rf -- "$2""#;

/// Timeout for removing the folder.
const FAREWELL: Duration = Duration::from_secs(20);

/// If set, folders of control planes (logs, data) are kept for inspection.
const KEEP: &str = "SUPERCARGO_KEEP_CLUSTERS";

/// Guard of a process group, which is killed when the value is dropped.
pub struct Guard {
    anchor: Child,
    watcher: Child,
}

impl Guard {
    /// Guards a new process group. `folder` is removed with it.
    pub fn new(folder: &Path) -> Result<Self> {
        let mut anchor = shell(ANCHOR).process_group(0).spawn().context("cannot start /bin/sh")?;
        let folder = if std::env::var_os(KEEP).is_some() { Path::new("") } else { folder };
        let watcher =
            shell(WATCHER).arg(anchor.id().to_string()).arg(folder).process_group(0).spawn().inspect_err(
                |_| {
                    let _ = anchor.kill();
                    let _ = anchor.wait();
                },
            );
        Ok(Self { watcher: watcher.context("cannot start /bin/sh")?, anchor })
    }

    /// Returns the process group to start children in.
    pub fn group(&self) -> i32 {
        i32::try_from(self.anchor.id()).expect("process ids are below 2^22")
    }

    /// Lets the children outlive the harness; the caller has to stop them later.
    pub fn release(mut self) -> Result<()> {
        for shell in [&mut self.watcher, &mut self.anchor] {
            let mut pipe = shell.stdin.take().expect("its standard input is a pipe");
            pipe.write_all(b"release\n").context("the guard of the child processes has ended")?;
            shell.wait()?;
        }
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let deadline = Instant::now() + FAREWELL;
        while matches!(self.watcher.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.anchor.kill();
        let _ = self.anchor.wait();
    }
}

/// Its output must not be the harness's: a pipe behind `cargo test` would stay open as long as the shell runs.
fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "supercargo-guard"]).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
