//! Draws the state of `top`. A pure function: the same state and size give the same screen.

use super::load::Load;
use super::state::{Row, State, View};
use crate::commands::queue::table::{between, next_try};
use crate::screen::plain;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, List, ListItem, ListState, Paragraph};
use std::collections::BTreeMap;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::pending::{QueueReport, Severity};

/// Lines of the help, in the order of their use.
const HELP: [(&str, &str); 9] = [
    ("j k, arrows", "select a row; PageUp, PageDown, Home and End too"),
    ("Enter", "on a pod: explain it; on a reason: show or hide its pods"),
    ("Esc", "go back from an explanation; remove the filter"),
    ("/", "show only pods with a text in namespace, name, place or reason"),
    ("q", "quit; Ctrl-C quits from everywhere"),
    ("", ""),
    ("red", "the latest attempts ended with an error"),
    ("yellow", "no node is feasible until the cluster changes"),
    ("cyan", "waits for its backoff or a gate"),
];

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(4), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    draw_head(frame, head, state);
    match &state.view {
        View::Pods | View::Filter => draw_pods(frame, body, state),
        View::Help => draw_help(frame, body),
        View::Explanation { of, lines, first } => {
            let title = format!("explain pod {}/{}", of.namespace, of.name);
            let lines = match lines {
                None => vec!["reading the cluster and deciding ...".to_owned()],
                Some(lines) => lines.iter().skip(*first).map(|line| plain(line)).collect(),
            };
            let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
            frame.render_widget(Paragraph::new(lines).block(block(&title)), body);
        }
    }
    draw_foot(frame, foot, state);
}

fn block(title: &str) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(format!(" {} ", plain(title)))
}

/// Returns a style, or none of its color if there are no colors.
fn colored(state: &State, color: Color) -> Style {
    if state.is_colored { Style::new().fg(color) } else { Style::new() }
}

/// Adds parts to a label as long as the line has room for a whole one.
fn line(label: &str, parts: Vec<Span<'static>>, width: u16) -> Line<'static> {
    let mut spans = vec![Span::from(format!("{label:<9}"))];
    let mut left = usize::from(width).saturating_sub(9);
    for part in parts {
        let needed = part.width() + 2;
        if needed > left {
            break;
        }
        left -= needed;
        spans.extend([Span::from("  "), part]);
    }
    Line::from(spans)
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let width = area.width;
    let report = state.report.as_ref();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut title = vec![Span::from(plain(&state.source))];
    if let Some(report) = report {
        title.push(Span::from(plain(&report.time)));
        if !report.leading {
            title.push(Span::styled("standby replica", colored(state, Color::Yellow)));
        }
        if !report.complete {
            title.push(Span::from("only namespaces where you may read pods"));
        }
    }
    let mut title = line("top", title, width);
    title.spans[0].style = bold;
    let queues = report.map_or_else(|| vec![Span::from("no answer yet")], |report| queues(report, state));
    let (rates, latencies) = match &state.load {
        Some(load) => (rates(load, state), latencies(load)),
        None => {
            let why = state.no_load.as_deref().unwrap_or("after the second answer");
            (vec![Span::from(plain(why))], vec![Span::from("-")])
        }
    };
    let lines = [
        title,
        line("Queues", queues, width),
        line("Rates", rates, width),
        line("Latency", latencies, width),
    ];
    frame.render_widget(Paragraph::new(lines.to_vec()), area);
}

/// Returns the numbers of pods by place, and since when the pod waits that waits longest.
fn queues(report: &QueueReport, state: &State) -> Vec<Span<'static>> {
    let count = |place: &str| report.counts.get(place).copied().unwrap_or_default();
    let named = |place: &str, color: Option<Color>| {
        let number = count(place);
        let style = color.filter(|_| number > 0).map_or(Style::new(), |color| colored(state, color));
        Span::styled(format!("{place} {number}"), style)
    };
    let mut parts = vec![
        named("active", None),
        named("backoff", Some(Color::Cyan)),
        named("unschedulable", Some(Color::Yellow)),
        named("gated", Some(Color::Cyan)),
    ];
    let in_flight: usize = ["extenders", "evaluation", "volumes", "binding"].into_iter().map(count).sum();
    parts.push(Span::from(format!("in flight {in_flight}")));
    let first = report.pods.iter().map(|pod| pod.first_queued.as_ref().unwrap_or(&pod.since)).min();
    if let Some(first) = first {
        parts.push(Span::from(format!("oldest {}", between(first, &report.time))));
    }
    parts
}

