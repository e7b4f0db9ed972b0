@0xb7c1d2f04a5e9361;
# runtime/wire/ps.capnp: the header frame of a parameter-server request or reply. Keys (u64) and values (f32), little endian,
# follow as frames of their own. Append fields only; never reuse a number.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("dlrun::wire::ps_schema");

struct Epoch {
  term @0 :UInt64;
  counter @1 :UInt64;
}

struct Cursor {
  slot @0 :UInt32;
  key @1 :UInt64;
}

struct TableSchema {
  id @0 :UInt32;
  name @1 :Text;
  kind @2 :UInt8;
  rows @3 :UInt64;
  dim @4 :UInt32;
  optimizer @5 :UInt8;
  learningRate @6 :Float32;
  beta @7 :Float32;
  l1 @8 :Float32;
  l2 @9 :Float32;
  epsilon @10 :Float32;
  accumulator @11 :Float32;
  initializer @12 :UInt8;
  initA @13 :Float32;
  initB @14 :Float32;
  seed @15 :UInt64;
  consistency @16 :UInt8;
  staleness @17 :UInt32;
  dtype @18 :UInt8;
  momentum @19 :Float32 = 0.9;
  beta1 @20 :Float32 = 0.9;
  beta2 @21 :Float32 = 0.999;
  groupL1 @22 :Float32;
  clipValue @23 :Float32;
  clipNorm @24 :Float32;
  admission @25 :UInt8;
  admissionN @26 :UInt32 = 1;
  admissionP @27 :Float32 = 1;
  eviction @28 :UInt8;
  ttlS @29 :UInt32;
  budgetBytes @30 :UInt64;
  missing @31 :UInt8;
  missingValue @32 :Float32;
}

struct Request {
  version @0 :UInt16;
  kind @1 :UInt8;
  request @2 :UInt64;
  token @3 :Data;  # 32 bytes
  epoch @4 :Epoch;
  client @5 :UInt64;
  sequence @6 :UInt64;
  table @7 :UInt32;
  worker @8 :UInt64;
  clock @9 :UInt64;
  budgetNs @10 :Int64;
  n @11 :UInt32;
  dim @12 :UInt32;
  cursor @13 :Cursor;
  schema @14 :TableSchema;
  rate @15 :Float32;
  codec @16 :UInt8;
  codecK @17 :UInt16;
  checkpoint @18 :UInt64;
}

struct Reply {
  version @0 :UInt16;
  kind @1 :UInt8;
  request @2 :UInt64;
  error @3 :Int32;
  context @4 :Text;
  epoch @5 :Epoch;
  clock @6 :UInt64;
  n @7 :UInt32;
  dim @8 :UInt32;
  cursor @9 :Cursor;
  codec @10 :UInt8;
  codecK @11 :UInt16;
  checkpoint @12 :UInt64;
  cutClock @13 :UInt64;
}
