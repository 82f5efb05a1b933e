//! A bar on standard error that shows how far a long simulation is. Only where a person looks on.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

const WIDTH: usize = 30;
/// How often it is drawn at most.
const EVERY: Duration = Duration::from_millis(100);

/// The bar; nothing where standard error is no terminal.
pub(in crate::cli) struct Progress {
    total: usize,
    done: usize,
    drawn: Option<Instant>,
    is_there: bool,
    is_seen: bool,
    /// Whether the report goes to a terminal as well, which is taken to be the same.
    is_shared: bool,
}

impl Progress {
    /// A bar of so many steps.
    pub(in crate::cli) fn new(total: usize) -> Self {
        let (is_seen, is_shared) = (std::io::stderr().is_terminal(), std::io::stdout().is_terminal());
        Self { total, done: 0, drawn: None, is_there: false, is_seen, is_shared }
    }

    /// One step is done.
    pub(in crate::cli) fn step(&mut self) {
        self.done += 1;
        if self.is_seen && self.drawn.is_none_or(|at| at.elapsed() >= EVERY) {
            let filled = WIDTH * self.done / self.total.max(1);
            let bar: String = (0..WIDTH).map(|at| if at < filled { '#' } else { '.' }).collect();
            // A terminal that takes no more is no reason to stop deciding.
            let _ = write!(std::io::stderr(), "\r[{bar}] {}/{} pods", self.done, self.total);
            (self.drawn, self.is_there) = (Some(Instant::now()), true);
        }
    }

    /// Takes the bar away where a line of the report is to stand.
    pub(in crate::cli) fn make_way(&mut self) {
        if self.is_shared {
            self.clear();
        }
    }

    /// Takes the bar away, so that other lines can be written.
    pub(in crate::cli) fn clear(&mut self) {
        if std::mem::take(&mut self.is_there) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
