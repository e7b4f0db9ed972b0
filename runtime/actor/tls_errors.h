#pragma once
/// runtime/actor/tls_errors.h: one connection's TLS error is no other connection's.
///
/// OpenSSL keeps a queue of errors for each thread. SSL_get_error looks into it, so the queue must
/// be empty before each operation; CAF's OpenSSL module does not empty it. What a connection leaves
/// there (garbage instead of a handshake, a peer killed in the middle of a record) then looks like
/// a failure of the next connection that only has nothing to read. So the queue is emptied
///   - when a TLS connection is freed, in the thread that freed it;
///   - by never filling it for the most common end: a peer that is gone without a farewell is an
///     end of file (SSL_OP_IGNORE_UNEXPECTED_EOF; our messages have a length of their own).
/// Between a failure and the free of its connection the window stays open for the events of one
/// round of the loop.
/// Errors: kInternal when OpenSSL has no room for it.
/// Threads: any; the first call counts. Holds for the whole process.

#include "runtime/base/result.h"

namespace dlrun::actor {

Status keep_tls_errors_apart();

}  // namespace dlrun::actor
