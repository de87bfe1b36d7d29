#include "formats/launch/launcher_devices.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "formats/launch/shell.h"

namespace steelyard {

void say_devices(Launch& launch, const Value* nodes, const Value* each, std::string_view launcher) {
  LaunchDocument said{"launcher", Value::table()};
  if (nodes != nullptr) said.theirs.members().push_back({"nodes", nodes->mark(), *nodes});
  if (each != nullptr) said.theirs.members().push_back({"each", each->mark(), *each});
  launch.into.documents.push_back(std::move(said));
  const Value none = Value::table();
  ConfigReader reading(none, launcher, launch.into);
  std::int64_t machines = 1;
  if (nodes != nullptr) {
    std::string word = word_of(*nodes);
    if (const std::size_t range = word.find(':'); range != std::string::npos && !has_hole(word))
      word = word.substr(range + 1);  // MIN:MAX
    if (has_hole(word)) return reading.lacks("cluster.devices", reason_of_hole(word, launch.into));
    const Value typed = typed_value(word);
    if (!typed.is_integer())
      return reading.lacks("cluster.devices", "the number of nodes is a variable that nobody sets");
    machines = typed.as_integer();
  }
  const auto per_node = each == nullptr ? std::optional<std::int64_t>(1) : count_of(*each);
  if (!per_node && has_hole(word_of(*each)))
    return reading.lacks("cluster.devices", reason_of_hole(word_of(*each), launch.into));
  if (!per_node)
    return reading.lacks("cluster.devices", "the launcher counts the devices when it starts");
  if (*per_node < 1 || machines < 1 || *per_node > 100'000 || machines > 10'000'000) return;
  if (each == nullptr && nodes == nullptr)
    return reading.take_default("cluster.devices", Value::integer(1),
                                fmt::format("{} starts one process unless told", launcher));
  const Value& at = each != nullptr ? *each : *nodes;
  reading.say("cluster.devices", Value::integer(machines * *per_node), at);
  reading.say("cluster.devices_per_node", Value::integer(*per_node), at);
}

void count_processes(std::span<const Value> starter, Launch& launch) {
  if (starter.empty()) return;
  const std::string& path = starter.front().as_string();
  const std::string name =
      path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  const bool slurm = name == "srun";
  if ((!slurm && name != "mpirun" && name != "mpiexec" && name != "orterun") ||
      launch.into.run.at("cluster.devices") != nullptr)
    return;
  const Value* all = nullptr;
  const Value* nodes = nullptr;
  const Value* each = nullptr;
  std::vector<Value> parts;  // of --ntasks=16
  parts.reserve(starter.size());
  for (std::size_t i = 1; i < starter.size(); ++i) {
    const std::string& word = starter[i].as_string();
    const std::size_t equals = word.find('=');
    const std::string option = word.substr(0, equals);
    const Value** which = nullptr;
    if (option == "-n" || option == (slurm ? "--ntasks" : "-np") || (!slurm && option == "--np"))
      which = &all;
    else if (slurm && (option == "-N" || option == "--nodes"))
      which = &nodes;
    else if (slurm && option == "--ntasks-per-node")
      which = &each;
    if (which == nullptr) continue;
    if (equals != std::string::npos) {
      Value value = Value::string(word.substr(equals + 1));
      value.set_mark(starter[i].mark());
      *which = &parts.emplace_back(std::move(value));
    } else if (i + 1 < starter.size()) {
      *which = &starter[++i];
    }
  }
  const auto processes = all == nullptr ? std::nullopt : count_of(*all);
  constexpr std::int64_t kMostProcesses = 10'000'000;
  if (processes && *processes > 0 && *processes < kMostProcesses) {
    const Value none = Value::table();
    ConfigReader reading(none, name, launch.into);
    reading.say("cluster.devices", Value::integer(*processes), *all);
    // How many of them a machine has, only the number of machines says.
    const std::int64_t machines = nodes == nullptr ? 0 : count_of(*nodes).value_or(0);
    if (machines > 0 && *processes % machines == 0)
      reading.say("cluster.devices_per_node", Value::integer(*processes / machines), *nodes);
  } else if (all == nullptr && each != nullptr && nodes != nullptr) {
    say_devices(launch, nodes, each, name);
  }
}

}  // namespace steelyard
