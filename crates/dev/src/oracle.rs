//! The oracle as a child process: scenarios in, vectors out, one per line.

use serde_json::Value;
use std::io::{BufRead, BufReader, BufWriter, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// A running oracle. It ends when its input is closed, at the latest on drop.
pub struct Oracle {
    child: Child,
    input: Option<BufWriter<ChildStdin>>,
    output: Lines<BufReader<ChildStdout>>,
    feeder: Option<JoinHandle<()>>,
    /// The scenarios without an answer. Answers come in the order of scenarios.
    sent: (Sender<Value>, Receiver<Value>),
}

impl Oracle {
    /// Starts the program at `path`.
    pub fn start(path: &Path) -> Self {
        let mut command = Command::new(path);
        command.arg("answer").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("{}: {error}; `tests/upstream/build.sh oracle` builds it", path.display())
        });
        let input = child.stdin.take().map(BufWriter::new);
        let output = BufReader::new(child.stdout.take().expect("it was asked for")).lines();
        Self { child, input, output, feeder: None, sent: channel() }
    }

    /// Sends scenarios from a separate thread until there are no more or the oracle has ended.
    pub fn feed(&mut self, scenarios: impl Iterator<Item = Value> + Send + 'static) {
        let mut input = self.input.take().expect("it is fed once");
        let sent = self.sent.0.clone();
        self.feeder = Some(thread::spawn(move || {
            for scenario in scenarios {
                let line = scenario.to_string();
                if sent.send(scenario).is_err() || writeln!(input, "{line}").is_err() {
                    return;
                }
            }
        }));
    }

    /// Sends one scenario and waits for the answer.
    pub fn ask(&mut self, scenario: &Value) -> Value {
        let input = self.input.as_mut().expect("it is not fed");
        writeln!(input, "{scenario}").and_then(|()| input.flush()).expect("the oracle reads");
        self.sent.0.send(scenario.clone()).expect("this struct has the receiver");
        self.next().expect("the oracle answers")
    }
}

impl Iterator for Oracle {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let line = self.output.next()?.expect("the oracle's answers are text");
        let mut answer: Value = serde_json::from_str(&line).expect("an answer is JSON");
        // The oracle repeats only the fields that it reads; the detour is not among them.
        answer["scenario"] = self.sent.1.try_recv().expect("an answer follows its scenario");
        Some(answer)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.input.take());
        // Killed, because it may still be busy with unneeded scenarios. That also ends the sending thread.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(feeder) = self.feeder.take() {
            let _ = feeder.join();
        }
    }
}
