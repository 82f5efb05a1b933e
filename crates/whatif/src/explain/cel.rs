//! Evaluates a device selector for the devices of ResourceSlices: results, types, costs.

use crate::explain::answer::API_VERSION;
use serde::Serialize;
use supercargo_cel::{COST_MAX, CompileError, Evaluation, Program, compile};
use supercargo_objects::api::{Malformed, ResourceSlice};
use supercargo_objects::convert::devices::expression_device;

/// `kind` of the answer.
const KIND: &str = "ExpressionCheck";
/// The longest expression that the API server accepts, in bytes (`CELSelectorExpressionMaxLength`).
const LENGTH_MAX: usize = 10 * 1024;

/// What an expression selects.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpressionCheck {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `ExpressionCheck`.
    pub kind: &'static str,
    /// The expression.
    pub expression: String,
    /// The type that the type checker gives it: `bool`, or `google.protobuf.Any` if only an evaluation shows it.
    #[serde(rename = "type")]
    pub result_type: String,
    /// The most that it can cost for any valid device; absent if there is no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_cost: Option<u64>,
    /// The limit of the estimated and the actual cost.
    pub cost_limit: u64,
    /// Why the API server refuses the expression although it compiles, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The number of devices that it selects.
    pub selected: usize,
    /// The devices, in the order of the files.
    pub devices: Vec<CheckedDevice>,
}

/// A device, and the outcome of the expression.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedDevice {
    /// `spec.driver` of the slice.
    pub driver: String,
    /// `spec.pool.name` of the slice.
    pub pool: String,
    /// The device's name.
    pub device: String,
    /// Whether the expression selects the device; absent if it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<bool>,
    /// Why it fails. A pod whose claim evaluates it for this device is not scheduled anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The cost of this evaluation.
    pub cost: u64,
}

/// An expression that compiles.
pub struct Checker {
    program: Program,
    answer: ExpressionCheck,
}

impl Checker {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The compiler's error, with the position.
    pub fn new(expression: &str) -> Result<Self, CompileError> {
        let program = compile(expression)?;
        let estimate = program.estimated_cost();
        let answer = ExpressionCheck {
            api_version: API_VERSION,
            kind: KIND,
            expression: expression.to_owned(),
            result_type: program.result_type().to_string(),
            estimated_cost: (estimate != u64::MAX).then_some(estimate),
            cost_limit: COST_MAX,
            refused: refusal(expression, estimate),
            selected: 0,
            devices: Vec::new(),
        };
        Ok(Self { program, answer })
    }

    /// Evaluates the expression for the devices of a slice.
    ///
    /// # Errors
    /// If the slice is malformed.
    pub fn add(&mut self, slice: &ResourceSlice) -> Result<(), Malformed> {
        let spec = &slice.content()?.spec;
        for device in &spec.devices {
            let evaluation = self.program.evaluate(&expression_device(&spec.driver, device));
            let cost = evaluation.cost;
            let (selected, error) = match Evaluation::matches(evaluation) {
                Ok(selected) => (Some(selected), None),
                Err(error) => (None, Some(error.to_string())),
            };
            self.answer.selected += usize::from(selected == Some(true));
            self.answer.devices.push(CheckedDevice {
                driver: spec.driver.clone(),
                pool: spec.pool.name.clone(),
                device: device.name.clone(),
                selected,
                error,
                cost,
            });
        }
        Ok(())
    }

    /// Returns the answer.
    pub fn finish(self) -> ExpressionCheck {
        self.answer
    }
}

/// Returns why the API server refuses an expression that compiles, if it does.
pub(super) fn refusal(expression: &str, estimate: u64) -> Option<String> {
    if expression.len() > LENGTH_MAX {
        return Some(format!(
            "it has {} bytes, and the API server accepts at most {LENGTH_MAX}",
            expression.len()
        ));
    }
    (estimate > COST_MAX).then(|| {
        let estimate =
            if estimate == u64::MAX { "has no bound".to_owned() } else { format!("is {estimate}") };
        format!("its estimated cost {estimate}, and the API server accepts at most {COST_MAX}")
    })
}
