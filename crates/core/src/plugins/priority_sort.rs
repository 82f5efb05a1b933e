//! PrioritySort orders the queue: higher priority first, then who came earlier.
//!
//! Upstream: `pkg/scheduler/framework/plugins/queuesort/priority_sort.go`.

use crate::framework::PluginName;
use crate::time::Time;
use std::cmp::Ordering;

/// The plugin's name.
pub const NAME: PluginName = "PrioritySort";

/// How a pod of some priority, queued at some time, stands to another; `Less` goes first.
pub fn compare(a: (i32, Time), b: (i32, Time)) -> Ordering {
    b.0.cmp(&a.0).then(a.1.cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_comes_before_age_and_age_decides_among_equals() {
        let at = Time::from_secs;
        assert_eq!(compare((10, at(9)), (5, at(1))), Ordering::Less);
        assert_eq!(compare((-1, at(1)), (0, at(9))), Ordering::Greater);
        assert_eq!(compare((5, at(1)), (5, at(2))), Ordering::Less);
        assert_eq!(compare((5, at(2)), (5, at(2))), Ordering::Equal);
    }
}
