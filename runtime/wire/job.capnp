@0xc0a3f1d2b7e44b02;
# Jobs, tasks and nodes: used by control.capnp (between machines) and event.capnp (on disk). Append fields only.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("dlrun::wire::schema");

struct Label {
  key @0 :Text;
  value @1 :Text;
}

struct Resources {
  cpuMilli @0 :Int64;
  memoryBytes @1 :Int64;
  gpus @2 :Int32;
  ports @3 :Int32;
}

struct PlacedSlot {
  node @0 :Text;
  ports @1 :List(UInt16);
  gpuUuids @2 :List(Data);
}

struct NodeCapacity {
  node @0 :Text;
  cpuMilli @1 :Int64;
  memoryBytes @2 :Int64;
  gpuUuids @3 :List(Data);
  portFirst @4 :UInt16;
  portCount @5 :UInt16;
  labels @6 :List(Label);
}

struct Rlimit {
  name @0 :Text;
  value @1 :UInt64;
}

struct RoleSpec {
  name @0 :Text;
  kind @1 :UInt8;
  program @2 :UInt8;
  countMin @3 :UInt32;
  countMax @4 :UInt32;
  argv @5 :List(Data);
  env @6 :List(Common.EnvPair);
  cwd @7 :Data;
  resources @8 :Resources;
  require @9 :List(Label);
  after @10 :List(Data);
  ready @11 :UInt8;
  timeLimitNs @12 :Int64;
  restartOn @13 :List(UInt8);  # absent = the job's
  rlimits @14 :List(Rlimit);
  end @15 :UInt8;
  quorum @16 :UInt32;
  failuresPermille @17 :UInt32;
  lingerNs @18 :Int64 = -1;  # -1 = as its end rule says
}

struct OutputSpec {
  name @0 :Text;
  path @1 :Data;
  role @2 :Text;
}

struct JobSpec {
  name @0 :Text;
  owner @1 :Text;
  project @2 :Text;
  priority @3 :Int32;
  roles @4 :List(RoleSpec);
  inputs @5 :List(Common.InputSpec);
  restartsMax @6 :UInt32;
  restartOn @7 :List(UInt8);
  timeLimitNs @8 :Int64;
  graceNs @9 :Int64;
  failureGraceNs @10 :Int64;
  envPolicy @11 :UInt8;
  submitEnv @12 :List(Common.EnvPair);
  cwd @13 :Data;
  hold @14 :Bool;
  outputs @15 :List(OutputSpec);
  framework @16 :Text;
}

struct TaskEnd {
  cause @0 :UInt8;
  code @1 :Int32;
  signal @2 :Int32;
  peakBytes @3 :UInt64;
  limitBytes @4 :UInt64;
  detail @5 :Data;
}

struct TaskView {
  task @0 :Common.TaskId;
  node @1 :Text;
  state @2 :UInt8;
  end @3 :TaskEnd;
  pid @4 :Int64;
  ports @5 :List(UInt16);
  progress @6 :Float64;
  startedNs @7 :Int64;
  endedNs @8 :Int64;
}

struct JobView {
  id @0 :UInt64;
  spec @1 :JobSpec;
  state @2 :UInt8;
  generation @3 :UInt32;
  epoch @4 :Common.Epoch;
  submittedNs @5 :Int64;
  startedNs @6 :Int64;
  endedNs @7 :Int64;
  progress @8 :Float64;
  progressText @9 :Data;
  end @10 :TaskEnd;
  firstFailed @11 :Common.TaskId;  # absent = none
  reason @12 :Data;
  exitCode @13 :Int32;
  tasks @14 :List(TaskView);
}
