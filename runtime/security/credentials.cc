#include "runtime/security/credentials.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/os/fd.h"
#include "runtime/security/openssl_raii.h"
#include "runtime/security/secret.h"

namespace dlrun::security {
namespace {

constexpr const char* kLink = "/node";
constexpr const char* kSets[] = {"node.a", "node.b"};

bool exists(const std::string& path) {
  std::error_code ec;
  return std::filesystem::exists(path, ec);
}

CredentialFiles set_in(const std::string& set) {
  return {set + "/ca.pem", set + "/node.pem", set + "/node.key"};
}

/// "" when there is none.
std::string set_in_use(const std::string& folder) {
  std::error_code ec;
  return std::filesystem::read_symlink(folder + kLink, ec).string();
}

Status sync_folder(const std::string& folder) {
  const os::Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return fail_errno("sync folder " + folder);
  return {};
}

/// The one step that counts: before it the old set is in use, after it the new one.
Status switch_to(const std::string& folder, const std::string& set) {
  const std::string link = folder + kLink;
  const std::string temporary = link + ".tmp";
  ::unlink(temporary.c_str());
  if (::symlink(set.c_str(), temporary.c_str()) != 0 ||
      ::rename(temporary.c_str(), link.c_str()) != 0)
    return fail_errno("switch " + link + " to " + set);
  return sync_folder(folder);
}

Status make_coordinator_certificate(const std::string& folder, const PemPair& ca, WallTime now,
                                    Duration life) {
  DLRUN_ASSIGN(const std::string key, make_key());
  DLRUN_ASSIGN(const std::string csr, make_csr(key, "coordinator"));
  SignOptions options{CertKind::kCoordinator, "coordinator", life, now};
  DLRUN_ASSIGN(const std::string certificate, sign_csr(ca, csr, options));
  return store_node(folder, key, certificate, ca.certificate_pem);
}

}  // namespace

WallTime renew_at(const CertInfo& info) {
  const std::int64_t life = info.not_after.ns - info.not_before.ns - kBackdate.count();
  return WallTime{info.not_after.ns - life / 3};
}

CredentialFiles CredentialFiles::in(const std::string& folder) { return set_in(folder + kLink); }

Status store_node(const std::string& folder, const std::string& key_pem,
                  const std::string& certificate_pem, const std::string& ca_pem) {
  DLRUN_TRY(make_private_folder(folder));
  const std::string next = set_in_use(folder) == kSets[0] ? kSets[1] : kSets[0];
  const std::string set = folder + "/" + next;
  std::error_code ec;
  std::filesystem::remove_all(set, ec);
  if (ec) return fail_errno("remove " + set, ec.value());
  const CredentialFiles files = set_in(set);
  DLRUN_TRY(make_private_folder(set));
  DLRUN_TRY(write_private_file(files.ca_path, ca_pem));
  DLRUN_TRY(write_private_file(files.key_path, key_pem));
  DLRUN_TRY(write_private_file(files.certificate_path, certificate_pem + ca_pem));
  DLRUN_TRY(sync_folder(folder));
  return switch_to(folder, next);
}

Result<NodeCredentials> open_node(const std::string& folder, CertKind kind, WallTime now) {
  NodeCredentials out;
  out.files = CredentialFiles::in(folder);
  const std::string set = set_in_use(folder);
  const CredentialFiles now_used = set_in(folder + "/" + set);  // also while another renews it
  if (set.empty() || !exists(now_used.certificate_path))
    return fail(Errc::kNotFound,
                "no certificate in " + folder + ": this node has not joined a cluster");
  DLRUN_TRY(make_private_folder(folder));
  DLRUN_ASSIGN(out.certificate_pem, read_private_file(now_used.certificate_path));
  DLRUN_ASSIGN(out.key_pem, read_private_file(now_used.key_path));
  DLRUN_ASSIGN(out.ca_pem, read_private_file(now_used.ca_path));
  if (Status ok = check_credentials(out.certificate_pem, out.key_pem, out.ca_pem, kind, now); !ok)
    return fail_as("credentials in " + folder, ok);
  DLRUN_ASSIGN(out.info, describe_certificate(out.certificate_pem));
  out.renew_at = renew_at(out.info);
  return out;
}

Result<CoordinatorCredentials> open_or_make_cluster(const std::string& folder, WallTime now,
                                                    Duration life) {
  DLRUN_TRY(make_private_folder(folder));
  CoordinatorCredentials out;
  out.files = CredentialFiles::in(folder);
  out.files.ca_path = folder + "/ca.pem";
  const std::string ca_key_path = folder + "/ca.key";
  // The coordinator's own certificate is written last: until then nobody has seen this CA.
  if (!exists(out.files.certificate_path)) {
    if (!exists(ca_key_path) || !exists(out.files.ca_path)) {
      DLRUN_ASSIGN(out.ca, make_ca("dlrun cluster", now));
      DLRUN_TRY(write_private_file(ca_key_path, out.ca.key_pem));
      DLRUN_TRY(write_private_file(out.files.ca_path, out.ca.certificate_pem));
    } else {
      DLRUN_ASSIGN(out.ca.key_pem, read_private_file(ca_key_path));
      DLRUN_ASSIGN(out.ca.certificate_pem, read_private_file(out.files.ca_path));
    }
    DLRUN_TRY(make_coordinator_certificate(folder, out.ca, now, life));
  }
  DLRUN_ASSIGN(out.ca.key_pem, read_private_file(ca_key_path));
  DLRUN_ASSIGN(out.ca.certificate_pem, read_private_file(out.files.ca_path));
  DLRUN_ASSIGN(const std::string certificate, read_private_file(out.files.certificate_path));
  DLRUN_ASSIGN(const CertInfo info, describe_certificate(certificate));
  if (now >= renew_at(info)) DLRUN_TRY(make_coordinator_certificate(folder, out.ca, now, life));
  DLRUN_ASSIGN(const NodeCredentials checked, open_node(folder, CertKind::kCoordinator, now));
  out.renew_at = checked.renew_at;
  DLRUN_ASSIGN(out.ca_fingerprint, ca_fingerprint(out.ca.certificate_pem));
  return out;
}

Result<CredentialFiles> make_server_certificate(const std::string& folder, const std::string& name,
                                                const PemPair& ca,
                                                const std::vector<std::string>& alt_names,
                                                WallTime now, Duration life) {
  CredentialFiles files{folder + "/ca.pem", folder + "/" + name + ".pem",
                        folder + "/" + name + ".key"};
  DLRUN_ASSIGN(const std::string key, make_key());
  DLRUN_ASSIGN(const std::string csr, make_csr(key, name));
  DLRUN_ASSIGN(const std::string certificate,
               sign_csr(ca, csr, SignOptions{CertKind::kCoordinator, name, life, now, alt_names}));
  DLRUN_TRY(write_private_file(files.key_path, key));
  DLRUN_TRY(write_private_file(files.certificate_path, certificate + ca.certificate_pem));
  return files;
}

Result<std::string> sign_statement(const std::string& key_text, const std::string& statement) {
  DLRUN_ASSIGN(const KeyPtr key, parse_key(key_text));
  const std::unique_ptr<EVP_MD_CTX, Freer<EVP_MD_CTX_free>> context(EVP_MD_CTX_new());
  std::size_t n = 0;
  const auto* data = reinterpret_cast<const unsigned char*>(statement.data());
  if (!context ||
      EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &n, data, statement.size()) != 1)
    return fail_openssl(Errc::kInternal, "sign statement");
  std::string signature(n, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &n, data,
                     statement.size()) != 1)
    return fail_openssl(Errc::kInternal, "sign statement");
  signature.resize(n);
  return signature;
}

Result<CertInfo> verify_statement(const std::string& ca_text, const std::string& certificate_text,
                                  const std::string& statement, const std::string& signature,
                                  WallTime now) {
  DLRUN_ASSIGN(const CertPtr certificate, parse_certificate(certificate_text));
  DLRUN_ASSIGN(const CertPtr ca, parse_certificate(ca_text));
  DLRUN_TRY(
      verify_with_ca(certificate.get(), ca.get(), X509_PURPOSE_SSL_CLIENT, now.ns / 1'000'000'000));
  const std::unique_ptr<EVP_MD_CTX, Freer<EVP_MD_CTX_free>> context(EVP_MD_CTX_new());
  if (!context || EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr,
                                       X509_get0_pubkey(certificate.get())) != 1)
    return fail_openssl(Errc::kInternal, "verify statement");
  if (EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(), reinterpret_cast<const unsigned char*>(statement.data()),
                       statement.size()) != 1) {
    ERR_clear_error();
    return fail(Errc::kPermissionDenied, "the signature is not of the certificate's key");
  }
  return describe_certificate(certificate_text);
}

}  // namespace dlrun::security
