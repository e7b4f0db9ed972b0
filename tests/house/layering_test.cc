#include "tests/house/layering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace dlrun::house {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Layering, EveryIncludePointsDown) {
  const char* root = std::getenv("DLRUN_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "run by ctest, or with DLRUN_SOURCE_DIR set";
  const Sources sources = read_sources(root);
  ASSERT_GT(sources.size(), 30u);
  ASSERT_TRUE(sources.contains("scheduler/core/scheduler_core.cc"));
  EXPECT_THAT(layering_breaches(sources), IsEmpty());
}

// Each rule, broken on purpose: a check that cannot fail is none.
TEST(Layering, ACoreThatIncludesACodecIsFound) {
  EXPECT_THAT(
      layering_breaches({{"ps/core/a.cc", "\n#include \"runtime/wire/control.h\"\n"}}),
      ElementsAre(HasSubstr("ps/core/a.cc:2 includes runtime/wire/control.h: a core includes")));
}
TEST(Layering, ACoreThatReachesTheOperatingSystemIsFound) {
  EXPECT_THAT(layering_breaches({{"io/core/a.cc", "\n#include \"runtime/os/files.h\"\n"}}),
              ElementsAre(HasSubstr("a core includes")));
}
TEST(Layering, MemoryOfTheSystemIsTakenInOnePlaceOfTheCores) {
  const std::string text = "#include <sys/mman.h>";
  EXPECT_THAT(layering_breaches({{"ps/core/pages.cc", text}}), IsEmpty());
  EXPECT_THAT(layering_breaches({{"ps/core/table.cc", text}}),
              ElementsAre(HasSubstr("reaches no other")));
}
TEST(Layering, ACoreWithAThreadIsFound) {
  EXPECT_THAT(layering_breaches({{"io/core/a.h", "#include <thread>"}}),
              ElementsAre(HasSubstr("reaches no other")));
}
TEST(Layering, ACoreThatReadsAClockIsFound) {
  EXPECT_THAT(layering_breaches({{"io/core/a.cc", "auto t = std::chrono::steady_clock::now();"}}),
              ElementsAre(HasSubstr("reads a clock")));
}
TEST(Layering, DomainsThatMeetOutsideMessagesAreFound) {
  EXPECT_THAT(layering_breaches({{"ps/shard/a.cc", "#include \"io/source/b.h\""}}),
              ElementsAre(HasSubstr("meet only")));
}
TEST(Layering, AnIncludeUpwardsIsFound) {
  EXPECT_THAT(layering_breaches({{"runtime/transport/a.cc", "#include \"ps/client/b.h\""}}),
              ElementsAre(HasSubstr("does not lie above")));
}
TEST(Layering, CafOutsideActorsIsFound) {
  EXPECT_THAT(layering_breaches({{"web/a.cc", "#include <caf/all.hpp>"}}),
              ElementsAre(HasSubstr("CAF belongs")));
}
TEST(Layering, ReadingTheEnvironmentBelowARootIsFound) {
  EXPECT_THAT(layering_breaches({{"web/a.cc", "  std::getenv(\"X\");"}}),
              ElementsAre(HasSubstr("composition roots")));
}
TEST(Layering, AFolderWithoutALayerIsFound) {
  EXPECT_THAT(layering_breaches({{"runtime/misc/a.cc", ""}}),
              ElementsAre(HasSubstr("has no layer")));
}

TEST(Layering, WhatIsAllowedPasses) {
  EXPECT_THAT(
      layering_breaches({
          {"ps/core/a.cc",
           "#include \"runtime/base/ids.h\"\n#include \"io/core/msg.h\"\n#include <vector>"},
          {"ps/shard/b.cc",
           "#include <caf/actor.hpp>\n#include \"ps/core/a.h\"\n#include \"io/core/msg.h\""},
          {"runtime/node/agent_main.cc",
           "getenv(\"HOME\");\n#include \"runtime/cluster/actor/agent.h\""},
          {"web/c.cc", "// getenv() is not for us\n#include \"runtime/cluster/core/api.h\""},
      }),
      IsEmpty());
}

}  // namespace
}  // namespace dlrun::house
