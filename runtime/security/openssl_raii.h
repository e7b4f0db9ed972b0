#pragma once
/// runtime/security/openssl_raii.h: owners of OpenSSL objects and its error text. Included by this
/// folder's sources only.

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "runtime/base/result.h"

namespace dlrun::security {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};
using BioPtr = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using CertPtr = std::unique_ptr<X509, Freer<X509_free>>;
using ReqPtr = std::unique_ptr<X509_REQ, Freer<X509_REQ_free>>;
using NamePtr = std::unique_ptr<X509_NAME, Freer<X509_NAME_free>>;
using StorePtr = std::unique_ptr<X509_STORE, Freer<X509_STORE_free>>;
using StoreCtxPtr = std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>>;
using BnPtr = std::unique_ptr<BIGNUM, Freer<BN_free>>;
using SslCtxPtr = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Freer<SSL_free>>;

/// "<what>: <OpenSSL's first error>", and the thread's error queue emptied.
tl::unexpected<Error> fail_openssl(Errc code, std::string what);
Result<CertPtr> parse_certificate(const std::string& pem);
Result<KeyPtr> parse_key(const std::string& pem);
/// "sha256:<hex>" of the DER form.
std::string fingerprint_of(X509* certificate);
/// Verifies `certificate` against the one trust anchor `ca`, for the purpose of its kind, at
/// `unix_s` (0 = now).
Status verify_with_ca(X509* certificate, X509* ca, int purpose, std::int64_t unix_s);

}  // namespace dlrun::security
