@0xb9d2e6a4c1f75d04;
# The payload of an EventLog record. Old logs are read for ever: a number is never used again.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Job = import "job.capnp";
$Cxx.namespace("dlrun::wire::schema");

struct SeenKey {
  key @0 :Data;
  job @1 :UInt64;
  fingerprint @2 :UInt64;
}

struct Baseline {
  term @0 :UInt64;
  lastJob @1 :UInt64;
  jobsFinished @2 :UInt64;
  keys @3 :List(SeenKey);
}

struct NodeJoined {
  node @0 :Text;
  incarnation @1 :UInt64;
  address @2 :Text;
  version @3 :Text;
  capacity @4 :Job.NodeCapacity;
}

struct NodeStateChanged {
  node @0 :Text;
  incarnation @1 :UInt64;
  state @2 :UInt8;
  reason @3 :Data;
}

struct JobSubmitted {
  spec @0 :Job.JobSpec;
  key @1 :Data;
  fingerprint @2 :UInt64;
}

struct PlacedTask {
  task @0 :Common.TaskId;
  address @1 :Text;
  slot @2 :Job.PlacedSlot;
}

struct JobPlaced {
  generation @0 :UInt32;
  epoch @1 :Common.Epoch;
  tasks @2 :List(PlacedTask);
}

struct JobStateChanged {
  generation @0 :UInt32;
  state @1 :UInt8;
  cause @2 :UInt8;
  reason @3 :Data;
}

struct TaskEnded {
  task @0 :Common.TaskId;
  epoch @1 :Common.Epoch;
  end @2 :Job.TaskEnd;
}

struct GenerationEnded {
  generation @0 :UInt32;
  cause @1 :UInt8;
  reason @2 :Data;
}

struct InputFilesSet {
  generation @0 :UInt32;
  input @1 :Text;
  files @2 :List(Common.FileEntry);
}

struct SplitsLeased {
  consumer @0 :Common.TaskId;
  input @1 :Text;
  splitsMax @2 :UInt32;
  request @3 :UInt64;
  resync @4 :Bool;
  held @5 :List(Common.SplitKey);
  done @6 :List(Common.SplitKey);
}

struct Obsolete15 {
  consumer @0 :Common.TaskId;
  input @1 :Text;
  splitId @2 :UInt64;
  pass @3 :UInt32;
}

struct BarrierMet {
  generation @0 :UInt32;
  role @1 :Text;
  name @2 :Data;
  round @3 :UInt64;
}

struct JobHeld {
  held @0 :Bool;
  reason @1 :Data;
}

struct TaskWarned {
  task @0 :Common.TaskId;
  epoch @1 :Common.Epoch;
  text @2 :Data;
}

struct LedgerState {
  input @0 :Text;
  pass @1 :UInt32;
  position @2 :UInt64;
  done @3 :UInt64;
  givenBack @4 :List(Common.SplitKey);
  held @5 :List(Held);
  begun @6 :List(Common.SplitProgress);
  filesDigest @7 :UInt64;
  world @8 :UInt32;
  lanes @9 :List(Common.LanePosition);

  struct Held {
    consumer @0 :Common.TaskId;
    splits @1 :List(Common.SplitKey);
  }
}

struct JobSnapshot {
  generation @0 :UInt32;
  inputs @1 :List(LedgerState);
  answers @2 :List(Answer);
  barriers @3 :List(BarrierMet);  # without `generation`

  struct Answer {
    consumer @0 :Common.TaskId;
    input @1 :Text;
    request @2 :UInt64;
    state @3 :UInt8;
    splits @4 :List(Common.SplitKey);
  }
}

struct InputsCommitted {
  generation @0 :UInt32;
  role @1 :Text;
  number @2 :UInt64;
  tag @3 :Data;
  ranks @4 :List(Entered);
  inputs @5 :List(LedgerState);

  struct Entered {
    rank @0 :UInt32;
    id @1 :UInt64;
  }
}

struct Event {
  job @0 :UInt64;
  atNs @1 :Int64;
  union {
    termStarted @2 :UInt64;
    baseline @3 :Baseline;
    nodeJoined @4 :NodeJoined;
    nodeStateChanged @5 :NodeStateChanged;
    jobSubmitted @6 :JobSubmitted;
    jobPlaced @7 :JobPlaced;
    jobStateChanged @8 :JobStateChanged;
    taskEnded @9 :TaskEnded;
    jobKillRequested @10 :Data;
    generationEnded @11 :GenerationEnded;
    jobEnded @12 :Job.JobView;
    inputFilesSet @13 :InputFilesSet;
    splitsLeased @14 :SplitsLeased;
    obsolete15 @15 :Obsolete15;  # written before leases carried `done`
    barrierMet @16 :BarrierMet;
    jobHeld @17 :JobHeld;
    commitGranted @18 :UInt32;  # the generation
    taskWarned @19 :TaskWarned;
    jobSnapshot @20 :JobSnapshot;
    inputsCommitted @21 :InputsCommitted;
  }
}
