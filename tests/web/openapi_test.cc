// web/openapi.json against what the server really answers, both ways: every answer is declared and
// fits its schema, and every declared answer is seen.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/web/server_fixture.h"
#include "web/handlers.h"

namespace dlrun::test {
namespace {
using namespace std::chrono_literals;
using nlohmann::json;

/// The part of JSON Schema 2020-12 that the document uses. Appends what does not fit.
class SchemaChecker {
 public:
  explicit SchemaChecker(const json& document) : document_(document) {}
  void check(const json& schema, const json& value, const std::string& where,
             std::vector<std::string>& errors) const {
    if (schema.contains("$ref"))
      return check(document_.at(json::json_pointer(schema["$ref"].get<std::string>().substr(1))),
                   value, where, errors);
    if (schema.contains("anyOf")) {
      for (const auto& option : schema["anyOf"]) {
        std::vector<std::string> inner;
        check(option, value, where, inner);
        if (inner.empty()) return;
      }
      return errors.push_back(where + ": fits none of anyOf: " + value.dump());
    }
    if (schema.contains("type")) {
      const json types = schema["type"].is_array() ? schema["type"] : json::array({schema["type"]});
      if (std::none_of(types.begin(), types.end(),
                       [&](const json& type) { return has_type(value, type.get<std::string>()); }))
        return errors.push_back(where + ": " + value.dump() + " is not " + types.dump());
    }
    if (schema.contains("enum") &&
        std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
      errors.push_back(where + ": " + value.dump() + " is not in the enum");
    if (value.is_object()) {
      for (const auto& name : schema.value("required", json::array()))
        if (!value.contains(name.get<std::string>()))
          errors.push_back(where + ": " + name.get<std::string>() + " is missing");
      for (const auto& [name, member] : value.items()) {
        if (schema.contains("properties") && schema["properties"].contains(name))
          check(schema["properties"][name], member, where + "/" + name, errors);
        else if (schema.contains("additionalProperties") &&
                 schema["additionalProperties"].is_object())
          check(schema["additionalProperties"], member, where + "/" + name, errors);
        else if (schema.contains("additionalProperties"))
          errors.push_back(where + ": undeclared member " + name);
      }
    }
    if (value.is_array() && schema.contains("items"))
      for (const auto& item : value) check(schema["items"], item, where + "[]", errors);
  }

 private:
  static bool has_type(const json& value, const std::string& type) {
    if (type == "string") return value.is_string();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    if (type == "boolean") return value.is_boolean();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    return type == "null" && value.is_null();
  }
  const json& document_;
};

class OpenApi : public ServerFixture {
 protected:
  void SetUp() override {
    serve();
    control.set_nodes({{.id = NodeId{"node-1"},
                        .incarnation = Incarnation{5},
                        .address = "10.0.0.1",
                        .version = "1",
                        .capacity = {.node = NodeId{"node-1"},
                                     .cpu_milli = 2500,
                                     .memory_bytes = 1 << 30,
                                     .gpu_uuids = {"GPU-1"},
                                     .ports = {20000, 100},
                                     .labels = {{"a", "b"}}},
                        .last_heard = WallTime{1}}});
    control.add(running_job(2));
    auto over = running_job();
    over.spec.inputs.push_back({.name = "train", .uris = {"x\xFF"}});
    over.spec.roles[0].env = {{"A", "\xFF"}};
    for (auto format = io::Format::kLibsvm; format <= io::Format::kTokens;
         format = static_cast<io::Format>(static_cast<int>(format) + 1))
      over.spec.inputs.push_back({.name = "of" + std::to_string(static_cast<int>(format)),
                                  .uris = {"x"},
                                  .format = format,
                                  .on_bad_record = io::OnBadRecord::kQuarantine,
                                  .quarantine = "/q"});
    over.spec.inputs.push_back({.name = "typed",
                                .uris = {"x"},
                                .format = io::Format::kTable,
                                .columns = {{.name = "price"}},
                                .missing = {"NA"}});
    end_job(over, 3);
    control.add(over);
    control.event(JobId{1}, "job_started", "started");
    logs.append({{.job = JobId{1}, .role = "worker", .rank = 0, .generation = Generation{1}},
                 web::LogStream::kStdout},
                "hello");
    const auto reply = ask(get("/openapi.json"));
    ASSERT_EQ(reply.status, 200);
    document = json::parse(reply.body, nullptr, false);
    ASSERT_FALSE(document.is_discarded());
  }

  /// Sends, then checks the answer against the operation and marks it as seen.
  void exercise(const std::string& method, const std::string& path, const std::string& request) {
    HttpClient client(port);
    client.send(request);
    HttpReply reply = client.receive_head();
    const std::string key = method + " " + path + " " + std::to_string(reply.status);
    SCOPED_TRACE(key + "\n" + request.substr(0, 200));
    seen.insert(key);
    std::string lower = method;
    std::transform(lower.begin(), lower.end(), lower.begin(), ::tolower);
    ASSERT_TRUE(document["paths"].contains(path) && document["paths"][path].contains(lower));
    const json& responses = document["paths"][path][lower]["responses"];
    ASSERT_TRUE(responses.contains(std::to_string(reply.status)))
        << "an answer that is not declared";
    const std::string type =
        reply.headers["content-type"].substr(0, reply.headers["content-type"].find(';'));
    const json& content = responses[std::to_string(reply.status)]["content"];
    ASSERT_TRUE(content.contains(type)) << type;
    if (!type.ends_with("json") || reply.headers["content-length"].empty()) return;
    HttpReply whole = fetch(port, request);
    // the second of a pair (submit, kill): its body is checked where it comes first
    if (whole.status != reply.status) return;
    std::vector<std::string> errors;
    SchemaChecker(document).check(content[type]["schema"], json::parse(whole.body), "", errors);
    EXPECT_TRUE(errors.empty()) << testing::PrintToString(errors) << whole.body;
  }

