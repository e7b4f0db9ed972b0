#include "runtime/security/pki.h"

#include <ctime>

#include "runtime/security/openssl_raii.h"
#include "runtime/security/secret.h"

namespace dlrun::security {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kCaDays = 20 * 365;

Result<std::string> bio_text(BIO* bio) {
  char* data = nullptr;
  const long n = BIO_get_mem_data(bio, &data);
  if (n <= 0) return fail_openssl(Errc::kInternal, "write PEM");
  return std::string(data, static_cast<std::size_t>(n));
}

Result<std::string> certificate_pem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), certificate) != 1)
    return fail_openssl(Errc::kInternal, "write certificate");
  return bio_text(bio.get());
}

Result<std::string> key_pem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio ||
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return fail_openssl(Errc::kInternal, "write key");
  return bio_text(bio.get());
}

Result<NamePtr> make_name(std::string_view common_name) {
  NamePtr name(X509_NAME_new());
  const auto* text = reinterpret_cast<const unsigned char*>(common_name.data());
  if (!name || X509_NAME_add_entry_by_txt(name.get(), "CN", MBSTRING_UTF8, text,
                                          static_cast<int>(common_name.size()), -1, 0) != 1)
    return fail_openssl(Errc::kInvalidArgument, "subject name");
  return name;
}

std::string common_name_of(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(const_cast<X509_NAME*>(name), NID_commonName, -1);
  if (at < 0) return {};
  const ASN1_STRING* value =
      X509_NAME_ENTRY_get_data(X509_NAME_get_entry(const_cast<X509_NAME*>(name), at));
  unsigned char* utf8 = nullptr;
  const int n = ASN1_STRING_to_UTF8(&utf8, value);
  if (n < 0) return {};
  std::string out(reinterpret_cast<char*>(utf8), static_cast<std::size_t>(n));
  OPENSSL_free(utf8);
  return out;
}

bool add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  if (extension == nullptr) return false;
  const bool ok = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return ok;
}

Status set_common_fields(X509* certificate, const X509_NAME* subject, const X509_NAME* issuer,
                         EVP_PKEY* key, std::int64_t from_s, std::int64_t until_s) {
  DLRUN_ASSIGN(std::string serial_bytes, random_bytes(16));
  // positive, always 16 bytes
  serial_bytes[0] = static_cast<char>((serial_bytes[0] & 0x7f) | 0x40);
  const BnPtr serial(BN_bin2bn(reinterpret_cast<const unsigned char*>(serial_bytes.data()),
                               static_cast<int>(serial_bytes.size()), nullptr));
  const bool ok = serial && X509_set_version(certificate, 2) == 1 &&
                  BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr &&
                  X509_set_subject_name(certificate, const_cast<X509_NAME*>(subject)) == 1 &&
                  X509_set_issuer_name(certificate, const_cast<X509_NAME*>(issuer)) == 1 &&
                  X509_set_pubkey(certificate, key) == 1 &&
                  ASN1_TIME_set(X509_getm_notBefore(certificate), from_s) != nullptr &&
                  ASN1_TIME_set(X509_getm_notAfter(certificate), until_s) != nullptr;
  if (!ok) return fail_openssl(Errc::kInternal, "fill certificate");
  return {};
}

WallTime wall_of(const ASN1_TIME* time) {
  std::tm tm{};
  if (ASN1_TIME_to_tm(time, &tm) != 1) return {};
  return WallTime{static_cast<std::int64_t>(timegm(&tm)) * kSecond};
}

std::string serial_of(X509* certificate) {
  const BnPtr serial(ASN1_INTEGER_to_BN(X509_get_serialNumber(certificate), nullptr));
  std::string bytes(static_cast<std::size_t>(serial ? BN_num_bytes(serial.get()) : 0), '\0');
  if (serial) BN_bn2bin(serial.get(), reinterpret_cast<unsigned char*>(bytes.data()));
  return to_hex({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace

tl::unexpected<Error> fail_openssl(Errc code, std::string what) {
  char text[256] = "unknown cause";
  if (const unsigned long e = ERR_peek_error(); e != 0) ERR_error_string_n(e, text, sizeof text);
  ERR_clear_error();
  return fail(code, std::move(what) + ": " + text);
}

Result<CertPtr> parse_certificate(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  CertPtr certificate(bio ? PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr) : nullptr);
  if (!certificate) return fail_openssl(Errc::kInvalidArgument, "not a PEM certificate");
  return certificate;
}

Result<KeyPtr> parse_key(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  // An empty pass phrase callback: an encrypted key must fail, not ask on the terminal.
  auto no_phrase = [](char*, int, int, void*) { return 0; };
  KeyPtr key(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, +no_phrase, nullptr) : nullptr);
  if (!key) return fail_openssl(Errc::kInvalidArgument, "not a PEM private key");
  return key;
}

std::string fingerprint_of(X509* certificate) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int n = 0;
  if (X509_digest(certificate, EVP_sha256(), digest, &n) != 1) return {};
  return "sha256:" + to_hex({digest, n});
}

