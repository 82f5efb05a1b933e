//! Describes what keeps a request from a device.

use super::{Holders, NAMED, attribute_text, find};
use crate::explain::format::some;
use supercargo_cel::{Parts, compile};
use supercargo_core::cache::Snapshot;
use supercargo_core::model::device::DeviceId;
use supercargo_core::model::quantity::{Amount, Quantity};
pub(super) use supercargo_core::plugins::dynamic_resources::diagnosis::Hindrance;
use supercargo_core::plugins::dynamic_resources::diagnosis::RequestDiagnosis;

/// Units of binary quantities, largest first.
const UNITS: [(&str, i64); 4] = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];

/// Whether a request for all devices leaves such a device out, instead of failing.
pub(super) fn leaves_out(why: &Hindrance) -> bool {
    matches!(
        why,
        Hindrance::Selector { .. }
            | Hindrance::OtherNode
            | Hindrance::NoCapacity(_)
            | Hindrance::Capacity { .. }
    )
}

/// Returns how close the device is to being usable; closer ones are listed first.
pub(super) fn rank(why: &Hindrance) -> usize {
    match why {
        Hindrance::SelectorFailed(_) => 0,
        Hindrance::InUse | Hindrance::Avoided => 1,
        Hindrance::Taint(_) | Hindrance::Counter { .. } | Hindrance::Capacity { .. } => 2,
        Hindrance::NoAttribute(_) | Hindrance::NoCapacity(_) => 3,
        Hindrance::Selector { of_class: false, .. } => 4,
        Hindrance::Selector { of_class: true, .. } => 5,
        Hindrance::OtherNode => 6,
    }
}

/// Describes the obstacle; the text follows the names of the devices.
pub(super) fn text(
    why: &Hindrance,
    id: &DeviceId,
    request: &RequestDiagnosis,
    snapshot: Snapshot<'_>,
    holders: &Holders,
) -> String {
    match why {
        Hindrance::Avoided => "avoided, because its binding conditions failed for this claim".to_owned(),
        Hindrance::InUse => match holders.claims(id) {
            [] => "in use".to_owned(),
            claims => {
                let texts: Vec<String> = claims.iter().map(|claim| holders.text(claim).to_owned()).collect();
                format!("in use by {}", some(&texts, NAMED))
            }
        },
        Hindrance::Selector { of_class, number, expression } => {
            let owner = match of_class {
                true => format!("the class {}", snapshot.text(request.class)),
                false => "the request".to_owned(),
            };
            let read = read(expression, id, snapshot);
            format!("not selected by {owner}, selector #{number}: {expression}{read}")
        }
        Hindrance::SelectorFailed(error) => format!("ends the decision with an error: {error}"),
        Hindrance::OtherNode => "for other nodes".to_owned(),
        Hindrance::NoCapacity(name) => format!("without the capacity {name}"),
        Hindrance::Capacity { name, wanted, free, total } => format!(
            "short of the capacity {name}: wanted {}, {} of {} free",
            amount(*wanted),
            amount(*free),
            amount(*total)
        ),
        Hindrance::Counter { set, name, wanted, free, total } => {
            let needs = if wanted.is_zero() {
                "overdrawn by other devices".to_owned()
            } else {
                format!("wanted {}", amount(*wanted))
            };
            let (free, total) = (amount(*free), amount(*total));
            format!("short of the counter {name} of {set}: {needs}, {free} of {total} free")
        }
        Hindrance::Taint(taint) => {
            let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
            format!("tainted with {}{value}:{}, which is not tolerated", taint.key, taint.effect)
        }
        Hindrance::NoAttribute(name) => format!("without the attribute {name}, which a constraint compares"),
    }
}

/// Returns the values that an expression reads of a device.
fn read(expression: &str, id: &DeviceId, snapshot: Snapshot<'_>) -> String {
    let (Ok(program), Some(device)) = (compile(expression), find(id, snapshot)) else { return String::new() };
    let reads = program.reads();
    let mut values = Vec::new();
    if let Parts::Some(names) = &reads.attributes {
        for (domain, name) in names {
            let value = device.attribute(&id.pool.driver, &format!("{domain}/{name}"));
            values.push(format!("{name} is {}", value.map_or_else(|| "absent".to_owned(), attribute_text)));
        }
    }
    if let Parts::Some(names) = &reads.capacity {
        for (domain, name) in names {
            let full = format!("{domain}/{name}");
            let is_it = |known: &str| known == full || (known == name && *domain == *id.pool.driver);
            let value = device.capacity.iter().find(|(known, _)| is_it(known));
            let value = value.map_or_else(|| "absent".to_owned(), |(_, it)| written(&it.value));
            values.push(format!("{name} is {value}"));
        }
    }
    if reads.driver {
        values.push(format!("driver is {:?}", id.pool.driver));
    }
    if reads.allow_multiple_allocations {
        values.push(format!("allowMultipleAllocations is {}", device.is_shareable));
    }
    if values.is_empty() { String::new() } else { format!(" ({})", some(&values, 2 * NAMED)) }
}

fn written(of: &Amount) -> String {
    amount(of.quantity)
}

/// Formats an amount with the largest binary unit that represents it exactly.
pub(super) fn amount(quantity: Quantity) -> String {
    let whole = quantity.value();
    if quantity.compare(Quantity::whole(whole)).is_ne() {
        return format!("{}m", quantity.milli_value());
    }
    let unit = UNITS.iter().find(|&&(_, unit)| whole != 0 && whole % unit == 0);
    unit.map_or_else(|| whole.to_string(), |(name, unit)| format!("{}{name}", whole / unit))
}
