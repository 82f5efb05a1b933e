//! The functions of the WebAssembly module, and what it imports.
//!
//! The caller writes a request into the buffer of `request`, calls `answer`, and reads the answer at `answer_at`. In
//! between, the module calls `read` for the bytes of inputs, and `report_panic` before it traps.

#![allow(unsafe_code, reason = "attributes of exports and imports; there is no unsafe block")]

use crate::session::Session;
use std::cell::RefCell;
use std::io::{self, Read};

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Writes up to `length` bytes of an input to `at`. Returns their number; 0 at the end, and `u32::MAX` if the input
    /// cannot be read.
    safe fn read(input: u32, at: *mut u8, length: usize) -> u32;
    /// Takes the message of a panic. The module cannot be used any more.
    safe fn report_panic(at: *const u8, length: usize);
}

#[derive(Default)]
struct State {
    session: Session,
    request: Vec<u8>,
    answer: Vec<u8>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Bytes of an input of the page.
struct Input(u32);

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match read(self.0, buffer.as_mut_ptr(), buffer.len()) {
            u32::MAX => {
                Err(io::Error::other("the browser cannot read the file; it may have changed or be gone"))
            }
            length => Ok((length as usize).min(buffer.len())),
        }
    }
}

/// Prepares the buffer of the next request, and returns its address.
#[unsafe(no_mangle)]
extern "C" fn request(length: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.request.clear();
        state.request.resize(length, 0);
        state.request.as_mut_ptr()
    })
}

/// Answers the request in the buffer. Returns the length of the answer in bytes.
#[unsafe(no_mangle)]
extern "C" fn answer() -> usize {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        report_panic(text.as_ptr(), text.len());
    }));
    STATE.with_borrow_mut(|state| {
        let request = std::mem::take(&mut state.request);
        let answer = state.session.answer(&request, &mut |at| Box::new(Input(at as u32)));
        state.answer = answer.to_string().into_bytes();
        state.answer.len()
    })
}

/// Returns the address of the last answer, which is valid until the next call of `answer`.
#[unsafe(no_mangle)]
extern "C" fn answer_at() -> *const u8 {
    STATE.with_borrow(|state| state.answer.as_ptr())
}
