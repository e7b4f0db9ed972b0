@0xb7f1c2ad5e903d11;
# What travels in the one CAF message between an agent and the coordinator. Append only; a number is never used again.
# First frame of an agent: hello. The coordinator answers welcome or refused; then payloads both ways.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("dlrun::wire::schema");

struct LinkHello {
  version @0 :UInt32;      # the highest that the sender speaks
  node @1 :Text;
  incarnation @2 :UInt64;
  certificate @3 :Data;    # PEM
  signature @4 :Data;      # by the certificate's key, over link_statement()
  logKey @5 :Text;         # CURVE public key of the agent's log shipper, Z85
}

struct LinkWelcome {
  version @0 :UInt32;      # the lower of both: it holds
}

struct LinkRefused {
  code @0 :Int32;          # Errc
  reason @1 :Text;
}

struct LinkFrame {
  union {
    hello @0 :LinkHello;
    welcome @1 :LinkWelcome;
    refused @2 :LinkRefused;
    payload @3 :Data;      # one message of control.capnp
  }
}
