@0xd1c3a5b2f0e49a02;
# What a task's process and its agent say over the per-task Unix socket: u32 length (little endian) + one message each.
# Append fields and union members only. An older reader skips a member that it does not know.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("dlrun::wire::schema");

struct TaskToServer {
  union {
    hello :group {
      version @0 :UInt32;
      kind @1 :UInt8;
      token @2 :Data;
      pid @3 :Int64;
    }
    ready :group {
      tcp @4 :Text;
      ipc @5 :Data;
    }
    progress :group {
      fraction @6 :Float64;
      text @7 :Text;
    }
    barrier :group {
      name @8 :Text;
      round @9 :UInt64;
    }
    openInput :group {
      request @10 :UInt64;
      input @11 :Text;
    }
    feederFiles :group {
      request @12 :UInt64;
      consumer @13 :Common.TaskId;
      input @14 :Text;
      files @15 :List(Common.FileEntry);
    }
    feederLease :group {
      request @16 :UInt64;
      consumer @17 :Common.TaskId;
      input @18 :Text;
      splitsMax @19 :UInt32;
      resync @20 :Bool;
      held @21 :List(Common.SplitKey);
      done @26 :List(Common.SplitKey);
      steps @29 :List(Common.StepReport);
    }
    obsolete22 :group {  # said before leases carried `done`
      consumer @22 :Common.TaskId;
      input @23 :Text;
      splitId @24 :UInt64;
      pass @25 :UInt32;
    }
    feederGone :group {
      consumer @27 :Common.TaskId;
    }
    psReport :group {
      report @28 :Data;  # Report of ps_checkpoint.capnp
    }
    commitInputs :group {
      request @30 :UInt64;
      tag @31 :Data;
      inputs @32 :List(Common.InputCursor);
    }
  }
}

struct TaskToClient {
  union {
    welcome :group {
      version @0 :UInt32;
      task @1 :Common.TaskId;
      epoch @2 :Common.Epoch;
      world @3 :UInt32;
      jobName @4 :Text;
      ps @5 :Common.PsView;
      inputs @6 :List(Common.InputSpec);
      restoreFolder @28 :Text;
      restoreDigest @29 :UInt64;
      commitNumber @30 :UInt64;
      commitTag @31 :Data;
    }
    refused :group {
      code @7 :UInt32;
      reason @8 :Text;
    }
    barrierPassed :group {
      name @9 :Text;
      round @10 :UInt64;
    }
    inputAt :group {
      request @11 :UInt64;
      error @12 :UInt32;
      errorContext @13 :Text;
      feederSocket @14 :Data;
      consumerToken @15 :Data;
    }
    workerLeft :group {
      worker @16 :Common.TaskId;
    }
    admitConsumer :group {
      token @17 :Data;
      consumer @18 :Common.TaskId;
      epoch @19 :Common.Epoch;
      input @20 :Common.InputSpec;
    }
    dropConsumer :group {
      consumer @21 :Common.TaskId;
    }
    feederReply :group {
      request @22 :UInt64;
      error @23 :UInt32;
      errorContext @24 :Text;
      answer @25 :Common.LeaseAnswer;
    }
    stopNow @26 :Void;
    psOrder :group {
      order @27 :Data;  # Order of ps_checkpoint.capnp
    }
    committed :group {
      request @32 :UInt64;
      number @33 :UInt64;
      error @34 :UInt32;
      errorContext @35 :Text;
    }
  }
}
