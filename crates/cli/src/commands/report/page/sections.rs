//! The summary and the spread constraints. These sections need no script.

use crate::commands::report::model::{ABSENT, Report, Resource, Skew, Spread, WAITS};
use crate::commands::report::page::markup::Markup;
use crate::commands::report::page::{amount, percent, waiting};
use supercargo_whatif::explain::format::count as counted;

/// Maximum number of resources with a column in the table of zones.
const COLUMNS_MAX: usize = 5;

/// Returns the messages about the input.
pub(super) fn notices(report: &Report) -> String {
    let mut out = Markup::default();
    for notice in &report.notices {
        out.element("p class=\"notice\"", notice);
    }
    out.into_text()
}

/// Returns the content of the summary section.
pub(super) fn summary(report: &Report) -> String {
    let mut out = Markup::default();
    figures(&mut out, report);
    simulated(&mut out, report);
    out.raw("<div class=\"two\">");
    resources(&mut out, report);
    zones(&mut out, report);
    out.raw("</div>");
    out.into_text()
}

fn figures(out: &mut Markup, report: &Report) {
    let on_nodes = |state: &Vec<i32>| state.iter().filter(|&&at| at != WAITS && at != ABSENT).count();
    let placed: Vec<String> = report.pods.node.iter().map(|state| on_nodes(state).to_string()).collect();
    let figure = |out: &mut Markup, name: &str, value: &str, more: &str| {
        out.raw("<div>").element("dt", name).raw("<dd>").element("b", value);
        if !more.is_empty() {
            out.raw(" ").element("span class=\"dim\"", more);
        }
        out.raw("</dd></div>");
    };
    out.raw("<dl class=\"figures\">");
    let closed = report.nodes.cordoned.len();
    let closed = if closed > 0 { format!("{closed} cordoned") } else { String::new() };
    figure(out, "Nodes", &changed(&count(report, |_| true)), &closed);
    let zones = report.zones.iter().filter(|zone| !zone.is_empty()).count();
    figure(out, "Zones", &zones.to_string(), "");
    let was = if placed.len() > 1 { format!("before: {}", placed[0]) } else { String::new() };
    figure(out, "Pods on nodes", placed.last().map_or("0", String::as_str), &was);
    let waited = report.pods.node[0].iter().filter(|&&at| at == WAITS).count();
    let was = if placed.len() > 1 { format!("before: {waited}") } else { String::new() };
    figure(out, "Pending", &waiting::count(report).to_string(), &was);
    figure(out, "Owners", &report.owners.len().to_string(), "");
    out.raw("</dl>");
}

fn simulated(out: &mut Markup, report: &Report) {
    let Some(of) = &report.simulated else { return };
    let mut text = format!("Placed {} of {}", of.placed, counted(of.pods, "pod"));
    if of.placed > 0 {
        text += &format!(" on {}", counted(of.nodes, "node"));
    }
    if of.evicted > 0 {
        text += &format!("; {} preempted", counted(of.evicted, "pod"));
    }
    let class = if of.placed == of.pods { "p class=\"result\"" } else { "p class=\"result short\"" };
    out.element(
        class,
        &format!(
            "{text}. \"Before\" shows the cluster as it is, \"after\" shows it with these pods and all changes."
        ),
    );
}

/// Returns requested and allocatable amounts of a resource, summed over some nodes, for each state.
fn sums(report: &Report, resource: usize, of: impl Fn(usize) -> bool) -> Vec<(i64, i64)> {
    let nodes = &report.nodes;
    let by_state = nodes.requested.iter().zip(&nodes.absent).map(|(requested, absent)| {
        let here = (0..nodes.name.len()).filter(|&at| of(at) && absent.binary_search(&(at as u32)).is_err());
        here.fold((0_i64, 0_i64), |(asked, all), at| {
            let (requested, allocatable) = (requested[resource][at], nodes.allocatable[resource][at]);
            (asked.saturating_add(requested), all.saturating_add(allocatable))
        })
    });
    by_state.collect()
}

/// Returns the number of existing nodes among some nodes, for each state.
fn count(report: &Report, of: impl Fn(usize) -> bool) -> Vec<String> {
    let nodes = &report.nodes;
    let here = |absent: &Vec<u32>| {
        (0..nodes.name.len()).filter(|&at| of(at) && absent.binary_search(&(at as u32)).is_err()).count()
    };
    nodes.absent.iter().map(|absent| here(absent).to_string()).collect()
}

fn resources(out: &mut Markup, report: &Report) {
    out.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Requests of the whole cluster\"><table>");
    out.raw("<caption>Requested of allocatable, whole cluster</caption>");
    out.head(&[("Resource", false), ("Requested", true), ("Allocatable", true), ("Share", false)])
        .raw("<tbody>");
    for (at, Resource { name, unit }) in report.resources.iter().enumerate() {
        let sums = sums(report, at, |_| true);
        let requested: Vec<String> = sums.iter().map(|sum| amount(*unit, sum.0)).collect();
        let allocatable: Vec<String> = sums.iter().map(|sum| amount(*unit, sum.1)).collect();
        out.raw("<tr>").element("th scope=\"row\"", name);
        out.element("td class=\"n\"", &changed(&requested));
        out.element("td class=\"n\"", &changed(&allocatable));
        out.raw("<td>");
        share(out, &sums);
        out.raw("</td></tr>");
    }
    out.raw("</tbody></table></div>");
}

