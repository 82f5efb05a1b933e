//! The moves of a plan: a drawing from node to node, and the steps as a table. Needs no script.

use crate::commands::report::model::Report;
use crate::commands::report::page::markup::Markup;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use supercargo_whatif::explain::format::count;

/// Number of steps in the table.
const ROWS_MAX: usize = 500;
/// Number of nodes on each side of the drawing; with more, those with most moves.
const NODES_MAX: usize = 40;
/// Height of a node in the drawing.
const LINE: usize = 22;
/// Width of the drawing, and where its curves begin and end.
const WIDTH: usize = 720;
const LEFT: usize = 260;
const RIGHT: usize = 460;

/// Returns the section; empty without a plan.
pub(super) fn section(report: &Report) -> String {
    if report.moves.is_empty() {
        return String::new();
    }
    let mut out = Markup::default();
    out.raw("<section id=\"moves\" aria-labelledby=\"moves-heading\"><h2 id=\"moves-heading\">Moves</h2>");
    drawing(&mut out, report);
    table(&mut out, report);
    out.raw("</section>\n");
    out.into_text()
}

/// Returns the link to the section; empty without a plan.
pub(super) fn link(report: &Report) -> String {
    if report.moves.is_empty() {
        return String::new();
    }
    format!("<li><a href=\"#moves\">Moves <span class=\"count\">{}</span></a></li>\n", report.moves.len())
}

/// Draws a curve for each pair of nodes, as wide as it has moves.
fn drawing(out: &mut Markup, report: &Report) {
    let mut pairs: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for step in &report.moves {
        *pairs.entry((step.from, step.to)).or_default() += 1;
    }
    let side = |of: fn(&(u32, u32)) -> u32| {
        let mut nodes: BTreeMap<u32, usize> = BTreeMap::new();
        pairs.iter().for_each(|(pair, moves)| *nodes.entry(of(pair)).or_default() += moves);
        let mut most: Vec<(u32, usize)> = nodes.into_iter().collect();
        most.sort_by_key(|&(node, moves)| (std::cmp::Reverse(moves), node));
        let left_out = most.len().saturating_sub(NODES_MAX);
        most.truncate(NODES_MAX);
        most.sort_unstable();
        (most, left_out)
    };
    let ((from, from_left), (to, to_left)) = (side(|pair| pair.0), side(|pair| pair.1));
    let height = LINE * from.len().max(to.len());
    let name = |node: u32| report.nodes.name[node as usize].as_str();
    let label = format!(
        "{} from {} to {}",
        count(report.moves.len(), "move"),
        count(from.len(), "node"),
        count(to.len(), "node")
    );
    out.raw(&format!("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Drawing of the moves\"><svg class=\"moves\" \
                      viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\"><title>"));
    out.text(&label).raw("</title>");
    let middle = |nodes: &[(u32, usize)], node: u32| {
        nodes.iter().position(|&(other, _)| other == node).map(|at| at * LINE + LINE / 2)
    };
    for (&(source, target), moves) in &pairs {
        if let (Some(y1), Some(y2)) = (middle(&from, source), middle(&to, target)) {
            let (width, bend) = ((*moves).min(8), (LEFT + RIGHT) / 2);
            out.raw(&format!("<path d=\"M{LEFT} {y1}C{bend} {y1} {bend} {y2} {RIGHT} {y2}\" stroke-width=\"{width}\"><title>"));
            out.text(&format!("{} from {} to {}", count(*moves, "pod"), name(source), name(target)));
            out.raw("</title></path>");
        }
    }
    for (nodes, x, anchor) in [(&from, LEFT - 8, "end"), (&to, RIGHT + 8, "start")] {
        for (at, &(node, moves)) in nodes.iter().enumerate() {
            let y = at * LINE + LINE / 2 + 4;
            out.raw(&format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">"));
            let (name, is_source) = (name(node), anchor == "end");
            let shown =
                if is_source { format!("{name} \u{2212}{moves}") } else { format!("+{moves} {name}") };
            out.text(&shown).raw("</text>");
        }
    }
    out.raw("</svg></div>");
    if from_left + to_left > 0 {
        out.element(
            "p class=\"dim\"",
            &format!("Not drawn: {}, with fewer moves.", count(from_left + to_left, "further node")),
        );
    }
}

fn table(out: &mut Markup, report: &Report) {
    out.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Steps of the plan\"><table>");
    out.head(&[("Step", true), ("Pod", false), ("From", false), ("To", false), ("Why it is safe", false)])
        .raw("<tbody>");
    let mut number = String::new();
    for step in report.moves.iter().take(ROWS_MAX) {
        number.clear();
        // Writing to a String cannot fail.
        let _ = write!(number, "{}", step.step);
        let pod = step.pod as usize;
        let namespace = &report.namespaces[report.pods.namespace[pod] as usize];
        out.raw("<tr>").element("td class=\"n\"", &number);
        out.element("th scope=\"row\" class=\"whole\"", &format!("{namespace}/{}", report.pods.name[pod]));
        out.element("td class=\"whole\"", &report.nodes.name[step.from as usize]);
        out.element("td class=\"whole\"", &report.nodes.name[step.to as usize]);
        out.element("td", &step.why).raw("</tr>");
    }
    out.raw("</tbody></table></div>");
    if report.moves.len() > ROWS_MAX {
        out.element(
            "p class=\"dim\"",
            &format!("And {}.", count(report.moves.len() - ROWS_MAX, "further step")),
        );
    }
}
