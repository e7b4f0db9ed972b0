@0xe2b41c7d9a5f3608;
# The header frame of what the processes of a ps-lite program send each other (ps/pslite/core/msg.h, docs/pslite.md); of mail, the
# body and the arrays follow as frames. Append fields and union members only.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("dlrun::wire::pslite_schema");

struct RosterNode {
  id @0 :Int32;
  process @1 :Int32;
  tcp @2 :Text;
  shm @3 :Text;
  name @4 :Text;
}

struct Packet {
  session @0 :UInt64;
  sequence @1 :UInt64;
  ack @2 :UInt64;
  taken @3 :UInt64;
  union {
    none @4 :Void;
    register :group {
      version @5 :UInt32;
      role @6 :UInt8;
      customer @7 :Int32;
      rank @8 :Int32;
      workers @9 :UInt32;
      servers @10 :UInt32;
      tcp @11 :Text;
      shm @12 :Text;
      name @13 :Text;
    }
    roster :group {
      job @14 :UInt64;
      you @15 :Int32;
      nodes @16 :List(RosterNode);
    }
    hello :group {
      job @17 :UInt64;
      from @18 :Int32;
    }
    refused @19 :Text;
    enter @20 :Int32;
    passed @21 :Int32;
    failed @22 :Text;
    goodbye @23 :Void;
    mail :group {
      app @24 :Int32;
      customer @25 :Int32;
      timestamp @26 :Int32;
      head @27 :Int32;
      sender @28 :Int32;
      recver @29 :Int32;
      request @30 :Bool;
      push @31 :Bool;
      pull @32 :Bool;
      simpleApp @33 :Bool;
      number @34 :UInt64;
      offset @35 :UInt64;
      bytes @36 :List(UInt64);
      types @37 :List(UInt8);
    }
  }
}
