//! `supercargo top`: a dashboard of queues, rates, latencies and pending pods on a terminal. Changes nothing.
//!
//! `poll` asks, `state` holds what is shown, and `draw` draws it; this module owns the terminal.

mod draw;
mod load;
mod poll;
mod state;

use crate::emulation::EmulationArgs;
use crate::live::candidates;
use crate::live::port::{LeaderArgs, PortArgs};
use crate::screen::{complain, may_color};
use crate::{progress, signals, watching};
use clap::Args;
use clap_complete::ArgValueCompleter;
use poll::News;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use state::{Action, Key, State};
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

/// Exit code for invalid flags, and without a terminal.
const BAD_INPUT: u8 = 2;
/// Exit code for any other failure, and of a signal.
const FAILED: u8 = 1;
/// How long the program waits for a key before it looks for answers and signals: below what a person notices.
const TICK: Duration = Duration::from_millis(100);
/// The error without a terminal.
const NO_TERMINAL: &str =
    "top needs a terminal for its screen; use `supercargo queue`, or `supercargo queue --watch`";

/// Arguments of `supercargo top`.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// Namespace of the pods. Defaults to all namespaces in which you may read pods.
    #[arg(short = 'n', long, value_name = "NAMESPACE", add = ArgValueCompleter::new(candidates::namespaces))]
    pub namespace: Option<String>,

    /// Time between two questions, from 1s to 1h.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = watching::interval)]
    pub interval: Duration,

    /// Port of the scheduler.
    #[command(flatten)]
    pub port: PortArgs,

    /// How to find the leader, and the cluster to explain pods in.
    #[command(flatten)]
    pub leader: LeaderArgs,

    /// File with the scheduler's KubeSchedulerConfiguration, for explanations.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Version of kube-scheduler to behave as in explanations.
    #[command(flatten)]
    pub emulation: EmulationArgs,
}

/// Runs the command until a key or a signal ends it.
pub fn main(args: &TopArgs) -> ExitCode {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        complain(&format!("error: {NO_TERMINAL}"));
        return ExitCode::from(BAD_INPUT);
    }
    // Its lines would be drawn over.
    progress::silence();
    let is_ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_ended);
    let ran = signals::on_end(move || ends.store(true, SeqCst)).and_then(|()| {
        let mut screen = FullScreen::open()?;
        end_on_panic(Arc::clone(&is_ended));
        run(args, &mut screen.terminal, &is_ended)
    });
    match ran {
        Ok(()) if is_ended.load(SeqCst) => ExitCode::from(FAILED),
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("error: the terminal fails: {error}; use `supercargo queue --watch`"));
            ExitCode::from(FAILED)
        }
    }
}

/// The terminal in raw mode, with the alternate screen. Restored when this is dropped, and by the panic hook that
/// opening it installs.
struct FullScreen {
    terminal: DefaultTerminal,
}

impl FullScreen {
    fn open() -> io::Result<Self> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                // It may have been changed in part.
                ratatui::restore();
                Err(error)
            }
        }
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Ends the program when one of its threads panics: the hook of [`ratatui::try_init`] has restored the terminal then.
fn end_on_panic(is_ended: Arc<AtomicBool>) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        is_ended.store(true, SeqCst);
        hook(info);
    }));
}

fn run(args: &TopArgs, terminal: &mut DefaultTerminal, is_ended: &AtomicBool) -> io::Result<()> {
    let (news, inbox) = channel();
    let (asker, questions) = (args.clone(), news.clone());
    thread::spawn(move || poll::ask(&asker, &questions));
    let source = match &args.port.server {
        Some(server) => server.to_string(),
        None => format!("leader of {}/{}", args.leader.lease_namespace, args.leader.lease),
    };
    let mut state = State::new(source, may_color());
    terminal.draw(|frame| draw::draw(frame, &state))?;
    while !is_ended.load(SeqCst) {
        let mut is_changed = take(&inbox, &mut state)?;
        if event::poll(TICK)? {
            match event::read()? {
                Event::Key(pressed) if pressed.kind != KeyEventKind::Release => {
                    if let Some(key) = key(pressed) {
                        is_changed = true;
                        if press(args, &mut state, key, &news) {
                            return Ok(());
                        }
                    }
                }
                Event::Resize(..) => is_changed = true,
                _ => {}
            }
        }
        if is_changed {
            terminal.draw(|frame| draw::draw(frame, &state))?;
        }
    }
    Ok(())
}

/// Takes what has arrived. Returns whether anything has.
fn take(inbox: &Receiver<News>, state: &mut State) -> io::Result<bool> {
    let mut is_changed = false;
    loop {
        match inbox.try_recv() {
            Ok(news) => {
                news.apply(state);
                is_changed = true;
            }
            Err(TryRecvError::Empty) => return Ok(is_changed),
            Err(TryRecvError::Disconnected) => return Err(io::Error::other("no thread asks any more")),
        }
    }
}

/// Handles a key. Returns whether it ends the program.
fn press(args: &TopArgs, state: &mut State, key: Key, news: &Sender<News>) -> bool {
    match state.press(key) {
        Action::Draw => false,
        Action::Quit => true,
        Action::Explain(pod) => {
            poll::explain(args, pod, news.clone());
            false
        }
    }
}

/// Translates a key press; `None` for keys without a meaning.
fn key(pressed: KeyEvent) -> Option<Key> {
    if pressed.modifiers.contains(KeyModifiers::CONTROL) {
        return (pressed.code == KeyCode::Char('c')).then_some(Key::Interrupt);
    }
    Some(match pressed.code {
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Char(c) => Key::Char(c),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_c_is_an_interrupt_and_c_a_letter() {
        let pressed = |code, modifiers| key(KeyEvent::new(code, modifiers));
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::NONE), Some(Key::Char('c')));
        assert_eq!(pressed(KeyCode::Char('x'), KeyModifiers::CONTROL), None);
        assert_eq!(pressed(KeyCode::F(1), KeyModifiers::NONE), None);
    }
}
