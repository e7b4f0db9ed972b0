@0xd1c3a5b2f0e49a01;
# Structures that several protocols share. Append fields only; a number is never used again.
# Data, not Text, wherever any byte may occur (paths, environment).

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("dlrun::wire::schema");

struct TaskId {
  job @0 :UInt64;
  role @1 :Text;
  rank @2 :UInt32;
  generation @3 :UInt32;
}

struct Epoch {
  term @0 :UInt64;
  counter @1 :UInt64;
}

struct EnvPair {
  name @0 :Data;
  value @1 :Data;
}

struct FileEntry {
  uri @0 :Data;
  sizeBytes @1 :UInt64;
  etag @2 :Data;
  source @3 :UInt32;
}

struct Split {
  id @0 :UInt64;
  pass @1 :UInt32;
  uri @2 :Data;
  etag @3 :Data;
  begin @4 :UInt64;
  end @5 :UInt64;
  skipRows @6 :UInt64;
}

struct SplitKey {
  splitId @0 :UInt64;
  pass @1 :UInt32;
}

struct SplitProgress {
  splitId @0 :UInt64;
  rows @1 :UInt64;
  pass @2 :UInt32;
  whole @3 :Bool;
}

struct LanePosition {
  lane @0 :UInt32;
  pass @1 :UInt32;
  step @2 :UInt64;
  split @3 :UInt64;
  rows @4 :UInt64;
}

# How far a consumer got with an input.
struct InputCursor {
  input @0 :Text;
  splits @1 :List(SplitProgress);
  begun @2 :Bool;
  pass @3 :UInt32;
  step @4 :UInt64;
  lanes @5 :List(LanePosition);
}

# Where a consumer begins.
struct InputStart {
  begun @0 :List(SplitProgress);
  world @1 :UInt32;
  lanes @2 :List(LanePosition);
}

struct StepReport {
  pass @0 :UInt32;
  steps @1 :UInt64;
  ended @2 :Bool;
}

struct StepNews {
  pass @0 :UInt32;
  least @1 :UInt64;
  most @2 :UInt64;
  bound @3 :UInt64 = 18446744073709551615;
  final @4 :Bool;
  heard @5 :Bool;
}

struct LeaseAnswer {
  state @0 :UInt8;
  splits @1 :List(Split);
  start @2 :InputStart;  # of the answer to the files
  steps @3 :StepNews;
}

struct InputSpec {
  name @0 :Text;
  uris @1 :List(Data);
  format @2 :UInt8;
  indexBase @3 :UInt32;
  delimiter @4 :UInt8;
  header @5 :Bool;
  labelColumn @6 :Int32;
  batchRows @7 :UInt32;
  passes @8 :UInt32;
  shuffle @9 :Bool;
  seed @10 :UInt64;
  splitBytes @11 :UInt64;
  onBadRecord @12 :UInt8;
  badRecordsMax @13 :UInt64;
  columns @14 :List(Column);
  missing @15 :List(Data);
  newlinesInQuotes @16 :Bool;
  recordBytesMax @17 :UInt64 = 262144;
  tokens @18 :TokenOptions;
  quarantine @19 :Data;
  mode @20 :UInt8;
  staticBy @21 :UInt8;
  lanes @22 :UInt32 = 24;
  ends @23 :UInt8;
  skipBatches @24 :UInt64;
  takeBatches @25 :UInt64;
  weights @26 :List(UInt32);
}

# A column of a typed format.
struct Column {
  name @0 :Data;
  type @1 :UInt8;
  width @2 :UInt64;
  mayMiss @3 :Bool;
  buckets @4 :UInt64;
  dictionary @5 :List(Data);
}

struct TokenOptions {
  type @0 :UInt8;
  sequenceLength @1 :UInt64;
  tail @2 :UInt8;
  separator @3 :Int32;
  padding @4 :Int32;
  vocabulary @5 :UInt32 = 2147483647;
}

# `count` slots in a row live on `shard`.
struct SlotRun {
  shard @0 :UInt32;
  count @1 :UInt32;
}

struct SlotMap {
  epoch @0 :Epoch;
  runs @1 :List(SlotRun);
}

struct ShardEndpoint {
  shard @0 :UInt32;
  tcp @1 :Text;
  ipc @2 :Data;
  node @3 :Text;
}

struct PsView {
  map @0 :SlotMap;
  shards @1 :List(ShardEndpoint);
  token @2 :Data;
  workers @3 :UInt32;
}
