//! Formats the explanation of a group as text.

use super::render::{changes, new_pods, reasons_table};
use crate::screen::Screen;
use supercargo_whatif::explain::format::{count, some};
use supercargo_whatif::explain::{GroupExplanation, GroupVerdict};

/// Number of names of equal members that are shown.
const EXAMPLES_SHOWN: usize = 3;

/// Formats the explanation of a group.
pub(super) fn text(of: &GroupExplanation) -> String {
    let mut screen = Screen::of_stdout();
    describe(&mut screen, of);
    screen.into_text()
}

/// Adds the explanation of a group.
pub(super) fn describe(screen: &mut Screen, of: &GroupExplanation) {
    screen.heading(&format!("Pod group {}: {}", of.group, short_verdict(of.verdict)));
    screen.line(&format!("  {}.", of.summary));
    let mut members =
        format!("  {}: {} with a node, {} waiting", count(of.members, "member"), of.bound, of.waiting);
    for (number, what) in [(of.gated, "gated"), (of.deleting, "being deleted")] {
        if number > 0 {
            members.push_str(&format!(", {number} {what}"));
        }
    }
    if let Some(min) = of.min_count {
        members.push_str(&format!("; minCount {min}"));
    }
    screen.line(&members);
    if !of.victims.is_empty() {
        screen.line(&format!("  preempted: {}", some(&of.victims, EXAMPLES_SHOWN)));
    }
    domains(screen, of);
    members_that_lack(screen, of);
    changes(screen, &of.changes, "scheduling the group again", "the group then uses");
    new_pods(screen, &of.changes, None);
}

/// Returns the state of a group in a few words.
pub(crate) fn short_verdict(verdict: GroupVerdict) -> &'static str {
    match verdict {
        GroupVerdict::Started => "started",
        GroupVerdict::StartsNow => "starts now",
        GroupVerdict::WaitsForPreemption => "waiting for preemption",
        GroupVerdict::Blocked => "blocked",
        GroupVerdict::NeverFits => "can never start",
        GroupVerdict::GivenUp => "given up",
        GroupVerdict::TooFewMembers => "waiting for members",
        GroupVerdict::NoGroup => "does not exist",
        GroupVerdict::Failed => "fails",
    }
}

fn domains(screen: &mut Screen, of: &GroupExplanation) {
    let Some(key) = of.topology_key.as_ref().filter(|_| !of.domains.is_empty()) else { return };
    screen.heading(&format!("Topology domains, closest first ({key})"));
    let mut rows = vec![["DOMAIN", "NODES", "FIT", "LACK"].map(str::to_owned).to_vec()];
    for domain in &of.domains {
        let numbers = [domain.nodes, domain.fits, domain.lacks].map(|number| number.to_string());
        rows.push(std::iter::once(domain.name.clone()).chain(numbers).collect());
    }
    screen.table(&[1, 2, 3], &rows);
    if of.domain_count > of.domains.len() {
        screen.line(&format!("  and {} more", of.domain_count - of.domains.len()));
    }
}

fn members_that_lack(screen: &mut Screen, of: &GroupExplanation) {
    for short in &of.short {
        let others = if of.fits == 0 { "" } else { " once the others are placed" };
        let names = match short.members - short.examples.len() {
            0 => short.examples.join(", "),
            more => format!("{} and {more} more", short.examples.join(", ")),
        };
        let is = if short.members == 1 { "is" } else { "are" };
        screen.heading(&format!("{} {is} unschedulable{others}: {names}", count(short.members, "member")));
        reasons_table(screen, &short.reasons);
    }
}
