//! The devices of the law and the expressions that select them.

use super::support::devices;
use std::cell::Cell;
use std::sync::Arc;
use supercargo_core::model::device::{Attribute, Device, DeviceSelector, DeviceTaint, Expression, Facts};
use supercargo_core::model::quantity::Amount;

/// What a device is, as expressions see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Model {
    Small,
    Large,
    /// Expressions about its size fail.
    Broken,
}

pub(super) const MODELS: [Model; 3] = [Model::Small, Model::Large, Model::Broken];

thread_local! {
    /// The number of evaluations of expressions on this thread.
    pub(super) static EVALUATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Selects devices of one model, or all. Which attributes it reads is listed, except for small devices.
#[derive(Debug)]
pub(super) struct Is(pub(super) &'static str, pub(super) Option<Box<[Arc<str>]>>);

impl Expression for Is {
    fn text(&self) -> &str {
        self.0
    }

    fn matches(&self, facts: &Facts) -> Result<bool, Arc<str>> {
        EVALUATIONS.set(EVALUATIONS.get() + 1);
        let model = facts.0.downcast_ref::<Model>().expect("the test makes all devices");
        match (self.0, model) {
            ("any", _) => Ok(true),
            (_, Model::Broken) => Err("CEL runtime error: no such key: size".into()),
            ("large", model) => Ok(*model == Model::Large),
            (_, model) => Ok(*model == Model::Small),
        }
    }

    fn reads(&self) -> Option<&[Arc<str>]> {
        self.1.as_deref()
    }
}

pub(super) fn selector(text: &'static str) -> Option<DeviceSelector> {
    let reads: Option<Box<[Arc<str>]>> = match text {
        "any" => Some([].into()),
        "large" => Some(["gpu.example.com/model".into()].into()),
        _ => None,
    };
    Some(DeviceSelector(Arc::new(Is(text, reads))))
}

pub(super) fn amount(value: i64) -> Amount {
    Amount::parse(&value.to_string()).expect("a number")
}

pub(super) fn device(number: usize, model: Model, tainted: bool) -> Device {
    Device {
        attributes: [
            ("model".into(), Attribute::Text(format!("{model:?}").into())),
            ("slot".into(), Attribute::Int(number as i64 / 2)),
        ]
        .into(),
        taints: if tainted {
            [DeviceTaint { key: "broken".into(), value: "".into(), effect: "NoSchedule".into() }].into()
        } else {
            [].into()
        },
        facts: Facts(Arc::new(model)),
        ..devices::device(&format!("d{number}"))
    }
}