fn rates(load: &Load, state: &State) -> Vec<Span<'static>> {
    let of = |result: &str| load.attempts.get(result).copied().unwrap_or_default();
    let all: f64 = load.attempts.values().sum();
    let mut parts = vec![
        Span::from(format!("scheduled {}/s", rate(of("scheduled")))),
        Span::from(format!("attempts {}/s", rate(all))),
        Span::from(format!("unschedulable {}/s", rate(of("unschedulable")))),
    ];
    let errors = of("error");
    let style = if errors > 0.0 { colored(state, Color::Red) } else { Style::new() };
    parts.push(Span::styled(format!("errors {}/s", rate(errors)), style));
    if let Some(busy) = load.busy {
        parts.push(Span::from(format!("busy {:.0} %", busy * 100.0)));
    }
    parts.push(Span::from(format!("over {} s", load.covers.as_secs())));
    parts
}

/// Formats a rate with three digits at most.
fn rate(rate: f64) -> String {
    match rate {
        _ if rate >= 99.95 => format!("{rate:.0}"),
        _ if rate >= 9.995 => format!("{rate:.1}"),
        _ => format!("{rate:.2}"),
    }
}

fn latencies(load: &Load) -> Vec<Span<'static>> {
    let both = |what: &str, of: Option<(f64, f64)>| match of {
        Some((median, high)) => format!("{what} p50 {} p99 {}", time(median), time(high)),
        None => format!("{what} -"),
    };
    vec![Span::from(both("attempt", load.attempt)), Span::from(both("queue to node", load.pod))]
}

/// Formats a time in seconds with its unit.
fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 0.0995 => format!("{:.1}ms", seconds * 1000.0),
        _ if seconds < 0.9995 => format!("{:.0}ms", seconds * 1000.0),
        _ if seconds < 99.95 => format!("{seconds:.1}s"),
        _ => format!("{seconds:.0}s"),
    }
}

fn color_of(severity: Severity) -> Option<Color> {
    match severity {
        Severity::Error => Some(Color::Red),
        Severity::Blocked => Some(Color::Yellow),
        Severity::Waiting => Some(Color::Cyan),
        Severity::Moving => None,
    }
}

fn draw_pods(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let rows = state.rows();
    let pods: BTreeMap<bool, usize> = rows.iter().fold(BTreeMap::new(), |mut counts, row| {
        if let Row::Reason(group, _) = row {
            *counts.entry(true).or_default() += group.pods.len();
            *counts.entry(false).or_default() += 1;
        }
        counts
    });
    let of = |is_pods| pods.get(&is_pods).copied().unwrap_or_default();
    let mut title = format!("{} waiting for {}", count(of(true), "pending pod"), count(of(false), "reason"));
    if !state.filter.is_empty() {
        title.push_str(&format!(", filter {:?}", state.filter));
    }
    if let Some(report) = state.report.as_ref().filter(|report| report.left_out > 0) {
        title.push_str(&format!(", and {} not listed", report.left_out));
    }
    let [head, body] = Layout::vertical([Constraint::Length(2), Constraint::Min(0)]).areas(area);
    let names = Line::styled("    PODS  PLACE          SINCE    WAITS FOR", Modifier::BOLD);
    frame.render_widget(Paragraph::new(names).block(block(&title)), head);
    let Some(report) = &state.report else { return };
    let items = rows.iter().map(|row| {
        let text = match row {
            Row::Reason(group, is_open) => {
                let mark = if *is_open { "-" } else { "+" };
                let since = between(group.since(), &report.time);
                let line = format!(
                    "{mark} {:>6}  {:<13}  {since:<7}  {}",
                    group.pods.len(),
                    group.place,
                    plain(&group.reason)
                );
                let style = color_of(group.severity).map_or(Style::new(), |color| colored(state, color));
                Span::styled(line, style)
            }
            Row::Pod(pod) => {
                let next =
                    pod.next_try.as_deref().map(|next| format!(", next {}", next_try(next, &report.time)));
                let (since, attempts) = (between(&pod.since, &report.time), count(pod.attempts, "attempt"));
                let name = format!("{}/{}", pod.namespace, pod.name);
                let line = format!("          {name}  since {since}, {attempts}{}", next.unwrap_or_default());
                Span::from(plain(&line))
            }
        };
        ListItem::new(text)
    });
    let list = List::new(items).highlight_style(Modifier::REVERSED);
    let mut at = ListState::default().with_selected(state.selected(&rows));
    frame.render_stateful_widget(list, body, &mut at);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let lines = HELP.map(|(key, what)| Line::from(format!("  {key:<12}  {what}")));
    frame.render_widget(Paragraph::new(lines.to_vec()).block(block("help")), area);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let keys = match &state.view {
        View::Pods => "j/k select  Enter explain  / filter  ? help  q quit".to_owned(),
        View::Filter => format!("/{}_  Enter keep  Esc remove", plain(&state.filter)),
        View::Help => "any key: back".to_owned(),
        View::Explanation { .. } => "j/k scroll  Esc back".to_owned(),
    };
    let line = match &state.error {
        Some(error) if state.view == View::Pods => {
            Line::styled(plain(&format!("error: {error}")), colored(state, Color::Red))
        }
        _ => Line::styled(keys, Modifier::DIM),
    };
    frame.render_widget(Paragraph::new(line), area);
}

