// The worker owns the engine. It reads files in pieces while the engine asks for bytes, so the page is never blocked.
"use strict";

const CHUNK = 4 << 20;
const encoder = new TextEncoder(), decoder = new TextDecoder();
const files = new FileReaderSync();
let wasm, inputs = [], panic = "";

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

const imports = { page: {
  // Copies the next bytes of an input into the engine's memory. One piece of a file is in memory at a time.
  read(number, address, length) {
    const input = inputs[number];
    try {
      if (input.used === input.piece.length) {
        if (input.from >= input.blob.size) return 0;
        input.piece = new Uint8Array(files.readAsArrayBuffer(input.blob.slice(input.from, input.from + CHUNK)));
        input.from += input.piece.length;
        input.used = 0;
        postMessage({ read: input.from, of: input.blob.size, name: input.name });
      }
    } catch {
      return -1;
    }
    const part = input.piece.subarray(input.used, input.used + length);
    new Uint8Array(wasm.memory.buffer).set(part, address >>> 0);
    input.used += part.length;
    return part.length;
  },
  report_panic(address, length) {
    panic = decoder.decode(new Uint8Array(wasm.memory.buffer, address >>> 0, length));
  },
} };

async function start(base64) {
  wasm = (await WebAssembly.instantiate(bytesOf(base64), imports)).instance.exports;
}

function ask(request) {
  const bytes = encoder.encode(JSON.stringify(request));
  const address = wasm.request(bytes.length) >>> 0;
  new Uint8Array(wasm.memory.buffer).set(bytes, address);
  const length = wasm.answer() >>> 0;
  return JSON.parse(decoder.decode(new Uint8Array(wasm.memory.buffer, wasm.answer_at() >>> 0, length)));
}

let ready;
onmessage = async ({ data }) => {
  if (data.engine) {
    ready = start(data.engine);
    return;
  }
  const began = performance.now();
  try {
    await ready;
    inputs = (data.blobs || []).map(({ name, blob }) => ({ name, blob, from: 0, used: 0, piece: new Uint8Array() }));
    const answer = ask(data.request);
    inputs = [];
    postMessage({ id: data.id, answer, milliseconds: performance.now() - began, memory: wasm.memory.buffer.byteLength });
  } catch (error) {
    postMessage({ id: data.id, answer: { error: "the engine stopped: " + (panic || error) + ". It starts again with the next scenario" }, stopped: true });
  }
};
