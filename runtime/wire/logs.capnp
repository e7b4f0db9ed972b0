@0xd1c3a5b2f0e49a03;
# Header frame of what LogShipper and LogReceiver say; the bytes of an append are a second, raw frame.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("dlrun::wire::schema");

struct LogHeader {
  kind @0 :UInt8;        # 1 ask, 2 append, 3 finish; answers: 11, 12, 13
  request @1 :UInt64;    # repeated in the answer
  task @2 :Common.TaskId;
  stream @3 :UInt8;      # 1 stdout, 2 stderr
  offset @4 :UInt64;     # append: of the bytes; answers: where the stream ends in the store
  gap @5 :Bool;          # append: what is missing before it is lost for ever
  error @6 :UInt32;      # answers: Errc, 0 = none
  errorContext @7 :Text;
  epoch @8 :Common.Epoch;  # questions: of the task's placement
  proof @9 :Data;          # questions: that the sender was given the task under that epoch
}
