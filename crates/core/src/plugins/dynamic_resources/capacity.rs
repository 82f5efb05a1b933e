//! How much of a device's capacities a request consumes.
//!
//! Upstream: `dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go`.

use crate::model::device::{Device, DeviceCapacity, DeviceRequest, RequestPolicy, ValidRange};
use crate::model::emulation::CapacityRule;
use crate::model::quantity::{Amount, Format, Quantity};
use std::cmp::Ordering;
use std::sync::Arc;

/// Whether the device has the requested capacities, given the amounts in use by other shares.
///
/// # Errors
/// If an amount cannot be represented or is negative, and the rule checks that.
pub(super) fn suffices(
    request: &DeviceRequest,
    device: &Device,
    rule: CapacityRule,
    in_use: impl Fn(&str) -> Quantity,
) -> Result<bool, String> {
    let is_known = |name: &str| device.capacity.iter().any(|(known, _)| **known == *name);
    if request.capacity.iter().any(|(name, _)| !is_known(name)) {
        return Ok(false);
    }
    if rule == CapacityRule::Checked {
        for (name, capacity) in &device.capacity {
            check(request, name, capacity).map_err(|why| format!("capacity \"{name}\": {why}"))?;
        }
    }
    Ok(device.capacity.iter().all(|(name, capacity)| {
        let consumed = consumed(request, name, capacity, rule);
        !violates(&consumed, capacity.policy.as_ref())
            && in_use(name).plus(consumed.quantity).compare(capacity.value.quantity) != Ordering::Greater
    }))
}

/// Checks that the amount that a request consumes of a capacity can be represented, and is not negative.
fn check(request: &DeviceRequest, name: &str, capacity: &DeviceCapacity) -> Result<(), String> {
    const TOO_LARGE: &str = "capacity request cannot be represented in the device's range arithmetic";
    let requested = request.capacity.iter().find(|(requested, _)| **requested == *name);
    let range = capacity.policy.as_ref().and_then(|policy| policy.range.as_ref());
    if let (Some((_, amount)), Some(ValidRange { min: Some(min), step: Some(step), .. })) = (requested, range)
        && amount.compare(min) != Ordering::Less
    {
        if amount.quantity.compare(Quantity::whole(i64::MAX)) == Ordering::Greater {
            return Err(format!("{TOO_LARGE}: request {amount} exceeds MaxInt64"));
        }
        let (min, step) = (min.quantity.value(), step.quantity.value());
        let steps = steps_above(amount, min, step);
        if min >= 0 && (i64::MAX - min).checked_div(step).is_some_and(|most| steps > most) {
            return Err(format!(
                "{TOO_LARGE}: rounding request {amount} up to the next step passes MaxInt64"
            ));
        }
    }
    let consumed = consumed(request, name, capacity, CapacityRule::Checked);
    if consumed.quantity.compare(Quantity::default()) == Ordering::Less {
        return Err("capacity value is negative".to_owned());
    }
    Ok(())
}

/// Returns the amount of each capacity of the device that the request consumes.
pub(super) fn all_consumed(
    request: &DeviceRequest,
    device: &Device,
    rule: CapacityRule,
) -> Box<[(Arc<str>, Amount)]> {
    let of = |(name, capacity): &(Arc<str>, DeviceCapacity)| {
        (Arc::clone(name), consumed(request, name, capacity, rule))
    };
    device.capacity.iter().map(of).collect()
}

fn consumed(request: &DeviceRequest, name: &str, capacity: &DeviceCapacity, rule: CapacityRule) -> Amount {
    let requested = request.capacity.iter().find(|(requested, _)| **requested == *name);
    match (requested, &capacity.policy) {
        (None, Some(RequestPolicy { default: Some(default), .. })) => default.clone(),
        (None, _) => capacity.value.clone(),
        (Some((_, amount)), Some(RequestPolicy { range: Some(range), .. })) if range.min.is_some() => {
            round_up(amount, range, rule)
        }
        (Some((_, amount)), Some(RequestPolicy { values: Some(values), .. })) => {
            let larger = values.iter().find(|value| amount.compare(value) != Ordering::Greater);
            larger.unwrap_or(amount).clone()
        }
        (Some((_, amount)), _) => amount.clone(),
    }
}

