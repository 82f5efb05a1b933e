//! Ends what a harness started, however the harness itself ends: by return, by panic, by Ctrl-C or by SIGKILL.
//!
//! Two small shells stand beside the harness. The *anchor* leads a process group that every child joins; the *watcher* stands
//! outside that group and reads from a pipe whose only writer is the harness. When the harness is gone, the kernel closes the
//! pipe, and the watcher kills the group and removes its folder. There is no moment in which a child could be missed: the
//! writing end is close-on-exec, so a child that is forked and has not yet joined the group still holds the pipe open.
//!
//! The polite way (SIGTERM, then a grace) is the business of [`super::process::Process`]; the guard is for when nobody is left to wait.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Outlives the harness by a moment, so that the number of the group cannot be given to a stranger before the watcher has used it.
const ANCHOR: &str = r#"trap '' HUP INT TERM; read -r word || exec sleep 20"#;

/// `$1` is the group, `$2` the folder to remove; a line on the pipe instead of its end means: let them live.
const WATCHER: &str =
    r#"trap '' HUP INT TERM; read -r word && exit 0; kill -s KILL -- "-$1"; [ -z "$2" ] || rm -rf -- "$2""#;

/// How long removing a folder of scratch data may take.
const FAREWELL: Duration = Duration::from_secs(20);

/// Set to anything, it keeps the folders (logs, data) of control planes for a look afterwards.
const KEEP: &str = "SUPERCARGO_KEEP_CLUSTERS";

/// While this value lives, so may its process group.
pub(crate) struct Guard {
    anchor: Child,
    watcher: Child,
}

impl Guard {
    /// Guards a new process group; `folder` is removed with it.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
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

    /// The process group to start children in.
    pub(crate) fn group(&self) -> i32 {
        i32::try_from(self.anchor.id()).expect("process ids are below 2^22")
    }

    /// Lets the children outlive the harness; from here on someone else has to end them.
    pub(crate) fn release(mut self) -> Result<()> {
        for shell in [&mut self.watcher, &mut self.anchor] {
            let mut pipe = shell.stdin.take().expect("its standard input is a pipe");
            pipe.write_all(b"release\n").context("the guard of the child processes has gone")?;
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

/// Its standard output must not be that of the harness: a pipe behind `cargo test` would stay open as long as the shell lives.
fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "supercargo-guard"]).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
