//! `supercargo top` on a pseudo terminal: the terminal is as before when the program ends, however it ends.

use crate::offline::command;
use crate::support::{root, run};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};

/// Switches to the alternate screen, and back; shows the cursor.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// A word of the error without a scheduler. Blanks are not drawn, since the screen is blank at first.
const ERROR: &str = "cannot";

/// The program on a terminal, without a scheduler to ask.
struct Running {
    child: Child,
    terminal: File,
    /// Kept open, so that the terminal outlives the program.
    inner: File,
    seen: String,
}

impl Running {
    fn start() -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(&size, None).expect("a pseudo terminal");
        let end = || Stdio::from(slave.try_clone().expect("a copy of it"));
        let mut command = command(root(), &["top", "--server", "http://127.0.0.1:1"]);
        command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().expect("the program is built");
        Self { child, terminal: master.into(), inner: slave.into(), seen: String::new() }
    }

    /// Reads until the screen has shown a text.
    fn read_until(&mut self, text: &str) {
        let mut part = [0; 4096];
        while !self.seen.contains(text) {
            let count = self.terminal.read(&mut part).expect("the terminal is open");
            self.seen.push_str(&String::from_utf8_lossy(&part[..count]));
        }
    }

    /// Waits for the end. Returns the exit code.
    fn ended(mut self) -> Option<i32> {
        let status = self.child.wait().expect("it ends");
        self.read_until(LEAVE);
        self.read_until(SHOW_CURSOR);
        let flags = tcgetattr(&self.inner).expect("it is a terminal").local_flags;
        assert!(flags.contains(LocalFlags::ICANON | LocalFlags::ECHO), "raw mode is off: {flags:?}");
        status.code()
    }
}

#[test]
fn terminal_is_restored_after_q_and_after_a_signal() {
    let mut by_key = Running::start();
    by_key.read_until(ENTER);
    by_key.read_until(ERROR);
    by_key.terminal.write_all(b"q").expect("the terminal is open");
    assert_eq!(by_key.ended(), Some(0));
    let mut by_signal = Running::start();
    by_signal.read_until(ERROR);
    let raw = tcgetattr(&by_signal.inner).expect("it is a terminal").local_flags;
    assert!(!raw.contains(LocalFlags::ICANON), "raw mode is on: {raw:?}");
    kill(Pid::from_raw(i32::try_from(by_signal.child.id()).expect("an id")), Signal::SIGTERM)
        .expect("it runs");
    assert_eq!(by_signal.ended(), Some(1));
}

#[test]
fn without_a_terminal_the_error_names_queue() {
    let ran = run(root(), &["top"]);
    assert_eq!(
        ran.refused(),
        "top needs a terminal for its screen; use `supercargo queue`, or `supercargo queue --watch`"
    );
    for (flag, value) in [("--interval", "1ms"), ("--request-timeout", "x")] {
        assert_eq!(run(root(), &["top", flag, value]).code, Some(2), "{flag}");
    }
}
