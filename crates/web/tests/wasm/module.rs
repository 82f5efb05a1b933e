//! The WebAssembly module in an interpreter, with the two functions that the page gives it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use wasmi::{Caller, Engine, Extern, Instance, Linker, Memory, Store};

/// The inputs of the module, and its messages.
#[derive(Default)]
struct Host {
    input: Vec<u8>,
    /// The number of bytes read so far.
    used: usize,
    reads: usize,
    panic: String,
}

/// A running module.
pub(crate) struct Module {
    store: Store<Host>,
    instance: Instance,
}

fn path() -> PathBuf {
    let built = || {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder is below target");
        target.join("wasm32-unknown-unknown/wasm-test/supercargo_web.wasm")
    };
    std::env::var_os("SUPERCARGO_WASM").map_or_else(built, PathBuf::from)
}

fn memory(caller: &Caller<'_, Host>) -> Memory {
    caller.get_export("memory").and_then(Extern::into_memory).expect("the module exports its memory")
}

fn read(mut caller: Caller<'_, Host>, _input: u32, address: u32, length: u32) -> u32 {
    let memory = memory(&caller);
    let (bytes, host) = memory.data_and_store_mut(&mut caller);
    host.reads += 1;
    let rest = &host.input[host.used..];
    let part = rest.len().min(length as usize);
    bytes[address as usize..][..part].copy_from_slice(&rest[..part]);
    host.used += part;
    u32::try_from(part).expect("no larger than the length")
}

fn report_panic(mut caller: Caller<'_, Host>, address: u32, length: u32) {
    let memory = memory(&caller);
    let (bytes, host) = memory.data_and_store_mut(&mut caller);
    let text = &bytes[address as usize..][..length as usize];
    host.panic = String::from_utf8_lossy(text).into_owned();
}

impl Module {
    pub(crate) fn start() -> Self {
        let path = path();
        let bytes = std::fs::read(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; crates/web/wasm.sh --test builds it", path.display())
        });
        let engine = Engine::default();
        let module = wasmi::Module::new(&engine, bytes).expect("the module is valid");
        let mut store = Store::new(&engine, Host::default());
        let mut linker = Linker::new(&engine);
        linker.func_wrap("page", "read", read).expect("the name is free");
        linker.func_wrap("page", "report_panic", report_panic).expect("the name is free");
        let instance =
            linker.instantiate_and_start(&mut store, &module).expect("the module imports two functions");
        Self { store, instance }
    }

    /// Returns the answer to a request about an input.
    pub(crate) fn ask(&mut self, request: &Value, input: &[u8]) -> Value {
        let text = request.to_string();
        *self.store.data_mut() = Host { input: input.to_vec(), ..Host::default() };
        let memory = self.instance.get_memory(&self.store, "memory").expect("the module exports its memory");
        let length = u32::try_from(text.len()).expect("requests are small");
        let prepare = self.instance.get_typed_func::<u32, u32>(&self.store, "request");
        let at = prepare.and_then(|prepare| prepare.call(&mut self.store, length)).expect("a buffer");
        memory.write(&mut self.store, at as usize, text.as_bytes()).expect("the buffer is in memory");
        let answer = self.instance.get_typed_func::<(), u32>(&self.store, "answer");
        let length = answer.and_then(|answer| answer.call(&mut self.store, ()));
        let length = length.unwrap_or_else(|error| panic!("{error}: {}", self.store.data().panic));
        let at = self.instance.get_typed_func::<(), u32>(&self.store, "answer_at");
        let at = at.and_then(|at| at.call(&mut self.store, ())).expect("the answer has an address");
        let bytes = &memory.data(&self.store)[at as usize..][..length as usize];
        serde_json::from_slice(bytes).expect("the answer is JSON")
    }

    /// Returns how often the last request read its input.
    pub(crate) fn reads(&self) -> usize {
        self.store.data().reads
    }
}
