//! The state of `top`, and how keys change it. It knows no terminal, clock or connection.

use super::load::Load;
use std::collections::BTreeSet;
use supercargo_whatif::pending::{PendingPod, QueueReport, ReasonGroup, by_reason};

/// Number of pods up to which a reason is open at first.
const OPEN_MAX: usize = 5;
/// Number of rows that PageUp and PageDown move.
const PAGE: usize = 10;

/// A key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    /// Ctrl-C.
    Interrupt,
    Char(char),
}

/// The program's next action after a key press.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Draw.
    Draw,
    /// End.
    Quit,
    /// Explain this pod, and give the text to [`State::explained`].
    Explain(Named),
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// The content of the lower part of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Pending pods by reason.
    Pods,
    /// The same, while a filter is typed.
    Filter,
    /// The keys.
    Help,
    /// The explanation of a pod: its title, and the lines if it has arrived, with the number of the first shown one.
    Explanation { of: Named, lines: Option<Vec<String>>, first: usize },
}

/// Everything that is on the screen.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// The scheduler or file that answers, for the first line.
    pub(super) source: String,
    /// The latest report.
    pub(super) report: Option<QueueReport>,
    /// Rates and latencies; `None` until there are two scrapes.
    pub(super) load: Option<Load>,
    /// Why there are no rates.
    pub(super) no_load: Option<String>,
    /// Why the latest question has no answer.
    pub(super) error: Option<String>,
    /// Whether colors may be used.
    pub(super) is_colored: bool,
    pub(super) view: View,
    /// Text that names, namespaces, places and reasons must contain.
    pub(super) filter: String,
    /// Reasons that were opened or closed.
    toggled: BTreeSet<String>,
    /// The selected row.
    selected: Option<RowKey>,
    /// Its number, for when it has gone.
    at: usize,
}

/// A row of the list, by what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RowKey {
    Reason(String),
    Pod(String),
}

/// A row of the list.
#[derive(Clone, Debug)]
pub(super) enum Row<'r> {
    /// A reason, and whether its pods are shown below.
    Reason(ReasonGroup<'r>, bool),
    /// A pod of the reason above.
    Pod(&'r PendingPod),
}

impl Row<'_> {
    fn key(&self) -> RowKey {
        match self {
            Row::Reason(group, _) => RowKey::Reason(key_of(group)),
            Row::Pod(pod) => RowKey::Pod(pod.uid.clone()),
        }
    }
}

fn key_of(group: &ReasonGroup<'_>) -> String {
    format!("{:?} {} {}", group.severity, group.place, group.reason)
}

impl State {
    /// Returns the state before the first answer.
    pub(super) fn new(source: String, is_colored: bool) -> Self {
        Self {
            source,
            report: None,
            load: None,
            no_load: None,
            error: None,
            is_colored,
            view: View::Pods,
            filter: String::new(),
            toggled: BTreeSet::new(),
            selected: None,
            at: 0,
        }
    }

