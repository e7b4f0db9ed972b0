/// Models trained through pipe and tables on real data, against what scikit-learn finds on the same
/// features. Data: $DLRUN_DATA_DIR (agaricus, ctr, higgs); Python with scikit-learn: $DLRUN_PYTHON.
/// Skipped without.

#include <iostream>

#include "tests/client/python_worker.h"

namespace dlrun::test {
namespace {

class Learning : public PythonWorker {
 protected:
  void SetUp() override {
    if (std::getenv("DLRUN_DATA_DIR") == nullptr) GTEST_SKIP() << "DLRUN_DATA_DIR names no data";
    data_ = std::getenv("DLRUN_DATA_DIR");
    PythonWorker::SetUp();
  }
  static io::InputSpec input(std::string name, std::string path, io::Format format,
                             std::uint32_t passes) {
    io::InputSpec spec;
    spec.name = std::move(name);
    spec.uris = {std::move(path)};
    spec.format = format;
    spec.delimiter = '\t';
    spec.batch_rows = 500;
    spec.passes = passes;
    spec.split_bytes = 16 << 10;
    return spec;
  }

  std::string data_;
};

TEST_F(Learning, LogisticRegressionOnAgaricusReachesAnAucOf0999) {
  const auto local =
      cluster(2, 2,
              {input("train", data_ + "/agaricus/train.libsvm", io::Format::kLibsvm, 3),
               input("test", data_ + "/agaricus/test.libsvm", io::Format::kLibsvm, 1)});
  ASSERT_TRUE(local);
  std::cout << run(*local, 2, {script("lr_agaricus.py")});
}

TEST_F(Learning, LogisticRegressionOnClicksReachesTheOptimumOfScikitLearn) {
  const std::string path = data_ + "/ctr/train-00000.libffm";
  const auto local = cluster(2, 2, {input("train", path, io::Format::kLibffm, 120)});
  ASSERT_TRUE(local);
  std::cout << run(*local, 2, {script("lr_optimum.py"), folder_, path, "libffm"});
}

TEST_F(Learning, LogisticRegressionOnHiggsReachesTheOptimumOfScikitLearn) {
  const std::string path = data_ + "/higgs/binary.train.tsv";
  const auto local = cluster(2, 2, {input("train", path, io::Format::kCsv, 201)});
  ASSERT_TRUE(local);
  std::cout << run(*local, 2, {script("lr_optimum.py"), folder_, path, "tsv"});
}

}  // namespace
}  // namespace dlrun::test
