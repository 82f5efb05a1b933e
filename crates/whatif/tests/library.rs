//! The README of `examples/library` shows what the example prints. `UPDATE_EXPECT=1` rewrites it.

#[allow(dead_code, reason = "its `main` writes to standard output; the test calls `run`")]
#[path = "../../../examples/library/main.rs"]
mod example;

use std::fs;
use std::path::Path;

#[test]
fn readme_of_the_library_example_shows_its_output() {
    let mut output = Vec::new();
    example::run(&mut output).expect("the example succeeds");
    let output = String::from_utf8(output).expect("the example writes UTF-8");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/library/README.md");
    let text = fs::read_to_string(&page).expect("the example has a README");
    let (before, rest) = text.split_once("```text\n").expect("the README has a block of text");
    let (shown, after) = rest.split_once("```\n").expect("the block ends");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&page, format!("{before}```text\n{output}```\n{after}"))
            .expect("the README can be written");
        return;
    }
    assert_eq!(
        output, shown,
        "examples/library/README.md shows another output; \
         `UPDATE_EXPECT=1 cargo test -p supercargo-whatif --test library` rewrites it"
    );
}
