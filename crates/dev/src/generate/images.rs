//! Generates images of nodes and containers.

use crate::draw::Draw;
use serde_json::{Value, json};

const NAMES: &[&str] = &[
    "app",
    "app:latest",
    "app:v1",
    "reg.example:5000/x/app",
    "reg.example:5000/x/app:v2",
    "reg.example:5000/x/app:latest",
    "tiny:v1",
    "big:v2",
    "app@sha256:0123",
];

/// Returns the image name of a container or image volume.
pub(super) fn name(draw: &mut Draw) -> &'static str {
    if draw.percent(3) { "" } else { draw.pick(NAMES) }
}

/// Returns a node's image list. Upstream uses the size reported by the first node that lists an image.
pub(super) fn listed(draw: &mut Draw) -> Value {
    let count = draw.between(0, 6);
    let images = draw.list(count, |draw| {
        let names = draw.between(1, 2);
        let size: i64 = draw.weighted(&[
            (1, 0),
            (1, 24_117_247),
            (1, 24_117_248),
            (2, 30_000_000),
            (2, 262_200_067),
            (2, 734_868_373),
            (1, 1_048_576_000),
            (1, 4_000_000_000),
            (1, 1),
        ]);
        json!({ "names": draw.list(names, |draw| draw.pick(NAMES)), "sizeBytes": size })
    });
    images.into()
}
