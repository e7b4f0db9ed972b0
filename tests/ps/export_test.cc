#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "ps/client/npy.h"
#include "ps/core/optimizer.h"
#include "tests/ps/cluster_helper.h"

namespace dlrun::ps {
namespace {

class Export : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dlrun-export-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string folder;
};

/// An independent reader of the format (NEP 1), for what the tests write.
struct Npy {
  std::string header;
  std::string data;
};
Npy read_npy(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  const std::string bytes = all.str();
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t size = static_cast<unsigned char>(bytes.at(8)) |
                           static_cast<std::size_t>(static_cast<unsigned char>(bytes.at(9))) << 8;
  EXPECT_EQ((10 + size) % 64, 0u);
  return {bytes.substr(10, size), bytes.substr(10 + size)};
}
template <class T>
std::vector<T> values_of(const Npy& npy) {
  std::vector<T> out(npy.data.size() / sizeof(T));
  std::memcpy(out.data(), npy.data.data(), out.size() * sizeof(T));
  return out;
}

TEST_F(Export, ASparseTableComesAsKeysAndValues) {
  Cluster cluster("loop", 3, 1);
  const auto client = cluster.client();
  const Table table = client->open_table(sum_schema("t", 3), kLong).value();
  std::map<std::uint64_t, std::vector<float>> want;
  SplitMix64 rng(1);
  std::vector<std::uint64_t> keys = {0, ~0ull};
  for (int i = 0; i < 3000; ++i) keys.push_back(rng.next());
  std::vector<float> grads;
  for (const std::uint64_t key : keys) {
    for (int d = 0; d < 3; ++d) {
      grads.push_back(static_cast<float>(rng.below(1000)));
      want[key].push_back(grads.back());
    }
  }
  ASSERT_TRUE(client->push(table, keys, grads, kLong));
  ASSERT_TRUE(client->export_table(table, folder + "/model", kLong));
  const Npy key_file = read_npy(folder + "/model.keys.npy");
  const Npy value_file = read_npy(folder + "/model.values.npy");
  EXPECT_NE(key_file.header.find("'descr': '<u8'"), std::string::npos);
  EXPECT_NE(key_file.header.find("(3002,)"), std::string::npos);
  EXPECT_NE(value_file.header.find("(3002,3,)"), std::string::npos);
  const auto got_keys = values_of<std::uint64_t>(key_file);
  const auto got_values = values_of<float>(value_file);
  ASSERT_EQ(got_keys.size(), want.size());
  std::size_t i = 0;
  for (const auto& [key, row] : want) {  // ascending, as the file must be
    ASSERT_EQ(got_keys[i], key);
    ASSERT_EQ(std::vector<float>(got_values.begin() + 3 * i, got_values.begin() + 3 * i + 3), row);
    ++i;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos);
  }
}

TEST_F(Export, ADenseTableComesWholeWithRowsThatNobodyPushed) {
  Cluster cluster("loop", 2, 1);
  const auto client = cluster.client();
  TableSchema schema = sum_schema("dense", 2);
  schema.kind = KeyKind::kDense;
  schema.rows = 50;
  schema.initializer = Initializer::kUniform;
  schema.init_b = 1;
  const Table table = client->open_table(schema, kLong).value();
  ASSERT_TRUE(
      client->push(table, std::vector<std::uint64_t>{7}, std::vector<float>{10, 20}, kLong));
  ASSERT_TRUE(client->export_table(table, folder + "/w", kLong));
  const Npy file = read_npy(folder + "/w.npy");
  EXPECT_NE(file.header.find("(50,2,)"), std::string::npos);
  std::vector<float> pulled(100);
  ASSERT_TRUE(client->pull_dense(table, pulled, kLong));
  EXPECT_EQ(values_of<float>(file), pulled);
  EXPECT_GE(pulled[14], 10);
}

TEST_F(Export, AnEmptyTableIsAnEmptyArray) {
  Cluster cluster("loop", 2, 1);
  const auto client = cluster.client();
  const Table table = client->open_table(sum_schema("t", 3), kLong).value();
  ASSERT_TRUE(client->export_table(table, folder + "/e", kLong));
  EXPECT_NE(read_npy(folder + "/e.values.npy").header.find("(0,3,)"), std::string::npos);
}

TEST_F(Export, AFolderThatIsNotThereIsNamed) {
  const Status status = write_npy(folder + "/none/x.npy", "<f4", {0}, {});
  EXPECT_EQ(status.error().code, Errc::kNotFound);
  EXPECT_NE(status.error().context.find("/none/x.npy"), std::string::npos);
}

TEST_F(Export, NumpyReadsIt) {
  const char* given = std::getenv("DLRUN_PYTHON");
  std::string python = given != nullptr ? given : "";
  for (const char* candidate : {"python3", "/usr/bin/python3"})
    if (python.empty() &&
        std::system((std::string(candidate) + " -c 'import numpy' >/dev/null 2>&1").c_str()) == 0)
      python = candidate;
  if (python.empty()) GTEST_SKIP() << "no python3 with numpy here, and DLRUN_PYTHON is not set";
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(write_npy(folder + "/a.npy", "<f4", {3, 2}, std::as_bytes(std::span(values))));
  const std::string check =
      python + " -c \"import numpy as n; a=n.load('" + folder +
      "/a.npy'); assert a.shape==(3,2) and a.dtype==n.float32 and a[2,1]==6\"";
  EXPECT_EQ(std::system(check.c_str()), 0);
}

TEST_F(Export, ScanStopsWhenToldAndGoesThroughPages) {
  Cluster cluster("loop", 2, 1);
  ClientOptions options = cluster.options();
  options.segment_bytes_max = 1200;  // 100 rows
  const auto client = Client::connect(cluster.view, options).value();
  const Table table = client->open_table(sum_schema("t", 1), kLong).value();
  std::vector<std::uint64_t> keys(1000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  ASSERT_TRUE(client->push(table, keys, std::vector<float>(1000, 1.0f), kLong));
  std::size_t rows = 0, pages = 0;
  ASSERT_TRUE(client->scan(
      table,
      [&](auto page_keys, auto) {
        rows += page_keys.size();
        ++pages;
        return true;
      },
      kLong));
  EXPECT_EQ(rows, 1000u);
  EXPECT_GE(pages, 10u);
  EXPECT_EQ(client
                ->scan(
                    table, [](auto, auto) { return false; }, kLong)
                .error()
                .code,
            Errc::kCancelled);
}

}  // namespace
}  // namespace dlrun::ps
