//! A progress bar on stderr for long simulations, shown only on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

const WIDTH: usize = 30;
/// Minimum time between two redraws.
const EVERY: Duration = Duration::from_millis(100);

/// The progress bar; draws nothing unless stderr is a terminal.
pub(crate) struct Progress {
    total: usize,
    done: usize,
    drawn: Option<Instant>,
    is_there: bool,
    is_seen: bool,
    /// Whether stdout is a terminal, too; it is assumed to be the same one.
    is_shared: bool,
}

impl Progress {
    /// Creates a bar with this number of steps.
    pub(crate) fn new(total: usize) -> Self {
        let (is_seen, is_shared) = (std::io::stderr().is_terminal(), std::io::stdout().is_terminal());
        Self { total, done: 0, drawn: None, is_there: false, is_seen, is_shared }
    }

    /// Counts one step.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        if self.is_seen && self.drawn.is_none_or(|at| at.elapsed() >= EVERY) {
            let filled = WIDTH * self.done / self.total.max(1);
            let bar: String = (0..WIDTH).map(|at| if at < filled { '#' } else { '.' }).collect();
            // A failed write to the terminal must not stop the simulation.
            let _ = write!(std::io::stderr(), "\r[{bar}] {}/{} pods", self.done, self.total);
            (self.drawn, self.is_there) = (Some(Instant::now()), true);
        }
    }

    /// Clears the bar before a report line, if both go to the same terminal.
    pub(crate) fn make_way(&mut self) {
        if self.is_shared {
            self.clear();
        }
    }

    /// Clears the bar.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_there) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
