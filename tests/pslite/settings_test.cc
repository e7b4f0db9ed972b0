#include "ps/pslite/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace dlrun::pslite {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

struct PsliteSettings : testing::Test {
  std::map<std::string, std::string> env = {{"DMLC_ROLE", "server"},
                                            {"DMLC_NUM_WORKER", "3"},
                                            {"DMLC_NUM_SERVER", "2"},
                                            {"DMLC_PS_ROOT_URI", "127.0.0.1"},
                                            {"DMLC_PS_ROOT_PORT", "8000"}};
  Lookup lookup = [this](const char* name) -> const char* {
    const auto at = env.find(name);
    return at == env.end() ? nullptr : at->second.c_str();
  };
  std::string error() {
    const auto settings = read_settings(lookup, {});
    if (!settings) return settings.error().context;
    MemberOptions member = settings->member;
    const Status status = find_places(lookup, member);
    return status ? "" : status.error().context;
  }
};

TEST_F(PsliteSettings, WhatPeopleSetByHandIsEnough) {
  auto settings = read_settings(lookup, {});
  ASSERT_TRUE(settings) << settings.error().to_string();
  EXPECT_EQ(settings->member.role, Role::kServer);
  EXPECT_EQ(settings->member.workers, 3u);
  EXPECT_EQ(settings->member.servers, 2u);
  EXPECT_EQ(settings->member.rank, kNobody);
  EXPECT_EQ(settings->member.post.link.lost_after, seconds(20));
  ASSERT_TRUE(find_places(lookup, settings->member));
  EXPECT_EQ(settings->member.root, "tcp://127.0.0.1:8000");
  EXPECT_EQ(settings->member.bind.front().front(), "tcp://127.0.0.1:*")
      << "the address on the way to the scheduler";
}

TEST_F(PsliteSettings, APortThatIsTakenIsNotInsistedOn) {
  env["PORT"] = "8001";
  env["DMLC_NODE_HOST"] = "::1";
  env["DMLC_SERVER_ID"] = "1";
  auto settings = read_settings(lookup, {});
  ASSERT_TRUE(settings && find_places(lookup, settings->member));
  EXPECT_EQ(settings->member.rank, 1);
  EXPECT_EQ(settings->member.bind[0][0], "tcp://[::1]:8001");
  EXPECT_EQ(settings->member.bind[1][0], "tcp://[::1]:*");
}

TEST_F(PsliteSettings, WhatIsWrongIsNamed) {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"DMLC_ROLE", "boss", "DMLC_ROLE='boss' is none of worker, server, scheduler"},
      {"DMLC_ROLE", "", "DMLC_ROLE is not set"},
      {"DMLC_NUM_WORKER", "", "DMLC_NUM_WORKER is not set"},
      {"DMLC_NUM_SERVER", "-1", "DMLC_NUM_SERVER='-1'"},
      {"DMLC_PS_ROOT_URI", "", "DMLC_PS_ROOT_URI is not set"},
      {"DMLC_PS_ROOT_PORT", "70000", "DMLC_PS_ROOT_PORT='70000' is not a number from 1 to 65535"},
      {"DMLC_INTERFACE", "nosuch0", "DMLC_INTERFACE='nosuch0'"},
      {"PS_HEARTBEAT_TIMEOUT", "soon", "PS_HEARTBEAT_TIMEOUT='soon'"},
      {"DLRUN_PSLITE_QUEUE_BYTES", "0", "DLRUN_PSLITE_QUEUE_BYTES='0'"}};
  const auto good = env;
  for (const auto& [name, value, wanted] : cases) {
    env = good;
    env[name] = value;
    EXPECT_THAT(error(), HasSubstr(wanted)) << name;
  }
}

TEST_F(PsliteSettings, AHeartbeatTimeoutMakesTheIntervalFit) {
  env["PS_HEARTBEAT_TIMEOUT"] = "2";
  env["PS_HEARTBEAT_INTERVAL"] = "5";
  const auto settings = read_settings(lookup, {});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->member.post.link.lost_after, seconds(2));
  EXPECT_EQ(settings->member.post.link.keepalive, std::chrono::milliseconds(500));
}

TEST_F(PsliteSettings, ARoleOfTheCallGoesBeforeTheVariable) {
  const auto settings = read_settings(lookup, {Role::kWorker, 2});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->member.role, Role::kWorker);
  EXPECT_EQ(settings->member.rank, 2);
}

}  // namespace
}  // namespace dlrun::pslite
