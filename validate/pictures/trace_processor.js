// node trace_processor.js FOLDER TRACE SQL...: Perfetto's trace processor loads TRACE and answers each query with a line of JSON,
// a list of rows. FOLDER holds engine_bundle.js and trace_processor.wasm, the parts of Perfetto's page that hold it; in a browser
// they are a web worker that speaks protobuf messages (trace_processor.proto), so this plays the browser.
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");
const [folder, trace, ...queries] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3;

function fail(words) {
  console.error(words);
  process.exit(1);
}

// --- protobuf, as far as these messages need it ---
function varint(n) {
  const bytes = [];
  for (; n > 127; n = Math.floor(n / 128)) bytes.push((n % 128) | 128);
  return Buffer.from([...bytes, n]);
}
const bytesField = (field, data) => Buffer.concat([varint(field * 8 + 2), varint(data.length), data]);
const numberField = (field, n) => Buffer.concat([varint(field * 8), varint(n)]);

function readVarint(data, at) {
  let value = 0n, shift = 0n, byte;
  do {
    byte = data[at.i++];
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
  } while (byte & 128);
  return value;
}

// [field, value] of a message: a BigInt, 8 bytes, 4 bytes or a slice.
function* fields(data) {
  for (const at = {i: 0}; at.i < data.length;) {
    const key = Number(readVarint(data, at)), wire = key & 7;
    if (wire === 0) yield [key >> 3, readVarint(data, at)];
    else {
      const size = wire === 1 ? 8 : wire === 5 ? 4 : Number(readVarint(data, at));
      yield [key >> 3, data.subarray(at.i, at.i += size)];
    }
  }
}
const last = (data, field) => [...fields(data)].filter(([f]) => f === field).map(([, v]) => v).pop();

// A batch of cells: their types (NULL, VARINT, FLOAT64, STRING, BLOB: from 1), and the values of each type in turn.
function readBatch(batch) {
  const all = [...fields(batch)], of = (field) => all.filter(([f]) => f === field).map(([, v]) => v);
  const numbers = [], reals = [], texts = of(5).map(String).join("").split("\0");
  for (const packed of of(2)) for (const at = {i: 0}; at.i < packed.length;) numbers.push(Number(BigInt.asIntN(64, readVarint(packed, at))));
  for (const packed of of(3)) for (let i = 0; i < packed.length; i += 8) reals.push(packed.readDoubleLE(i));
  const next = [() => null, () => null, () => numbers.shift(), () => reals.shift(), () => texts.shift()];
  return of(1).flatMap((cells) => [...cells].map((type) => (next[type] || next[0])()));
}

// --- the worker ---
let send, answered = null;
let sequence = 0;
function ask(request, field, args) {
  const rpc = Buffer.concat([numberField(1, ++sequence), numberField(2, request), args === undefined ? Buffer.alloc(0) : bytesField(field, args)]);
  answered = [];
  send(bytesField(1, rpc));
  const replies = answered.flatMap((stream) => [...fields(stream)].map(([, reply]) => reply));
  for (const reply of replies) if (last(reply, 5) !== undefined) fail(`fatal: ${last(reply, 5)}`);
  return replies;
}

function query(sql) {
  let columns = 0, error = "";
  const cells = [];
  for (const reply of ask(QUERY, 103, bytesField(1, Buffer.from(sql))))
    for (const [field, result] of fields(reply)) {
      if (field !== 203) continue;
      for (const [f, value] of fields(result)) {
        if (f === 1) columns++;
        else if (f === 2) error = String(value);
        else if (f === 3) cells.push(...readBatch(value));
      }
    }
  if (error) fail(`${sql}: ${error}`);
  const rows = [];
  while (cells.length) rows.push(cells.splice(0, columns));
  return rows;
}

function work() {
  const data = fs.readFileSync(trace);
  for (let i = 0; i < data.length; i += 1 << 24)
    for (const reply of ask(APPEND, 101, data.subarray(i, i + (1 << 24)))) {
      const result = last(reply, 201), error = result && last(result, 2);
      if (error) fail(`cannot load ${trace}: ${error}`);
    }
  ask(FINALIZE);
  for (const sql of queries) console.log(JSON.stringify(query(sql)));
  process.exit(0);
}

// What the worker finds in a browser. It reads its program from FOLDER before its script ends.
class XMLHttpRequest {
  open(method, name) {
    this.name = path.basename(String(name));
  }
  send() {
    this.response = new Uint8Array(fs.readFileSync(path.join(folder, this.name))).buffer;
  }
}
const worker = {console: {...console, warn: () => {}, log: () => {}}, TextDecoder, TextEncoder, URL, XMLHttpRequest, performance,
  WorkerGlobalScope: Object, location: {href: "https://here/"}, setTimeout, clearTimeout};
worker.self = worker;
vm.createContext(worker);
try {
  vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), worker);
} catch (why) {
  fail(`the trace processor does not start: ${why.message}`);
}
const port = {postMessage: (data) => answered.push(Buffer.from(data))};
worker.onmessage({data: port});
const Bytes = vm.runInContext("Uint8Array", worker); // the worker asks whether what it gets is one of its own
send = (data) => port.onmessage({data: Bytes.from(data)});
setTimeout(() => {
  try {
    work();
  } catch (why) {
    fail(String(why.message).slice(0, 2000));
  }
}, 0);
