//! The pod groups of pending pods. They need no script.

use crate::commands::explain::short_verdict;
use crate::commands::report::page::markup::Markup;
use crate::commands::report::page::waiting::{changes, reasons_table};
use supercargo_whatif::explain::format::count;
use supercargo_whatif::explain::{GroupExplanation, GroupVerdict};

/// Adds the groups, each with its members, topology domains and possible fixes.
pub(super) fn all(out: &mut Markup, groups: &[GroupExplanation]) {
    for (at, of) in groups.iter().enumerate() {
        let class = match of.verdict {
            GroupVerdict::Started | GroupVerdict::StartsNow => "good",
            GroupVerdict::WaitsForPreemption | GroupVerdict::TooFewMembers | GroupVerdict::NoGroup => "soon",
            GroupVerdict::Blocked
            | GroupVerdict::NeverFits
            | GroupVerdict::GivenUp
            | GroupVerdict::Failed => "bad",
        };
        out.raw(&format!("<details class=\"wait\" id=\"group-{at}\"><summary>"));
        out.element(&format!("span class=\"chip {class}\""), short_verdict(of.verdict)).raw(" ");
        out.element("b", &format!("pod group {}", of.group));
        out.element("span class=\"why\"", &of.summary).raw("</summary><div class=\"inside\">");
        let min = of.min_count.map_or_else(String::new, |min| format!("; minCount {min}"));
        let members = count(of.members, "member");
        out.element("p", &format!("{members}: {} with a node, {} waiting{min}", of.bound, of.waiting));
        domains(out, of);
        for short in &of.short {
            let names = short.examples.join(", ");
            out.element("h3", &format!("{} without a node: {names}", count(short.members, "member")));
            reasons_table(out, &short.reasons);
        }
        changes(out, &of.changes, "scheduling the group again", None);
        out.raw("</div></details>");
    }
}

fn domains(out: &mut Markup, of: &GroupExplanation) {
    let Some(key) = of.topology_key.as_ref().filter(|_| !of.domains.is_empty()) else { return };
    out.element("h3", "Topology domains, closest first");
    out.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Topology domains\"><table><caption class=\"unseen\">Topology domains</caption>");
    out.head(&[(key, false), ("Nodes", true), ("Fit", true), ("Lack", true)]).raw("<tbody>");
    for domain in &of.domains {
        out.raw("<tr>").element("th scope=\"row\"", &domain.name);
        for number in [domain.nodes, domain.fits, domain.lacks] {
            out.element("td class=\"n\"", &number.to_string());
        }
        out.raw("</tr>");
    }
    out.raw("</tbody></table></div>");
}