  json document;
  std::set<std::string> seen;
};

TEST_F(OpenApi, ListsExactlyTheEndpointsOfTheServer) {
  EXPECT_EQ(document["openapi"], "3.1.0");
  std::set<std::string> declared;
  for (const auto& [path, operations] : document["paths"].items())
    for (const auto& [method, operation] : operations.items()) {
      std::string upper = method;
      std::transform(upper.begin(), upper.end(), upper.begin(), ::toupper);
      declared.insert(upper + " " + path);
    }
  const auto served = web::Handlers::endpoints();
  EXPECT_EQ(declared, std::set<std::string>(served.begin(), served.end()));
}

TEST_F(OpenApi, DeclaresEveryAnswerAndEveryDeclaredAnswerIsGiven) {
  const std::string job = R"({"role":{"main":{"argv":["true"]}}})";
  for (const auto& [path, operations] : document["paths"].items())
    for (const auto& [method, operation] : operations.items()) {
      const bool is_post = method == "post";
      const std::string upper = is_post ? "POST" : "GET";
      const auto to = [&](std::string id) {
        std::string out = path;
        const auto put = [&](const std::string& name, const std::string& value) {
          if (const auto at = out.find(name); at != std::string::npos)
            out.replace(at, name.size(), value);
        };
        put("{id}", id), put("{role}", "worker"), put("{rank}", "0"), put("{stream}", "stdout");
        return out;
      };
      const std::string body = path == "/api/v1/jobs" ? job : "{}";
      const auto good = [&](std::string id, std::string headers = "") {
        return is_post ? post(to(id), body, headers) : get(to(id), headers);
      };
      const json& responses = operation["responses"];
      // What every operation answers.
      exercise(upper, path, good("j1"));
      exercise(upper, path, good("j1", "Origin: http://evil.example\r\n"));
      const std::string plain =
          upper + " " + to("j1") + " HTTP/1.1\r\n" + (is_post ? "Content-Length: 0\r\n" : "");
      exercise(upper, path, plain + "Host: localhost\r\n\r\n");
      exercise(upper, path, plain + "Host: evil.example\r\n\r\n");
      exercise(upper, path,
               is_post ? post(to("j1") + "?bogus=1", body) : get(to("j1") + "?bogus=1"));
      // What follows from the kind of operation.
      if (path.find("{id}") != std::string::npos)
        exercise(upper, path, good("j99")), exercise(upper, path, good("banana"));
      if (is_post)
        exercise(upper, path, good("j1", "Content-Type: text/html\r\n")),
            exercise(upper, path, post(to("j1"), std::string(5 << 20, ' ')));
      if (responses.contains("503")) {
        for (const Errc code : {Errc::kUnavailable, Errc::kDeadlineExceeded}) {
          control.intercept(
              [code](const auto&) { return Result<cluster::ApiReply>(fail(code, "x")); });
          exercise(upper, path, good("j1"));
          control.intercept(nullptr);
        }
      }
    }
  // What is particular.
  exercise("POST", "/api/v1/jobs", post("/api/v1/jobs", job, "Idempotency-Key: k\r\n"));
  exercise("POST", "/api/v1/jobs", post("/api/v1/jobs", job, "Idempotency-Key: k\r\n"));
  for (const Errc code : {Errc::kAlreadyExists, Errc::kResourceExhausted}) {
    control.intercept([code](const auto&) { return Result<cluster::ApiReply>(fail(code, "x")); });
    exercise("POST", "/api/v1/jobs", post("/api/v1/jobs", job));
    control.intercept(nullptr);
  }
  for (const std::string order : {"kill", "hold", "release", "requeue"})
    exercise("POST", "/api/v1/jobs/{id}/" + order, post("/api/v1/jobs/j2/" + order, ""));
  const std::string log = "/api/v1/jobs/j1/logs/worker/0/stdout";
  exercise("GET", "/api/v1/jobs/{id}/logs/{role}/{rank}/{stream}",
           get(log, "Range: bytes=1-2\r\n"));
  exercise("GET", "/api/v1/jobs/{id}/logs/{role}/{rank}/{stream}",
           get(log, "Range: bytes=99-\r\n"));
  exercise("GET", "/api/v1/jobs/{id}/logs/{role}/{rank}/{stream}", get(log + "?follow=1"));
  exercise("GET", "/api/v1/jobs/{id}", get("/api/v1/jobs/j1?follow=1"));
  exercise("GET", "/api/v1/jobs/{id}", get("/api/v1/jobs/j2"));
  exercise("GET", "/api/v1/events", get("/api/v1/events?follow=1"));
  exercise("POST", "/api/v1/join-tokens", post("/api/v1/join-tokens", "{\"minutes\": 7}"));
  for (const char* wrong : {"{\"minutes\": 0}", "{\"minutes\": \"7\"}", "{\"hours\": 1}", "[1]"})
    exercise("POST", "/api/v1/join-tokens", post("/api/v1/join-tokens", wrong));

  for (const auto& [path, operations] : document["paths"].items())
    for (const auto& [method, operation] : operations.items())
      for (const auto& [status, response] : operation["responses"].items())
        EXPECT_TRUE(seen.contains((method == "post" ? "POST " : "GET ") + path + " " + status))
            << "declared, never given: " << method << " " << path << " " << status;
}

}  // namespace
}  // namespace dlrun::test
