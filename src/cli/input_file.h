// Files of others are read up to a limit of their kind, whatever they are: a pipe or /dev/zero has no size of its own.
//
//   const auto text = read_input("run.toml", kConfigurationFile);
//   if (!text) return refuse(invocation, {text.error()}, "nothing weighed");
//                      cannot read run.toml: permission denied
//                      run.toml is larger than 4 MiB: no configuration
//
//   InputLines lines("jobs.jsonl");                a line at a time: a file of any length, with lines of a bounded one
//   while (lines.next()) read_json(lines.line(), ...);
//   if (lines.problem()) ...
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "document/diagnostic.h"
#include "world/world.h"

namespace steelyard {

struct InputKind {
  std::string_view name;  // "configuration"
  std::size_t most = 0;   // bytes
};
// Run files, launch files and scripts, config.json.
inline constexpr InputKind kConfigurationFile = {"configuration", std::size_t{4} << 20};
inline constexpr InputKind kPolicyFile = {"policy", std::size_t{1} << 20};
inline constexpr InputKind kRatesFile = {"file of rates", std::size_t{1} << 20};
inline constexpr InputKind kRecordFile = {"record of a run", std::size_t{8} << 20};
// Each tensor of a checkpoint is a line of it.
inline constexpr InputKind kShardIndexFile = {"index of shards", std::size_t{64} << 20};

// "-" is stdin. E100: it cannot be read; E103: it is larger than its kind.
tl::expected<std::string, Diagnostic> read_input(const std::string& path, const InputKind& kind);

class InputLines {
 public:
  // Of a line, as of a configuration: 4 MiB.
  explicit InputLines(const std::string& path);
  InputLines(const InputLines&) = delete;
  InputLines& operator=(const InputLines&) = delete;
  ~InputLines();

  // Moves to the next line that is not blank; false at the end, or where there is a problem.
  bool next();
  std::string_view line() const { return line_; }
  int number() const { return number_; }
  const std::optional<Diagnostic>& problem() const { return problem_; }

 private:
  bool fill();

  std::string path_;
  std::unique_ptr<InputSource> source_;
  std::string buffer_;
  std::size_t at_ = 0;
  bool ended_ = false;
  std::string line_;
  int number_ = 0;
  std::optional<Diagnostic> problem_;
};

}  // namespace steelyard
