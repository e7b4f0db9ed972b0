@0xd1b5c07e3a92f468;
# runtime/wire/ps_checkpoint.capnp: the manifest of a checkpoint of the parameter server (docs/ps-checkpoint.md), and what a
# shard hands in for it. Old checkpoints are read for ever: append fields only; never reuse a number.

using Cxx = import "/capnp/c++.capnp";
using Ps = import "ps.capnp";
$Cxx.namespace("dlrun::wire::ps_checkpoint_schema");

struct SlotRun {
  first @0 :UInt32;
  last @1 :UInt32;
}

struct Table {
  schema @0 :Ps.TableSchema;
  clock @1 :UInt64;
  rate @2 :Float32;
  hand @3 :UInt64;
  rows @4 :UInt64;
}

struct Mark {
  client @0 :UInt64;
  worker @1 :UInt64;
  sequence @2 :UInt64;
}

struct Part {
  checkpoint @0 :UInt64;
  shard @1 :UInt32;
  logSequence @2 :UInt64;
  nowS @3 :UInt32;
  slots @4 :List(SlotRun);
  tables @5 :List(Table);
  marks @6 :List(Mark);
  left @7 :List(UInt64);
  file @8 :Text;
  bytes @9 :UInt64;
  blocks @10 :UInt64;
  rows @11 :UInt64;
  headersCrc @12 :UInt32;
}

struct Attachment {
  name @0 :Text;
  file @1 :Text;
  bytes @2 :UInt64;
  crc @3 :UInt32;
}

struct TableClock {
  table @0 :UInt32;
  clock @1 :UInt64;
}

struct Progress {
  table @0 :UInt32;
  lowest @1 :UInt64;
  fastest @2 :UInt64;
}

struct Order {  # who calls a checkpoint -> a shard
  union {
    ask @0 :Void;
    begin :group {
      checkpoint @1 :UInt64;
      clocks @2 :List(TableClock);
      marksWithinNs @3 :Int64;
      folder @4 :Text;
      zstdLevel @5 :UInt8;
    }
    cancel :group {
      checkpoint @6 :UInt64;
      why @7 :Text;
    }
  }
}

struct Report {  # a shard -> who calls a checkpoint
  union {
    answer @0 :List(Progress);
    begun :group {
      checkpoint @1 :UInt64;
      error @2 :UInt32;
      context @3 :Text;
    }
    part :group {
      checkpoint @4 :UInt64;
      error @5 :UInt32;
      context @6 :Text;
      part @7 :Part;
    }
  }
}

struct Manifest {
  checkpoint @0 :UInt64;
  job @1 :Text;
  epoch @2 :Ps.Epoch;
  parts @3 :List(Part);
  attachments @4 :List(Attachment);
}
