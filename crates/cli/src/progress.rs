//! A line on stderr that says what a command is doing, if it takes longer than a second. Only on a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time after which the line appears: a shorter wait needs no explanation.
const AFTER: Duration = Duration::from_secs(1);
/// Time between two redraws.
const EVERY: Duration = Duration::from_millis(250);
/// Returns to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// Whether the line is off, since the program draws the whole screen.
static IS_SILENT: AtomicBool = AtomicBool::new(false);
/// Whether the line is on the terminal now.
static IS_DRAWN: Mutex<bool> = Mutex::new(false);

/// Shows no line from now on.
pub(crate) fn silence() {
    IS_SILENT.store(true, SeqCst);
}

/// Clears the line before a message on stderr. It appears again below.
pub(crate) fn make_way() {
    draw("");
}

/// Replaces the line; an empty text only clears it. A failed write to the terminal must not stop the command.
fn draw(text: &str) {
    let mut is_drawn = IS_DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    if *is_drawn || !text.is_empty() {
        let _ = write!(io::stderr(), "{CLEAR}{text}");
    }
    *is_drawn = !text.is_empty();
}

/// The running action. The line disappears when this is dropped.
pub(crate) struct Working {
    /// Takes the text of the current step, and ends the thread when it is dropped.
    steps: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Working {
    /// Says what is being done, such as `reading the cluster`.
    pub(crate) fn on(what: &str) -> Self {
        if !io::stderr().is_terminal() || IS_SILENT.load(SeqCst) {
            return Self { steps: None, thread: None };
        }
        let (steps, inbox) = channel();
        let what = what.to_owned();
        Self { steps: Some(steps), thread: Some(thread::spawn(move || show(&what, &inbox))) }
    }

    /// Adds the current step, such as `pods: 12000`.
    pub(crate) fn step(&self, step: impl FnOnce() -> String) {
        if let Some(steps) = &self.steps {
            // The thread lives as long as this.
            let _ = steps.send(step());
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.steps.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Shows the line until the sender is dropped.
fn show(what: &str, inbox: &Receiver<String>) {
    let began = Instant::now();
    let (mut step, mut due) = (String::new(), began + AFTER);
    loop {
        match inbox.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(next) => step = next,
            Err(RecvTimeoutError::Timeout) => {
                draw(&line(what, &step, began.elapsed()));
                due = Instant::now() + EVERY;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    draw("");
}

/// Formats the line. Steps name only kinds of objects and numbers, which need no escaping.
fn line(what: &str, step: &str, elapsed: Duration) -> String {
    let step = if step.is_empty() { String::new() } else { format!(", {step}") };
    format!("{what}{step} ({} s)", elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_names_work_step_and_time() {
        let second = Duration::from_millis(1_900);
        assert_eq!(line("reading the cluster", "", second), "reading the cluster (1 s)");
        assert_eq!(line("reading the cluster", "pods: 500", second), "reading the cluster, pods: 500 (1 s)");
    }

    #[test]
    fn without_a_terminal_no_thread_is_started() {
        // The test's stderr is captured or a file.
        silence();
        let working = Working::on("testing");
        working.step(|| panic!("no step is formatted"));
        assert!(working.thread.is_none());
    }
}
