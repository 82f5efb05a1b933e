//! Functions from utilization to score, given by points, which two plugins have as an argument.
//!
//! Upstream: `plugins/helper/shape_score.go`.

use crate::framework::MAX_NODE_SCORE;

/// The maximum score of a shape point in the configuration (upstream `MaxCustomPriorityScore`).
const MAX_SHAPE_SCORE: i64 = 10;

/// A point of the function from utilization to score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapePoint {
    /// Utilization in percent; strictly increasing from point to point.
    pub utilization: i64,
    /// The score there, from 0 to 10.
    pub score: i64,
}

/// Returns the shape's value at `utilization`, scaled to 100: linear between points, constant outside them.
pub(super) fn broken_line(shape: &[ShapePoint], utilization: i64) -> i64 {
    let scaled = |point: &ShapePoint| point.score * (MAX_NODE_SCORE / MAX_SHAPE_SCORE);
    match shape.iter().position(|point| utilization <= point.utilization) {
        None => shape.last().map_or(0, scaled),
        Some(0) => scaled(&shape[0]),
        Some(at) => {
            let (left, right) = (&shape[at - 1], &shape[at]);
            let (run, rise) = (right.utilization - left.utilization, scaled(right) - scaled(left));
            scaled(left) + rise * (utilization - left.utilization) / run
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_is_linear_between_points_and_flat_outside() {
        let shape =
            [(20, 0), (60, 10), (80, 4)].map(|(utilization, score)| ShapePoint { utilization, score });
        let scores = [0, 20, 30, 60, 70, 80, 100].map(|utilization| broken_line(&shape, utilization));
        assert_eq!(scores, [0, 0, 25, 100, 70, 40, 40]);
    }
}