#[cfg(test)]
mod tests {
    use super::super::load::{History, Sample};
    use super::super::state::{Action, Key};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::path::Path;
    use std::time::Duration;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

    fn read(name: &str) -> String {
        std::fs::read_to_string(Path::new(ROOT).join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns the state of the documented example: the report of docs/queue.md, and two scrapes.
    fn state() -> State {
        let report = serde_json::from_str(&read("docs/top/report.json")).expect("a report");
        let mut history = History::default();
        let mut load = None;
        for (at, name) in [(0, "docs/top/metrics-before.txt"), (60, "docs/top/metrics.txt")] {
            load = history.add(Duration::from_secs(at), Sample::of(&read(name)));
        }
        let source = "leader of kube-system/supercargo".to_owned();
        let mut state = State::new(source, false);
        (state.report, state.load) = (Some(report), load);
        state
    }

    /// Returns the screen as text, without blanks at the ends of lines.
    fn screen(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen in memory");
        terminal.draw(|frame| draw(frame, state)).expect("a screen in memory");
        let buffer = terminal.backend().buffer();
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        let lines = cells.chunks(usize::from(width)).map(|line| line.concat().trim_end().to_owned() + "\n");
        lines.collect()
    }

    /// Compares a screen with the block of docs/top.md under the heading; `UPDATE_EXPECT=1` rewrites the block.
    fn assert_is_documented(heading: &str, screen: &str) {
        let page = read("docs/top.md");
        let (before, rest) = page.split_once(&format!("## {heading}\n")).expect("the page has the heading");
        let (intro, rest) = rest.split_once("```text\n").expect("a block follows");
        let (shown, after) = rest.split_once("```\n").expect("the block ends");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            let page = format!("{before}## {heading}\n{intro}```text\n{screen}```\n{after}");
            std::fs::write(Path::new(ROOT).join("docs/top.md"), page).expect("the page can be written");
            return;
        }
        assert_eq!(screen, shown, "the block under {heading:?} differs; UPDATE_EXPECT=1 rewrites it");
    }

    // One test, since the page has all of them and is written by one at a time.
    #[test]
    fn documented_screens_are_those_of_the_program() {
        let mut of = state();
        assert_is_documented("The screen", &screen(&of, 110, 24));
        assert_is_documented("On a small terminal", &screen(&of, 60, 14));
        of.press(Key::Char('?'));
        assert_is_documented("Keys", &screen(&of, 80, 15));
    }

    #[test]
    fn explanation_is_scrolled_and_errors_are_in_the_last_line() {
        let mut of = state();
        of.press(Key::Down);
        let Action::Explain(pod) = of.press(Key::Enter) else { panic!("a pod is selected: {of:?}") };
        let shown = screen(&of, 80, 8);
        assert!(shown.contains(&format!(" explain pod {}/{} ", pod.namespace, pod.name)), "{shown}");
        assert!(shown.contains("reading the cluster"), "{shown}");
        of.explained(&pod, "one\ntwo\u{1b}[2J\nthree");
        of.press(Key::Down);
        let shown = screen(&of, 80, 8);
        assert!(!shown.contains("one") && shown.contains("two\\u{1b}[2J\nthree\n"), "{shown}");
        of.press(Key::Escape);
        of.error = Some("the leader is gone".to_owned());
        assert!(screen(&of, 80, 8).ends_with("error: the leader is gone\n"));
    }

    #[test]
    fn before_the_first_answer_and_on_a_tiny_screen_nothing_fails() {
        let empty = State::new("x".to_owned(), true);
        assert!(screen(&empty, 80, 10).contains("no answer yet"));
        for (width, height) in [(1, 1), (9, 3), (20, 5)] {
            assert_eq!(screen(&state(), width, height).lines().count(), usize::from(height));
        }
    }

    #[test]
    fn severities_have_colors_only_if_colors_are_allowed() {
        for is_colored in [true, false] {
            let mut of = state();
            of.is_colored = is_colored;
            let mut terminal = Terminal::new(TestBackend::new(110, 24)).expect("a screen in memory");
            terminal.draw(|frame| draw(frame, &of)).expect("a screen in memory");
            let cells = terminal.backend().buffer().content();
            let has = |color| cells.iter().any(|cell| cell.fg == color);
            assert_eq!([has(Color::Red), has(Color::Yellow), has(Color::Cyan)], [is_colored; 3]);
        }
    }

    #[test]
    fn rates_and_times_have_three_digits() {
        assert_eq!([0.0, 9.99, 12.34, 99.96, 1234.5].map(rate), ["0.00", "9.99", "12.3", "100", "1234"]);
        assert_eq!([0.00123, 0.25, 1.0, 250.0].map(time), ["1.2ms", "250ms", "1.0s", "250s"]);
    }
}