Status verify_with_ca(X509* certificate, X509* ca, int purpose, std::int64_t unix_s) {
  const StorePtr store(X509_STORE_new());
  const StoreCtxPtr context(X509_STORE_CTX_new());
  if (!store || !context || X509_STORE_add_cert(store.get(), ca) != 1 ||
      X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr) != 1 ||
      X509_STORE_CTX_set_purpose(context.get(), purpose) != 1)
    return fail_openssl(Errc::kInternal, "prepare verification");
  if (unix_s != 0) X509_STORE_CTX_set_time(context.get(), 0, unix_s);
  if (X509_verify_cert(context.get()) != 1) {
    ERR_clear_error();
    return fail(Errc::kPermissionDenied,
                std::string("the certificate is refused: ") +
                    X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())));
  }
  return {};
}

bool is_node_name(std::string_view name) noexcept {
  if (name.empty() || name.size() > 64) return false;
  for (const char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
          c == '_' || c == '-'))
      return false;
  return true;
}

Result<std::string> make_key() {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return fail_openssl(Errc::kInternal, "make key");
  return key_pem(key.get());
}

Result<PemPair> make_ca(std::string_view cluster_name, WallTime now) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  const CertPtr ca(X509_new());
  if (!key || !ca) return fail_openssl(Errc::kInternal, "make CA");
  DLRUN_ASSIGN(const NamePtr name, make_name(cluster_name));
  const std::int64_t now_s = now.ns / kSecond;
  DLRUN_TRY(set_common_fields(ca.get(), name.get(), name.get(), key.get(), now_s - 3600,
                              now_s + kCaDays * 86400));
  if (!add_extension(ca.get(), ca.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(ca.get(), ca.get(), NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(ca.get(), ca.get(), NID_subject_key_identifier, "hash") ||
      X509_sign(ca.get(), key.get(), EVP_sha256()) == 0)
    return fail_openssl(Errc::kInternal, "sign CA");
  PemPair out;
  DLRUN_ASSIGN(out.certificate_pem, certificate_pem(ca.get()));
  DLRUN_ASSIGN(out.key_pem, key_pem(key.get()));
  return out;
}

Result<std::string> make_csr(const std::string& key_text, const std::string& common_name) {
  if (!is_node_name(common_name))
    return fail(Errc::kInvalidArgument,
                "a node's name has 1 to 64 of A-Z a-z 0-9 . _ -, not \"" + common_name + "\"");
  DLRUN_ASSIGN(const KeyPtr key, parse_key(key_text));
  DLRUN_ASSIGN(const NamePtr name, make_name(common_name));
  const ReqPtr request(X509_REQ_new());
  if (!request || X509_REQ_set_version(request.get(), 0) != 1 ||
      X509_REQ_set_subject_name(request.get(), name.get()) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) == 0)
    return fail_openssl(Errc::kInternal, "make signing request");
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509_REQ(bio.get(), request.get()) != 1)
    return fail_openssl(Errc::kInternal, "write signing request");
  return bio_text(bio.get());
}

