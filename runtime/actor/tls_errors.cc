#include "runtime/actor/tls_errors.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

namespace dlrun::actor {
namespace {

// Both are called by OpenSSL at the birth and the death of an object; no data is kept with it.
void on_new(void* connection, void*, CRYPTO_EX_DATA*, int, long, void*) {
  SSL_set_options(static_cast<SSL*>(connection), SSL_OP_IGNORE_UNEXPECTED_EOF);
}
void on_free(void*, void*, CRYPTO_EX_DATA*, int, long, void*) { ERR_clear_error(); }

}  // namespace

Status keep_tls_errors_apart() {
  static const int index = SSL_get_ex_new_index(0, nullptr, &on_new, nullptr, &on_free);
  if (index < 0) return fail(Errc::kInternal, "OpenSSL takes no callback for its connections");
  return {};
}

}  // namespace dlrun::actor
