// Fuzz entry of the decoders: any bytes as a file, read in small and in large pieces. What is
// decoded is bounded by the test alone.
#include <algorithm>

#include "io/source/byte_stream.h"
#include "tests/io/fuzz_table.h"

namespace {

using namespace dlrun;
using namespace dlrun::io;

class Bytes final : public File {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t size_bytes() const override { return bytes_.size(); }
  Result<std::size_t> read_at(std::uint64_t offset, std::span<char> out) override {
    if (offset >= bytes_.size()) return std::size_t{0};
    return bytes_.copy(out.data(), out.size(), static_cast<std::size_t>(offset));
  }
  Status verify() override { return {}; }

 private:
  std::string_view bytes_;
};

constexpr std::size_t kTextMax = 1 << 20;

struct Decoded {
  std::string text;
  bool failed = false;
};

Decoded decode(std::string_view bytes, std::size_t piece) {
  auto stream = ByteStream::open(std::make_unique<Bytes>(bytes));
  must(stream.has_value());
  Decoded out;
  std::vector<char> buffer(piece);
  while (out.text.size() < kTextMax) {
    const auto n = (*stream)->read(buffer);
    out.failed = !n;
    if (!n || *n == 0) break;
    out.text.append(buffer.data(), *n);
  }
  return out;
}

}  // namespace

/// How much comes before an error depends on how it is read; whether it ends in one does not.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const FuzzInput in = fuzz_input(data, size);
  const Decoded a = decode(in.bytes, 64 * 1024), b = decode(in.bytes, in.piece * 16 + 1);
  const std::size_t shared = std::min(a.text.size(), b.text.size());
  must(a.text.compare(0, shared, b.text, 0, shared) == 0);
  if (std::max(a.text.size(), b.text.size()) >= kTextMax) return 0;
  must(a.failed == b.failed);
  must(a.failed || a.text == b.text);
  return 0;
}