Result<std::string> sign_csr(const PemPair& ca, const std::string& csr_pem,
                             const SignOptions& options) {
  if (!is_node_name(options.common_name))
    return fail(Errc::kInvalidArgument, "not a node's name: \"" + options.common_name + "\"");
  DLRUN_ASSIGN(const CertPtr issuer, parse_certificate(ca.certificate_pem));
  DLRUN_ASSIGN(const KeyPtr issuer_key, parse_key(ca.key_pem));
  const BioPtr bio(BIO_new_mem_buf(csr_pem.data(), static_cast<int>(csr_pem.size())));
  const ReqPtr request(bio ? PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr) : nullptr);
  if (!request) return fail_openssl(Errc::kInvalidArgument, "not a PEM signing request");
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  if (key == nullptr || X509_REQ_verify(request.get(), key) != 1)
    return fail_openssl(Errc::kInvalidArgument, "the signing request is not signed by its own key");
  if (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC || EVP_PKEY_get_bits(key) < 256)
    return fail(Errc::kInvalidArgument,
                "the signing request's key is not an elliptic one of 256 bits or more");
  if (const std::string asked = common_name_of(X509_REQ_get_subject_name(request.get()));
      asked != options.common_name)
    return fail(Errc::kInvalidArgument, "the signing request names \"" + asked + "\", the join \"" +
                                            options.common_name + "\"");

  DLRUN_ASSIGN(const NamePtr name, make_name(options.common_name));
  const CertPtr certificate(X509_new());
  if (!certificate) return fail_openssl(Errc::kInternal, "make certificate");
  const std::int64_t now_s = options.now.ns / kSecond;
  DLRUN_TRY(set_common_fields(certificate.get(), name.get(), X509_get_subject_name(issuer.get()),
                              key, now_s - kBackdate.count() / kSecond,
                              now_s + options.valid_for.count() / kSecond));
  std::string alt_names;
  for (const std::string& name : options.alt_names)
    alt_names += (alt_names.empty() ? "" : ",") + name;
  const char* usage = options.kind == CertKind::kCoordinator ? "critical,serverAuth,clientAuth"
                                                             : "critical,clientAuth";
  if (!add_extension(certificate.get(), issuer.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(certificate.get(), issuer.get(), NID_key_usage, "critical,digitalSignature") ||
      !add_extension(certificate.get(), issuer.get(), NID_ext_key_usage, usage) ||
      !add_extension(certificate.get(), issuer.get(), NID_subject_key_identifier, "hash") ||
      !add_extension(certificate.get(), issuer.get(), NID_authority_key_identifier,
                     "keyid:always") ||
      (!alt_names.empty() &&
       !add_extension(certificate.get(), issuer.get(), NID_subject_alt_name, alt_names.c_str())) ||
      X509_sign(certificate.get(), issuer_key.get(), EVP_sha256()) == 0)
    return fail_openssl(Errc::kInternal, "sign certificate");
  return certificate_pem(certificate.get());
}

Result<CertInfo> describe_certificate(const std::string& pem) {
  DLRUN_ASSIGN(const CertPtr certificate, parse_certificate(pem));
  CertInfo info;
  info.common_name = common_name_of(X509_get_subject_name(certificate.get()));
  info.serial_hex = serial_of(certificate.get());
  info.fingerprint = fingerprint_of(certificate.get());
  info.not_before = wall_of(X509_get0_notBefore(certificate.get()));
  info.not_after = wall_of(X509_get0_notAfter(certificate.get()));
  info.is_ca = X509_check_ca(certificate.get()) == 1;
  return info;
}

Result<std::string> ca_fingerprint(const std::string& ca_pem) {
  DLRUN_ASSIGN(const CertInfo info, describe_certificate(ca_pem));
  if (!info.is_ca)
    return fail(Errc::kInvalidArgument,
                "the certificate of \"" + info.common_name + "\" is not a CA's");
  return info.fingerprint;
}

Status check_credentials(const std::string& certificate_text, const std::string& key_text,
                         const std::string& ca_text, CertKind kind, WallTime now) {
  DLRUN_ASSIGN(const CertPtr certificate, parse_certificate(certificate_text));
  DLRUN_ASSIGN(const KeyPtr key, parse_key(key_text));
  DLRUN_ASSIGN(const CertPtr ca, parse_certificate(ca_text));
  if (X509_check_ca(ca.get()) != 1)
    return fail(Errc::kPermissionDenied, "the cluster's certificate is not a CA's");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return fail(Errc::kPermissionDenied, "the key does not belong to the certificate");
  }
  const int purpose =
      kind == CertKind::kCoordinator ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT;
  return verify_with_ca(certificate.get(), ca.get(), purpose, now.ns / kSecond);
}

}  // namespace dlrun::security