fn zones(out: &mut Markup, report: &Report) {
    out.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Requests by zone\"><table>");
    out.raw("<caption>By zone</caption>");
    let shown = report.resources.len().min(COLUMNS_MAX);
    let mut head = vec![("Zone", false), ("Nodes", true)];
    head.extend(report.resources[..shown].iter().map(|resource| (resource.name.as_str(), false)));
    out.head(&head).raw("<tbody>");
    for (number, zone) in report.zones.iter().enumerate() {
        let is_in = |at: usize| report.nodes.zone[at] as usize == number;
        out.raw("<tr>")
            .element("th scope=\"row\" class=\"whole\"", if zone.is_empty() { "no zone" } else { zone });
        out.element("td class=\"n\"", &changed(&count(report, is_in)));
        for resource in 0..shown {
            let sums = sums(report, resource, is_in);
            out.raw("<td>");
            share(out, &sums);
            out.raw("</td>");
        }
        out.raw("</tr>");
    }
    out.raw("</tbody></table></div>");
}

/// Adds a bar with its percentage: the last state as a bar, the first as a mark.
fn share(out: &mut Markup, sums: &[(i64, i64)]) {
    let shares: Vec<Option<i64>> =
        sums.iter().map(|&(requested, allocatable)| percent(requested, allocatable)).collect();
    if shares.iter().all(Option::is_none) {
        out.element("span class=\"dim\"", "none");
        return;
    }
    let shares: Vec<i64> = shares.into_iter().map(|share| share.unwrap_or(0)).collect();
    let width = |share: i64| share.clamp(0, 100);
    let (first, last) = (shares[0], shares[shares.len() - 1]);
    let over = if last > 100 { " over" } else { "" };
    out.raw(&format!(
        "<span class=\"share\"><svg class=\"bar{over}\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"rest\" width=\"100\" height=\"8\"/><rect width=\"{}\" height=\"8\"/>",
        width(last)
    ));
    if shares.len() > 1 {
        out.raw(&format!("<rect class=\"was\" x=\"{}\" width=\"1\" height=\"8\"/>", width(first).min(99)));
    }
    let texts: Vec<String> = shares.iter().map(i64::to_string).collect();
    out.raw("</svg>").element("span class=\"n\"", &format!("{} %", changed(&texts))).raw("</span>");
}

/// Formats a value that may differ between the states.
fn changed(texts: &[String]) -> String {
    match texts {
        [before, after] if before != after => format!("{before} → {after}"),
        _ => texts.last().cloned().unwrap_or_default(),
    }
}

/// Returns the content of the spread section.
pub(super) fn spread(report: &Report) -> String {
    let mut out = Markup::default();
    if report.spread.is_empty() {
        out.element("p", "No pod has a topology spread constraint.");
        return out.into_text();
    }
    out.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Spread constraints\"><table>");
    out.raw("<caption>Spread constraints: matching pods by domain</caption>");
    let head = ["Owner", "Matching pods", "Topology key", "Rule", "Pods", "maxSkew", "Skew", "Domains"];
    out.head(&head.map(|name| (name, matches!(name, "Pods" | "maxSkew" | "Skew")))).raw("<tbody>");
    for of in &report.spread {
        constraint(&mut out, report, of);
    }
    out.raw("</tbody></table></div>");
    if report.spread_left_out > 0 {
        out.element("p class=\"dim\"", &format!("and {} more, each with fewer pods", report.spread_left_out));
    }
    out.into_text()
}

fn constraint(out: &mut Markup, report: &Report, of: &Spread) {
    let namespace = &report.namespaces[of.namespace as usize];
    let owner = usize::try_from(of.owner).ok().map(|at| &report.owners[at]);
    let owner = owner.map_or_else(String::new, |owner| format!("/{}", owner.name));
    out.raw("<tr>").element("th scope=\"row\" class=\"mono\"", &format!("{namespace}{owner}"));
    out.element("td class=\"mono\"", &of.selector).element("td class=\"mono\"", &of.topology_key);
    out.element("td", if of.is_hard { "DoNotSchedule" } else { "ScheduleAnyway" });
    out.element("td class=\"n\"", &of.pods.to_string()).element("td class=\"n\"", &of.max_skew.to_string());
    let skews: Vec<String> = of.states.iter().map(|state| state.skew.to_string()).collect();
    let over = of.states.last().map_or(0, |state| state.skew - i64::from(of.max_skew));
    out.raw("<td class=\"n\">").text(&changed(&skews));
    if over > 0 {
        out.raw(" ").element(
            if of.is_hard { "span class=\"chip bad\"" } else { "span class=\"chip soon\"" },
            &format!("{over} over"),
        );
    }
    out.raw("</td><td>");
    if let Some(last) = of.states.last() {
        domains(out, last);
    }
    out.raw("</td></tr>");
}

fn domains(out: &mut Markup, of: &Skew) {
    let list = |out: &mut Markup, domains: &[(String, i64)]| {
        for (at, (name, pods)) in domains.iter().enumerate() {
            out.raw(if at > 0 { ", " } else { "" })
                .element("span class=\"mono\"", name)
                .raw(" ")
                .text(&pods.to_string());
        }
    };
    let left_out = of.domain_count - of.domains.len();
    if of.domains.len() <= 5 && left_out == 0 {
        list(out, &of.domains);
        return;
    }
    out.raw("<details><summary>").text(&format!("{} domains", of.domain_count)).raw("</summary>");
    if left_out > 0 {
        let half = of.domains.len() / 2;
        list(out, &of.domains[..half]);
        out.raw(" ").element("span class=\"dim\"", &format!("... {left_out} more ...")).raw(" ");
        list(out, &of.domains[half..]);
    } else {
        list(out, &of.domains);
    }
    out.raw("</details>");
}
