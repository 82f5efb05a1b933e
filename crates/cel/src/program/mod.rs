//! Programs: compiled expressions, ready for evaluation.

mod attribute;
mod call;
mod cost;
mod evaluate;
mod plan;
mod reads;

use std::sync::Arc;

pub use reads::{Parts, Reads};

use crate::check;
use crate::error::{CompileError, Error, Issue};
use crate::parse;
use crate::types::{Kind, Type};
use crate::{Device, Value};

/// Maximum cost of an expression, estimated and actual (`CELSelectorExpressionMaxCost` in
/// `k8s.io/api/resource/v1/types.go`).
pub const COST_MAX: u64 = 1_000_000;

/// A compiled expression. Cheap to clone, and safe to share between threads.
#[derive(Clone, Debug)]
pub struct Program(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    source: String,
    ty: Type,
    root: plan::Node,
    reads: Reads,
}

/// The outcome of an evaluation.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The value or the error.
    pub result: Result<Value, Error>,
    /// The cost of the evaluation in CEL's cost units. It is at most [`COST_MAX`], unless the result is the
    /// error for that limit.
    pub cost: u64,
}

/// Compiles a device selector: an expression over the variable `device`.
///
/// # Errors
///
/// Returns an error if the expression does not parse, has a type error, contains a literal that its function
/// never accepts, or has a result that cannot be a boolean.
pub fn compile(expression: &str) -> Result<Program, CompileError> {
    let program = compile_any(expression)?;
    match &program.0.ty.0 {
        Kind::Bool | Kind::Any => Ok(program),
        _ => Err(CompileError::general(format!(
            "must evaluate to bool or the unknown type, not {}",
            program.0.ty
        ))),
    }
}

/// Compiles an expression of any type, for tests of the language.
///
/// # Errors
///
/// Returns the errors of [`compile`], except for that about the result.
#[doc(hidden)]
pub fn compile_any(expression: &str) -> Result<Program, CompileError> {
    let issues = |issues: Vec<Issue>| CompileError::issues(expression, &issues);
    let mut expr = parse::parse(expression).map_err(issues)?;
    check::check(&mut expr).map_err(issues)?;
    let ty = expr.ty.clone();
    let root = plan::plan(expr).map_err(|error| CompileError::instantiation(error.to_string()))?;
    let reads = Reads::of(&root);
    Ok(Program(Arc::new(Compiled { source: expression.to_owned(), ty, root, reads })))
}

impl Program {
    /// Returns the source of the expression.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Returns the type of the result: `bool`, or `google.protobuf.Any` if it is known only at run time.
    pub fn result_type(&self) -> &Type {
        &self.0.ty
    }

    /// Returns the parts of the device that the expression can read. Devices that agree in these give the
    /// same result.
    pub fn reads(&self) -> &Reads {
        &self.0.reads
    }

    /// Returns the estimated maximum cost of an evaluation for any valid device, or `u64::MAX` if there is no
    /// bound. The API server rejects selectors whose estimate exceeds [`COST_MAX`].
    ///
    /// Parses the expression again, so it takes about as long as [`compile`].
    pub fn estimated_cost(&self) -> u64 {
        let Ok(mut expr) = parse::parse(&self.0.source) else { return u64::MAX };
        if check::check(&mut expr).is_err() {
            return u64::MAX;
        }
        crate::estimate::estimate(&expr)
    }

    /// Evaluates the expression for a device.
    pub fn evaluate(&self, device: &Device) -> Evaluation {
        if let Some(error) = device.broken() {
            return Evaluation { result: Err(error.clone()), cost: 0 };
        }
        evaluate::evaluate(&self.0.root, device)
    }

    /// Returns whether the expression selects a device.
    ///
    /// # Errors
    ///
    /// Returns the error of the evaluation, or an error if the result is not a boolean. The texts are
    /// upstream's, without a prefix.
    pub fn matches(&self, device: &Device) -> Result<bool, Error> {
        self.evaluate(device).matches()
    }
}

impl Evaluation {
    /// Returns whether the expression selects the device.
    ///
    /// # Errors
    ///
    /// Returns the error of the evaluation, or an error if the result is not a boolean.
    pub fn matches(self) -> Result<bool, Error> {
        match self.result? {
            Value::Bool(value) => Ok(value),
            other => Err(conversion(&other)),
        }
    }
}

/// Returns the error for a result that is not a boolean.
fn conversion(value: &Value) -> Error {
    let name = value.type_name();
    let reason = match value {
        Value::Int(_) | Value::Uint(_) => format!("unsupported type conversion from '{name}' to bool"),
        Value::Double(_) => "type conversion error from Double to 'bool'".into(),
        Value::String(_) => "unsupported native conversion from string to 'bool'".into(),
        Value::Bytes(_) => "type conversion error from Bytes to 'bool'".into(),
        Value::Null => "type conversion error from 'null_type' to 'bool'".into(),
        Value::Duration(_) => "type conversion error from 'Duration' to 'bool'".into(),
        Value::Timestamp(_) => "type conversion error from 'Timestamp' to 'bool'".into(),
        Value::List(_) => "type conversion error from list to 'bool'".into(),
        Value::Map(_) => "type conversion error from map to 'bool'".into(),
        Value::Quantity(_) | Value::ComputedQuantity(_) => {
            "type conversion error from 'Quantity' to 'bool'".into()
        }
        Value::Version(_) => "type conversion error from 'Semver' to 'bool'".into(),
        Value::Ip(_) => "type conversion error from 'IP' to 'bool'".into(),
        Value::Cidr(_) => "type conversion error from 'CIDR' to 'bool'".into(),
        Value::Url(_) => "type conversion error from 'URL' to 'bool'".into(),
        Value::Format(_) => "type conversion error from 'Format' to 'bool'".into(),
        _ => format!("type conversion error from '{name}' to 'bool'"),
    };
    Error::new(format!("CEL result of type {name} could not be converted to bool: {reason}"))
}
