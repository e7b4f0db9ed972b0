// Fuzz entry of the join request: who holds a token (first byte odd) or does not sends a node's
// name, up to the first newline, and a signing request; or a certificate to renew. A certificate is
// granted only for a token and a valid name, and is the CA's.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <unistd.h>

#include "runtime/security/join_service.h"

namespace {

using namespace dlrun;
using namespace dlrun::security;

struct Cluster {
  ManualClock clock;
  PemPair ca;
  std::string folder, token, key;
  int granted = 0;
  std::unique_ptr<JoinTokens> tokens;
  std::unique_ptr<CertificateBook> book;
  std::unique_ptr<JoinService> service;

  Cluster() {
    clock.advance(std::chrono::hours(24 * 365 * 50));
    ca = make_ca("fuzz", clock.wall()).value();
    key = make_key().value();
    folder =
        (std::filesystem::temp_directory_path() / ("dlrun-fuzz-join-" + std::to_string(::getpid())))
            .string();
    std::filesystem::create_directories(folder);
    tokens =
        JoinTokens::open(folder + "/tokens", ca_fingerprint(ca.certificate_pem).value()).value();
    token = tokens->issue(std::chrono::hours(24), clock.wall()).value();
    open_book();
  }
  /// An empty one.
  void open_book() {
    service.reset();
    book.reset();
    std::filesystem::remove(folder + "/certificates");
    book = CertificateBook::open(folder + "/certificates", clock.wall()).value();
    service = std::make_unique<JoinService>(ca, tokens.get(), book.get(), &clock, 1);
    granted = 0;
  }
  ~Cluster() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Cluster cluster;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t line = text.find('\n');
  const std::string name = text.substr(0, line);
  std::string request = line == std::string::npos ? "" : text.substr(line + 1);
  const bool holds_token = (data[0] & 1) != 0;
  if ((data[0] & 2) != 0) {  // a good request, for a name of its own
    const auto csr = make_csr(cluster.key, name);
    if (csr) request = *csr;
  }
  if ((data[0] & 4) != 0) {
    (void)cluster.service->renew({request}, text);
    (void)describe_certificate(text);
    return 0;
  }
  const auto granted =
      cluster.service->join({holds_token ? cluster.token : "dlj-" + name, name, request});
  if (!granted) {
    if (granted.error().context.empty()) std::abort();
    return 0;
  }
  if (!holds_token || !is_node_name(name)) std::abort();
  if (++cluster.granted == 1000) cluster.open_book();
  const auto info = describe_certificate(granted->certificate_pem);
  if (!info || info->common_name != name || info->is_ca) std::abort();
  return 0;
}
