//! The log: one line for each change of state, in fixed columns: seconds, actor, subject, action.
//!
//! The last lines are kept for failures. A hash of all lines shows whether two runs were equal.

use std::collections::VecDeque;
use std::fmt::Arguments;
use std::io::Write;
use supercargo_core::model::time::Time;

const KEPT: usize = 40;

pub(crate) struct Log {
    tail: VecDeque<String>,
    hash: u64,
    lines: u64,
    echo: Option<Box<dyn Write>>,
}

impl Log {
    /// Creates a log that also writes each line to `echo`.
    pub(crate) fn new(echo: Option<Box<dyn Write>>) -> Self {
        Self { tail: VecDeque::new(), hash: 0xcbf2_9ce4_8422_2325, lines: 0, echo }
    }

    pub(crate) fn line(&mut self, now: Time, who: &str, whom: &str, what: Arguments<'_>) {
        let micros = now.as_nanos() / 1_000;
        let line = format!("{:>6}.{:06} {who:<8} {whom:<10} {what}", micros / 1_000_000, micros % 1_000_000);
        // FNV-1a.
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        self.lines += 1;
        if let Some(echo) = &mut self.echo {
            // Ignore write errors, for example a closed pipe.
            let _ = writeln!(echo, "{line}");
        }
        if self.tail.len() == KEPT {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    pub(crate) fn into_tail(self) -> Vec<String> {
        self.tail.into()
    }
}
