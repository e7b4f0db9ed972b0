// What an operator does about who belongs to the cluster, and how a person's machine learns of one.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/commands.h"
#include "launcher/process.h"
#include "launcher/rest_client.h"
#include "launcher/terminal.h"
#include "runtime/jobspec/json.h"

namespace dlrun::launcher {
namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string("-");
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.pop_back();
  return text;
}

}  // namespace

Result<std::string> Commands::send(const std::string& target, const std::string& body) const {
  RestClient client([home = world_.home] {
    auto info = read_cluster_info(home);
    if (!info && info.error().code == Errc::kNotFound)
      return Result<ClusterInfo>(
          fail(Errc::kNotFound, "no cluster: " + home +
                                    "/cluster.json does not exist (dlrun connect makes it; on the "
                                    "coordinator's machine DLRUN_HOME may name its data folder)"));
    return info;
  });
  RestClient::Call call{.target = target};
  if (!body.empty()) call.method = "POST", call.body = body;
  return client.call(call);
}

int Commands::join_token(std::int64_t minutes) {
  const auto body = send("/api/v1/join-tokens", json{{"minutes", minutes}}.dump());
  if (!body) return fail_with(body.error());
  if (common_.json) return print_json(*body), kOk;
  const json answer = json::parse(*body);
  world_.out(fmt::format(
      "{}\n", harmless(text_of(answer, "token"))));  // alone on stdout: dlrun join-token > FILE
  world_.err(fmt::format(
      "good until {}; on the next machine, with it in a file that only its owner reads:\n  {}\n",
      harmless(text_of(answer, "expires")), harmless(text_of(answer, "join_line"))));
  return kOk;
}

int Commands::certificates() {
  return ask("/api/v1/certificates", [](const std::string& body) {
    std::vector<std::vector<std::string>> rows{{"NODE", "SERIAL", "ISSUED", "EXPIRES", "STATE"}};
    const json list = json::parse(body).at("certificates");
    for (const json& c : list) {
      const std::string state = c.at("revoked").is_string() ? "revoked " + text_of(c, "revoked")
                                : c.value("seen", false)    ? "in use"
                                                            : "not used yet";
      rows.push_back({text_of(c, "node"), text_of(c, "serial"), text_of(c, "issued"),
                      text_of(c, "expires"), state});
    }
    return table(rows);
  });
}

int Commands::revoke(const std::string& node) {
  const auto body = send("/api/v1/nodes/" + url_encode(node) + "/revoke", "{}");
  if (!body) return fail_with(body.error());
  if (common_.json) return print_json(*body), kOk;
  world_.out(fmt::format(
      "{} is out: {} certificate{} revoked, its tasks are lost, every join token has ended\n",
      harmless(node), json::parse(*body).at("revoked").size(),
      json::parse(*body).at("revoked").size() == 1 ? "" : "s"));
  return kOk;
}

int Commands::connect(const ConnectFlags& flags) {
  const std::string path = world_.home + "/cluster.json";
  if (read_file(path)) {
    return fail_with(
        {Errc::kAlreadyExists,
         path + " names a cluster already; remove it, or set DLRUN_HOME to another folder"});
  }
  ClusterInfo info{.rest = flags.url, .token = "", .ca_file = flags.ca_file};
  while (info.rest.ends_with('/')) info.rest.pop_back();
  if (!info.rest.starts_with("http://") && !info.rest.starts_with("https://"))
    return fail_with({Errc::kInvalidArgument, "the address must be like https://HOST:PORT"});
  auto token = read_file(flags.token_file);
  if (!token) return fail_with(token.error());
  info.token = trimmed(std::move(*token));
  Result<std::string> ca = std::string();
  if (!flags.ca_file.empty() && !(ca = read_file(flags.ca_file))) return fail_with(ca.error());
  RestClient client([&] { return Result<ClusterInfo>(info); });
  const auto health = client.call({.target = "/api/v1/health", .retry_for = {}});
  if (!health) return fail_with(health.error());

  json file{{"rest", info.rest}, {"token_file", "token"}};
  Status written = make_folders(world_.home);
  if (written) written = write_file(world_.home + "/token", info.token + "\n");
  if (written && !ca->empty()) {
    file["ca_file"] = "ca.pem";
    written = write_file(world_.home + "/ca.pem", *ca);
  }
  if (written) written = write_file(path, file.dump(1) + "\n");
  if (!written) return fail_with(written.error());
  if (common_.json) return print_json(*health), kOk;
  world_.out(fmt::format("connected to {}: {} nodes are up\n", info.rest,
                         json::parse(*health).value("nodes_up", 0)));
  return kOk;
}

}  // namespace dlrun::launcher
