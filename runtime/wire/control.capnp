@0xe7b4c9d1a2f35c03;
# What coordinator and agents say: the payload of the one CAF message type, the Envelope.
# A union member is never removed or renumbered; a member that a reader does not know is kUnsupported there.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Job = import "job.capnp";
$Cxx.namespace("dlrun::wire::schema");

struct ReadyInfo {
  tcp @0 :Text;
  ipc @1 :Data;
}

struct TaskUpdate {
  task @0 :Common.TaskId;
  epoch @1 :Common.Epoch;
  state @2 :UInt8;
  end @3 :Job.TaskEnd;
  ready @4 :ReadyInfo;
  pid @5 :Int64;
  warning @6 :Data;
}

struct Member {
  task @0 :Common.TaskId;
  node @1 :Text;
  address @2 :Text;
  ports @3 :List(UInt16);
}

struct RegisterAck {
  term @0 :UInt64;
  leaseNs @1 :Int64;
  heartbeatNs @2 :Int64;
  logEndpoint @3 :Text;
  logKey @4 :Text;
  unknownTasks @5 :List(Common.TaskId);
  floorTerm @6 :UInt64;
  floorCounter @7 :UInt64;
  sequence @8 :UInt64;
}

struct TaskFile {
  name @0 :Data;
  bytes @1 :Data;
  variables @2 :List(Data);
}

struct PrepareTask {
  jobName @0 :Text;
  owner @1 :Text;
  program @2 :UInt8;
  argv @3 :List(Data);
  env @4 :List(Common.EnvPair);
  cwd @5 :Data;
  resources @6 :Job.Resources;
  slot @7 :Job.PlacedSlot;
  token @8 :Data;
  world @9 :UInt32;
  inputs @10 :List(Common.InputSpec);
  timeLimitNs @11 :Int64;
  startAtOnce @12 :Bool;
  ready @13 :UInt8;
  outputs @14 :List(Job.OutputSpec);
  cwdRequired @15 :Bool;
  rlimits @16 :List(Job.Rlimit);
  graceNs @17 :Int64 = 30000000000;  # what an agent of version 0.1 waits
  commitNumber @18 :UInt64;
  commitTag @19 :Data;
  files @20 :List(TaskFile);
}

struct StartTask {
  members @0 :List(Member);  # of version 0.1: nobody reads it, and one list per task is the square of the gang. Not written.
  env @1 :List(Common.EnvPair);
  ps @2 :Common.PsView;
  files @3 :List(TaskFile);
}

struct StopTask {
  graceNs @0 :Int64;
  cause @1 :UInt8;
}

struct Barrier {
  name @0 :Data;
  round @1 :UInt64;
}

struct LeaseReply {
  request @0 :UInt64;
  error @1 :Int32;
  errorContext @2 :Data;
  answer @3 :Common.LeaseAnswer;
}

struct SplitRef {
  input @0 :Text;
  splitId @1 :UInt64;
  pass @2 :UInt32;
}

struct HeartbeatAck {
  term @0 :UInt64;
  sequence @1 :UInt64;
  known @2 :Bool;
}

# task and epoch: whom the message is about (absent in registerAck, heartbeatAck).
struct ToAgent {
  task @0 :Common.TaskId;
  epoch @1 :Common.Epoch;
  union {
    registerAck @2 :RegisterAck;
    prepareTask @3 :PrepareTask;
    startTask @4 :StartTask;
    stopTask @5 :StopTask;
    workerGone @6 :Common.TaskId;
    barrierDone @7 :Barrier;
    leaseReply @8 :LeaseReply;
    taskEndAck @9 :Void;
    heartbeatAck @10 :HeartbeatAck;
    obsolete11 @11 :SplitRef;  # said before leases carried `done`
    commitOutputs @12 :List(Job.OutputSpec);
    commitDone @13 :CommitDone;
  }
}

struct Register {
  node @0 :Text;
  incarnation @1 :UInt64;
  address @2 :Text;
  capacity @3 :Job.NodeCapacity;
  tasks @4 :List(TaskUpdate);
  version @5 :Text;
  sequence @6 :UInt64;
}

struct Heartbeat {
  node @0 :Text;
  incarnation @1 :UInt64;
  sequence @2 :UInt64;
}

struct Progress {
  fraction @0 :Float64;
  text @1 :Data;
}

struct InputFiles {
  input @0 :Text;
  files @1 :List(Common.FileEntry);
  request @2 :UInt64;
}

struct LeaseSplits {
  input @0 :Text;
  splitsMax @1 :UInt32;
  request @2 :UInt64;
  resync @3 :Bool;
  held @4 :List(Common.SplitKey);
  done @5 :List(Common.SplitKey);
  steps @6 :List(Common.StepReport);
}

struct CommitInputs {
  id @0 :UInt64;
  tag @1 :Data;
  inputs @2 :List(Common.InputCursor);
}

struct CommitDone {
  id @0 :UInt64;
  number @1 :UInt64;
  error @2 :Int32;
  errorContext @3 :Data;
}

struct OutputsCommitted {
  error @0 :Int32;
  errorContext @1 :Data;
  underWay @2 :Bool;  # then neither done nor failed
  progress @3 :UInt64;
}

struct FromAgent {
  task @0 :Common.TaskId;
  epoch @1 :Common.Epoch;
  union {
    register @2 :Register;
    heartbeat @3 :Heartbeat;
    taskUpdate @4 :TaskUpdate;
    progress @5 :Progress;
    barrierArrive @6 :Barrier;
    inputFiles @7 :InputFiles;
    leaseSplits @8 :LeaseSplits;
    obsolete9 @9 :SplitRef;  # said before leases carried `done`
    workerGoneAck @10 :Common.TaskId;
    outputsCommitted @11 :OutputsCommitted;
    commitInputs @12 :CommitInputs;
  }
}