/// Rounds up to the minimum, or to a whole number of steps above it.
fn round_up(amount: &Amount, range: &ValidRange, rule: CapacityRule) -> Amount {
    let Some(min) = &range.min else { return amount.clone() };
    if amount.compare(min) == Ordering::Less {
        return min.clone();
    }
    let Some(step) = &range.step else { return amount.clone() };
    let format = match rule {
        CapacityRule::Wrapping => Format::BinarySi,
        CapacityRule::Checked => step.format(),
    };
    let (min, step) = (min.quantity.value(), step.quantity.value());
    let steps = steps_above(amount, min, step);
    Amount::whole(min.wrapping_add(step.wrapping_mul(steps)), format)
}

/// Returns the number of steps from the minimum up to an amount, rounded up.
fn steps_above(amount: &Amount, min: i64, step: i64) -> i64 {
    let added = amount.quantity.value().wrapping_sub(min);
    // Upstream panics at a step of 0, which the API server refuses.
    added.checked_div(step).unwrap_or(0) + i64::from(added.checked_rem(step).unwrap_or(0) != 0)
}

/// Whether the policy forbids an amount.
pub(super) fn violates(amount: &Amount, policy: Option<&RequestPolicy>) -> bool {
    let Some(policy) = policy else { return false };
    if policy.default.as_ref().is_some_and(|default| amount.is_same_struct(default)) {
        return false;
    }
    match (&policy.range, &policy.values) {
        (Some(range), _) => {
            let is_over = |max: &Amount| amount.compare(max) == Ordering::Greater;
            let min = range.min.as_ref().map_or(0, |min| min.quantity.value());
            let is_between = |step: &Amount| {
                let added = amount.quantity.value().wrapping_sub(min);
                added.checked_rem(step.quantity.value()).unwrap_or(0) != 0
            };
            range.max.as_ref().is_some_and(is_over) || range.step.as_ref().is_some_and(is_between)
        }
        (None, Some(values)) if !values.is_empty() => {
            !values.iter().any(|value| amount.compare(value) == Ordering::Equal)
        }
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::known;

    fn amount(text: &str) -> Amount {
        Amount::parse(text).expect("a quantity")
    }

    /// Creates a request for so much memory.
    fn request(memory: &str) -> DeviceRequest {
        DeviceRequest {
            name: "r".into(),
            class: known::EMPTY,
            selectors: [].into(),
            mode: crate::model::device::AllocationMode::ExactCount(1),
            admin_access: false,
            tolerations: [].into(),
            has_capacity: true,
            capacity: [("memory".into(), amount(memory))].into(),
        }
    }

    /// Creates a capacity that is requested in steps.
    fn in_steps(value: &str, min: &str, step: &str) -> DeviceCapacity {
        let range = ValidRange { min: Some(amount(min)), max: None, step: Some(amount(step)) };
        let policy = RequestPolicy { range: Some(range), ..RequestPolicy::default() };
        DeviceCapacity { value: amount(value), policy: Some(policy) }
    }

    #[test]
    fn request_is_rounded_up_to_the_minimum_or_the_next_step() {
        let capacity = in_steps("100", "10", "5");
        let cases = [
            ("1", 10),
            ("10", 10),
            ("11", 15),
            ("14", 15),
            ("15", 15),
            ("16", 20),
            ("9500m", 10),
            ("21", 25),
        ];
        for (requested, expected) in cases {
            for rule in [CapacityRule::Wrapping, CapacityRule::Checked] {
                let consumed = consumed(&request(requested), "memory", &capacity, rule);
                assert_eq!(consumed.quantity.value(), expected, "{requested}, {rule:?}");
                assert!(!violates(&consumed, capacity.policy.as_ref()), "{requested}, {rule:?}");
            }
        }
    }

    #[test]
    fn rounding_beyond_the_range_is_an_error() {
        let step = "4611686018427387904";
        let check = |requested, min, step| check(&request(requested), "memory", &in_steps("1", min, step));
        assert_eq!(check(step, "0", step), Ok(()));
        assert!(
            check("4611686018427387905", "0", step)
                .is_err_and(|why| why.contains("next step passes MaxInt64"))
        );
        assert!(check("1e19", "0", "1").is_err_and(|why| why.contains("exceeds MaxInt64")));
        assert_eq!(check("9223372036854775807", "0", "1"), Ok(()));
    }
}
