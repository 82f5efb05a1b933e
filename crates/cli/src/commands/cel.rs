//! `supercargo cel`: evaluates a device selector for the devices of ResourceSlices in files. Contacts no API server.

use crate::cluster::Refused;
use crate::screen::{Output, Screen, complain, in_form, say};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use supercargo_objects::api::Object;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::explain::{CheckedDevice, Checker, ExpressionCheck};
use supercargo_whatif::load::files::{Files, InputError, Skipped, Wrong};
use supercargo_whatif::load::input::InputLimit;

/// Exit code if no device is selected, or the API server would refuse the expression.
const NONE_SELECTED: u8 = 3;

/// Arguments of `supercargo cel`.
#[derive(Clone, Debug, Args)]
pub struct CelArgs {
    /// The expression, as in `selectors[].cel.expression` of a DeviceClass or a ResourceClaim.
    #[arg(value_name = "EXPRESSION")]
    pub expression: String,

    /// Files with ResourceSlices, directories, or `-` for standard input. Other objects are skipped.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub slice: Vec<PathBuf>,

    /// Only use the slices of this driver.
    #[arg(long, value_name = "NAME", requires = "slice")]
    pub driver: Option<String>,

    /// Maximum size of an input file, for example 2Gi.
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = InputLimit::parse)]
    pub input_limit: InputLimit,

    /// Fail on empty files and on objects with unknown fields or versions, instead of warning about them.
    #[arg(long)]
    pub strict: bool,

    /// Output format.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

/// Runs the command: prints the result and returns the exit code.
pub fn main(args: &CelArgs) -> ExitCode {
    let checker = match Checker::new(&args.expression) {
        Ok(checker) => checker,
        Err(error) => {
            let place = match (error.line(), error.column()) {
                (0, _) => String::new(),
                (line, column) => format!(" at line {line}, column {column}"),
            };
            let code = Refused::from(InputError(format!("the expression does not compile{place}"))).report();
            // The compiler shows the line of the expression, and marks the column below it.
            error.to_string().lines().for_each(complain);
            return code;
        }
    };
    match answer(args, checker) {
        Ok(answer) => {
            let text = in_form(args.output, &answer, |_| text(&answer));
            let selects = args.slice.is_empty() || answer.selected > 0;
            say(&text, if selects && answer.refused.is_none() { 0 } else { NONE_SELECTED })
        }
        Err(error) => Refused::from(error).report(),
    }
}

/// Evaluates the expression for the devices in the files.
fn answer(args: &CelArgs, mut checker: Checker) -> Result<ExpressionCheck, InputError> {
    let stdin = &mut io::stdin().lock();
    let mut files = Files::within(args.input_limit, complain).strictly(args.strict);
    let (mut slices, mut of_driver) = (0, 0);
    let mut skipped = Skipped::default();
    for path in &args.slice {
        for item in files.read(path, stdin)? {
            if item.kind() != "ResourceSlice" || item.text("/apiVersion") != "resource.k8s.io/v1" {
                skipped.add(&item);
                continue;
            }
            slices += 1;
            let item = item.unpacked();
            let origin = item.origin;
            let Ok(Object::ResourceSlice(slice)) = Object::from_value(item.value) else { continue };
            let is_wanted = slice.content().is_ok_and(|content| {
                args.driver.as_ref().is_none_or(|driver| *driver == content.spec.driver)
            });
            if is_wanted || slice.content().is_err() {
                of_driver += 1;
                let wrong = |error: supercargo_objects::api::Malformed| {
                    let path = error.reason.split_once(": ").map_or("", |(path, _)| path).to_owned();
                    files.error(origin, &Wrong { path, message: error.to_string() })
                };
                checker.add(&slice).map_err(wrong)?;
            }
        }
    }
    let is_empty = !args.slice.is_empty() && of_driver == 0;
    if slices == 0 {
        let message = skipped.message_about("that are no ResourceSlice of resource.k8s.io/v1");
        message.iter().for_each(|message| complain(message));
    }
    match &args.driver {
        Some(driver) if is_empty && slices > 0 => {
            Err(InputError(format!("none of {} is of the driver {driver}; check --driver", count(slices, "slice"))))
        }
        _ if is_empty => {
            Err(InputError("the files contain no ResourceSlice (resource.k8s.io/v1); `kubectl get resourceslices -o yaml` writes some".to_owned()))
        }
        _ => Ok(checker.finish()),
    }
}

fn text(of: &ExpressionCheck) -> String {
    let mut screen = Screen::of_stdout();
    let estimate = of.estimated_cost.map_or_else(|| "without bound".to_owned(), |cost| cost.to_string());
    screen.line(&format!("type {}, estimated cost {estimate} of at most {}", of.result_type, of.cost_limit));
    if let Some(refused) = &of.refused {
        screen.line(&format!("the API server refuses it: {refused}"));
    }
    if of.devices.is_empty() {
        return screen.into_text();
    }
    let devices = count(of.devices.len() as i64, "device");
    screen.heading(&format!("selects {} of {devices}", of.selected));
    let mut rows =
        vec![["RESULT", "COST", "DRIVER", "POOL", "DEVICE", "DETAILS"].map(str::to_owned).to_vec()];
    rows.extend(of.devices.iter().map(row));
    if of.devices.iter().all(|device| device.error.is_none()) {
        rows.iter_mut().for_each(|row| row.truncate(5));
    }
    screen.table(&[1], &rows);
    screen.into_text()
}

fn row(of: &CheckedDevice) -> Vec<String> {
    let result = of.selected.map_or_else(|| "error".to_owned(), |selected| selected.to_string());
    let mut row = vec![result, of.cost.to_string()];
    row.extend([&of.driver, &of.pool, &of.device].map(String::clone));
    row.extend([of.error.clone().unwrap_or_default()]);
    row
}