    /// Returns the rows of the list.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let filter = self.filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&filter);
        let is_shown = |pod: &&PendingPod| {
            filter.is_empty()
                || has(&format!("{}/{}", pod.namespace, pod.name))
                || has(&pod.place)
                || has(&pod.waits_for)
        };
        let pods = self.report.iter().flat_map(|report| &report.pods).filter(is_shown);
        let mut rows = Vec::new();
        for group in by_reason(pods) {
            let is_open = (group.pods.len() <= OPEN_MAX) != self.toggled.contains(&key_of(&group));
            let pods = if is_open { group.pods.clone() } else { Vec::new() };
            rows.push(Row::Reason(group, is_open));
            rows.extend(pods.into_iter().map(Row::Pod));
        }
        rows
    }

    /// Returns the number of the selected row.
    pub(super) fn selected(&self, rows: &[Row<'_>]) -> Option<usize> {
        let last = rows.len().checked_sub(1)?;
        let same = rows.iter().position(|row| Some(row.key()) == self.selected);
        Some(same.unwrap_or(self.at.min(last)))
    }

    /// Takes the text of an explanation, if it is still waited for.
    pub(super) fn explained(&mut self, pod: &Named, text: &str) {
        if let View::Explanation { of, lines, .. } = &mut self.view
            && of == pod
        {
            *lines = Some(text.lines().map(str::to_owned).collect());
        }
    }

    /// Handles a key press.
    pub(super) fn press(&mut self, key: Key) -> Action {
        if key == Key::Interrupt {
            return Action::Quit;
        }
        match self.view {
            View::Pods => return self.press_in_list(key),
            View::Filter => self.press_in_filter(key),
            View::Help => self.view = View::Pods,
            View::Explanation { .. } => self.press_in_explanation(key),
        }
        Action::Draw
    }

    fn press_in_list(&mut self, key: Key) -> Action {
        match key {
            Key::Char('q') => return Action::Quit,
            Key::Up | Key::Char('k') => self.select(|at| at.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.select(|at| at + 1),
            Key::PageUp => self.select(|at| at.saturating_sub(PAGE)),
            Key::PageDown => self.select(|at| at + PAGE),
            Key::Home | Key::Char('g') => self.select(|_| 0),
            Key::End | Key::Char('G') => self.select(|_| usize::MAX),
            Key::Char('/') => self.view = View::Filter,
            Key::Char('?') => self.view = View::Help,
            Key::Escape => self.filter.clear(),
            Key::Enter => return self.enter(),
            Key::Backspace | Key::Interrupt | Key::Char(_) => {}
        }
        Action::Draw
    }

    fn select(&mut self, to: impl FnOnce(usize) -> usize) {
        let (key, at) = {
            let rows = self.rows();
            let Some(at) = self.selected(&rows) else { return };
            let at = to(at).min(rows.len() - 1);
            (rows[at].key(), at)
        };
        (self.selected, self.at) = (Some(key), at);
    }

    /// Opens or closes the selected reason, or asks for the explanation of the selected pod.
    fn enter(&mut self) -> Action {
        // Without a move, the selected row may have changed with the report.
        self.select(|at| at);
        let chosen = {
            let rows = self.rows();
            let Some(at) = self.selected(&rows) else { return Action::Draw };
            match &rows[at] {
                Row::Reason(group, _) => Err(key_of(group)),
                Row::Pod(pod) => {
                    let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
                    Ok(Named { namespace, name, uid: pod.uid.clone() })
                }
            }
        };
        let of = match chosen {
            Ok(of) => of,
            Err(reason) => {
                if !self.toggled.remove(&reason) {
                    self.toggled.insert(reason);
                }
                return Action::Draw;
            }
        };
        self.view = View::Explanation { of: of.clone(), lines: None, first: 0 };
        Action::Explain(of)
    }

    fn press_in_filter(&mut self, key: Key) {
        match key {
            Key::Char(c) => self.filter.push(c),
            Key::Backspace => drop(self.filter.pop()),
            Key::Escape => {
                self.filter.clear();
                self.view = View::Pods;
            }
            Key::Enter => self.view = View::Pods,
            _ => {}
        }
    }

    fn press_in_explanation(&mut self, key: Key) {
        let View::Explanation { lines, first, .. } = &mut self.view else { return };
        let last = lines.as_ref().map_or(0, |lines| lines.len().saturating_sub(1));
        *first = match key {
            Key::Up | Key::Char('k') => first.saturating_sub(1),
            Key::Down | Key::Char('j') => (*first + 1).min(last),
            Key::PageUp => first.saturating_sub(PAGE),
            Key::PageDown | Key::Char(' ') => (*first + PAGE).min(last),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => last,
            Key::Escape | Key::Enter | Key::Backspace | Key::Char('q') => {
                self.view = View::Pods;
                return;
            }
            Key::Interrupt | Key::Char(_) => *first,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a state with `counts` pods for each of several reasons.
    fn state(counts: &[usize]) -> State {
        let mut report: QueueReport =
            serde_json::from_str(include_str!("testdata/empty.json")).expect("a report");
        for (reason, count) in counts.iter().enumerate() {
            report.pods.extend((0..*count).map(|number| PendingPod {
                namespace: format!("ns{reason}"),
                name: format!("pod-{number}"),
                uid: format!("{reason}-{number}"),
                place: "unschedulable".to_owned(),
                waits_for: format!("reason {reason}"),
                ..PendingPod::default()
            }));
        }
        State { report: Some(report), ..State::new("test".to_owned(), false) }
    }

    /// Returns the rows, with the selected one marked.
    fn shown(state: &State) -> Vec<String> {
        let rows = state.rows();
        let selected = state.selected(&rows);
        let text = |(at, row): (usize, &Row<'_>)| {
            let mark = if Some(at) == selected { ">" } else { "" };
            match row {
                Row::Reason(group, is_open) => format!("{mark}{} {is_open}", group.reason),
                Row::Pod(pod) => format!("{mark}{}/{}", pod.namespace, pod.name),
            }
        };
        rows.iter().enumerate().map(text).collect()
    }

    #[test]
    fn large_reasons_are_closed_until_entered() {
        let mut state = state(&[2, 6]);
        let first = [">reason 1 false", "reason 0 true", "ns0/pod-0", "ns0/pod-1"];
        assert_eq!(shown(&state), first);
        assert_eq!(state.press(Key::Enter), Action::Draw);
        assert_eq!(shown(&state).len(), 10);
        state.press(Key::Enter);
        assert_eq!(shown(&state), first);
    }

    #[test]
    fn enter_on_a_pod_asks_for_its_explanation_and_escape_returns() {
        let mut state = state(&[2]);
        state.press(Key::Char('j'));
        state.press(Key::Down);
        let pod = Named { namespace: "ns0".to_owned(), name: "pod-1".to_owned(), uid: "0-1".to_owned() };
        assert_eq!(state.press(Key::Enter), Action::Explain(pod.clone()));
        let other = Named { uid: "else".to_owned(), ..pod.clone() };
        state.explained(&other, "late");
        assert_eq!(state.view, View::Explanation { of: pod.clone(), lines: None, first: 0 });
        state.explained(&pod, "a\nb");
        state.press(Key::Char('j'));
        state.press(Key::Char('j'));
        let lines = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(state.view, View::Explanation { of: pod, lines, first: 1 });
        state.press(Key::Escape);
        assert_eq!(state.view, View::Pods);
    }

    #[test]
    fn selection_follows_its_pod_and_stays_within_the_list() {
        let mut state = state(&[3]);
        state.press(Key::End);
        assert_eq!(shown(&state)[3], ">ns0/pod-2");
        let report = state.report.as_mut().expect("there is one");
        report.pods.remove(0);
        assert_eq!(shown(&state), ["reason 0 true", "ns0/pod-1", ">ns0/pod-2"]);
        state.report.as_mut().expect("there is one").pods.pop();
        assert_eq!(shown(&state), ["reason 0 true", ">ns0/pod-1"]);
        state.report.as_mut().expect("there is one").pods.clear();
        assert_eq!(shown(&state), [""; 0]);
        assert_eq!((state.press(Key::Enter), state.press(Key::Up)), (Action::Draw, Action::Draw));
    }

    #[test]
    fn filter_narrows_the_list_while_it_is_typed() {
        let mut state = state(&[1, 1]);
        for key in [Key::Char('/'), Key::Char('N'), Key::Char('s'), Key::Char('1'), Key::Char('q')] {
            assert_eq!(state.press(key), Action::Draw);
        }
        assert_eq!((state.filter.as_str(), shown(&state).len()), ("Ns1q", 0));
        state.press(Key::Backspace);
        assert_eq!(shown(&state), [">reason 1 true", "ns1/pod-0"]);
        state.press(Key::Enter);
        assert_eq!((&state.view, state.filter.as_str()), (&View::Pods, "Ns1"));
        state.press(Key::Escape);
        assert_eq!((state.filter.as_str(), shown(&state).len()), ("", 4));
    }

    #[test]
    fn q_quits_the_list_and_ctrl_c_quits_everything() {
        let mut state = state(&[1]);
        state.press(Key::Char('?'));
        assert_eq!(state.view, View::Help);
        assert_eq!(state.press(Key::Interrupt), Action::Quit);
        assert_eq!(state.press(Key::Char('q')), Action::Draw);
        assert_eq!(state.press(Key::Char('q')), Action::Quit);
    }
}
