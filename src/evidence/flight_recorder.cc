#include "evidence/flight_recorder.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "document/read.h"
#include "evidence/pickle.h"
#include "evidence/printed.h"
#include "evidence/snapshot_reader.h"

namespace steelyard {
namespace {

// The same questions to a pickle and to a document.
struct PickleDump {
  using Node = PickleValue;
  static std::optional<Node> find(const Node& node, std::string_view key) { return node.find(key); }
  static std::string text(const Node& node) { return std::string(node.as_string().value_or("")); }
  static std::optional<std::int64_t> integer(const Node& node) { return node.as_integer(); }
  static bool is_list(const Node& node) { return node.is_list(); }
  static std::size_t size(const Node& node) { return node.size(); }
  static Node item(const Node& node, std::size_t i) {
    return node.is_dict() ? node.value(i) : node.item(i);
  }
  static std::string key(const Node& node, std::size_t i) { return text(node.key(i)); }
};

struct JsonDump {
  using Node = const Value*;
  static std::optional<Node> find(Node node, std::string_view key) {
    const Value* found = node->find(key);
    return found == nullptr ? std::nullopt : std::optional<Node>(found);
  }
  static std::string text(Node node) {
    return node->is_string() ? node->as_string() : std::string();
  }
  static std::optional<std::int64_t> integer(Node node) {
    return node->is_integer() ? std::optional(node->as_integer()) : std::nullopt;
  }
  static bool is_list(Node node) { return node->is_array(); }
  static std::size_t size(Node node) {
    return node->is_array() ? node->items().size() : node->is_table() ? node->members().size() : 0;
  }
  static Node item(Node node, std::size_t i) {
    return node->is_array() ? &node->items()[i] : &node->members()[i].value;
  }
  static std::string key(Node node, std::size_t i) { return node->members()[i].key; }
};

constexpr std::size_t kMostEntries = 200'000;
constexpr std::size_t kMostRanks = 1'000'000;

// "[0, 1, 2]"
std::vector<std::int64_t> ranks_of(std::string_view text) {
  std::vector<std::int64_t> ranks;
  while (!text.empty() && ranks.size() < kMostRanks) {
    while (!text.empty() && !is_printed_digit(text.front())) text.remove_prefix(1);
    const auto rank = take_printed_integer(text);
    if (!rank) break;
    ranks.push_back(*rank);
  }
  return ranks;
}

template <class Dump>
class FlightReader {
 public:
  using Node = typename Dump::Node;
  FlightReader(Evidence& evidence, std::string_view file) : evidence_(evidence), file_(file) {}

  bool read(const Node& root) {
    const auto version = Dump::find(root, "version");
    const auto groups = Dump::find(root, "pg_config");
    const auto entries = Dump::find(root, "entries");
    if (!version && !groups && !entries) return false;
    if (version) evidence_.era = Dump::text(*version);
    if (groups) read_groups(*groups);
    if (entries && Dump::is_list(*entries)) read_entries(*entries);
    if (const auto status = Dump::find(root, "pg_status")) read_status(*status);
    return true;
  }

 private:
  void read_groups(const Node& groups) {
    for (std::size_t i = 0; i < Dump::size(groups) && i < kMostEntries; ++i) {
      const Node group = Dump::item(groups, i);
      const std::string name = Dump::key(groups, i);
      Group& made = groups_[name];
      if (const auto description = Dump::find(group, "desc"))
        made.description = Dump::text(*description);
      if (const auto ranks = Dump::find(group, "ranks")) made.ranks = ranks_of(Dump::text(*ranks));
      for (const std::int64_t rank : made.ranks)
        evidence_.clues.world_size = std::max(evidence_.clues.world_size.value_or(0), rank + 1);
    }
  }

  void read_entries(const Node& entries) {
    for (std::size_t i = 0; i < Dump::size(entries) && i < kMostEntries; ++i) {
      const Node entry = Dump::item(entries, i);
      CollectiveState state;
      state.rank = evidence_.rank;
      std::string name;
      if (const auto group = Dump::find(entry, "process_group"); group && Dump::size(*group) > 0) {
        name = Dump::text(Dump::item(*group, 0));
        if (Dump::size(*group) > 1) state.group = Dump::text(Dump::item(*group, 1));
      }
      if (const auto found = groups_.find(name); found != groups_.end()) {
        state.ranks = found->second.ranks;
        if (state.group.empty()) state.group = found->second.description;
      }
      state.group = state.group.empty() ? name : fmt::format("{} ({})", state.group, name);
      if (const auto operation = Dump::find(entry, "profiling_name")) {
        state.operation = Dump::text(*operation);
        const std::size_t colon = state.operation.find(':');
        if (colon != std::string::npos) state.operation.erase(0, colon + 1);
      }
      const bool pair = state.operation.starts_with("send") || state.operation.starts_with("recv");
      if (const auto sequence = Dump::find(entry, pair ? "p2p_seq_id" : "collective_seq_id"))
        state.sequence = Dump::integer(*sequence);
      if (!state.sequence)
        if (const auto sequence = Dump::find(entry, "seq_id"))
          state.sequence = Dump::integer(*sequence);
      if (const auto condition = Dump::find(entry, "state")) state.state = Dump::text(*condition);
      if (const auto types = Dump::find(entry, "input_dtypes"); types && Dump::size(*types) > 0)
        state.dtype = Dump::text(Dump::item(*types, 0));
      state.elements_in = elements_of(entry, "input_sizes");
      state.elements_out = elements_of(entry, "output_sizes");
      if (const auto created = Dump::find(entry, "time_created_ns"))
        if (const auto nanoseconds = Dump::integer(*created))
          state.seconds = static_cast<double>(*nanoseconds) / 1e9;
      state.place = {file_, fmt::format("entries[{}]", i)};
      evidence_.collectives.push_back(std::move(state));
    }
  }

  // A list of shapes; empty for a barrier.
  static std::optional<std::int64_t> elements_of(const Node& entry, std::string_view key) {
    const auto shapes = Dump::find(entry, key);
    if (!shapes || !Dump::is_list(*shapes)) return std::nullopt;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < Dump::size(*shapes) && i < 4096; ++i) {
      const Node shape = Dump::item(*shapes, i);
      std::int64_t product = 1;
      for (std::size_t j = 0; j < Dump::size(shape) && j < 32; ++j) {
        const auto length = Dump::integer(Dump::item(shape, j));
        if (!length || __builtin_mul_overflow(product, *length, &product)) return std::nullopt;
      }
      if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
    }
    return sum;
  }

  // Numbered by creation, not by name: told apart from the entries' groups, they say how far this rank came.
  void read_status(const Node& status) {
    for (std::size_t i = 0; i < Dump::size(status) && i < 10'000; ++i) {
      const Node group = Dump::item(status, i);
      for (const char* const key : {"last_enqueued_collective", "last_completed_collective"}) {
        const auto value = Dump::find(group, key);
        if (!value) continue;
        CollectiveState state;
        state.rank = evidence_.rank;
        state.group = "pg_id " + Dump::key(status, i);
        state.sequence = Dump::integer(*value);
        if (!state.sequence) {
          const std::string text = Dump::text(*value);
          std::string_view rest = text;
          state.sequence = take_printed_integer(rest);
        }
        state.state = std::string_view(key) == "last_enqueued_collective" ? "last enqueued"
                                                                          : "last completed";
        state.place = {file_, fmt::format("pg_status[{}]", Dump::key(status, i))};
        evidence_.collectives.push_back(std::move(state));
      }
    }
  }

  struct Group {
    std::string description;
    std::vector<std::int64_t> ranks;
  };
  Evidence& evidence_;
  std::string file_;
  std::map<std::string, Group> groups_;
};

// "nccl_trace_rank_3", and "_dump_3": the digits that end the name.
std::optional<std::int64_t> rank_of_dump(std::string_view name) {
  if (const auto rank = rank_of_name(name)) return rank;
  for (const std::string_view ending : {".json", ".pickle", ".pkl"})
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  std::size_t begin = name.size();
  while (begin > 0 && is_printed_digit(name[begin - 1])) --begin;
  if (begin == 0 || name[begin - 1] != '_') return std::nullopt;
  std::string_view digits = name.substr(begin);
  return take_printed_integer(digits);
}

tl::unexpected<Diagnostics> no_dump(std::string_view name) {
  Diagnostic problem;
  problem.code = "E115";
  problem.message = "no flight recorder dump: it has neither pg_config nor entries";
  problem.place.source = std::string(name);
  return tl::unexpected(Diagnostics{problem});
}

}  // namespace

int recognise_flight_recorder(std::string_view head, std::string_view name) {
  if (head.empty()) return 0;
  const auto has = [head](std::string_view words) {
    return head.find(words) != std::string_view::npos;
  };
  if (head.front() != '\x80' && head.front() != '{') return 0;
  if (has("device_traces") || has("traceEvents")) return 0;
  if (has("pg_config") || has("pg_status") || has("collective_seq_id")) return 95;
  return name.find("nccl_trace_rank") != std::string_view::npos ? 30 : 0;
}

tl::expected<Evidence, Diagnostics> read_flight_recorder(std::string_view bytes,
                                                         std::string_view name) {
  Evidence evidence;
  evidence.file = std::string(name);
  evidence.kind = "flight recorder";
  evidence.rank = rank_of_dump(name);
  if (!bytes.empty() && bytes.front() == '{') {
    const auto document = read_json(bytes, name);
    if (!document) return tl::unexpected(document.error());
    if (!FlightReader<JsonDump>(evidence, name).read(&*document)) return no_dump(name);
    return evidence;
  }
  const auto pickle = read_pickle(bytes, name);
  if (!pickle) return tl::unexpected(pickle.error());
  if (!FlightReader<PickleDump>(evidence, name).read(pickle->root())) return no_dump(name);
  return evidence;
}

}  // namespace steelyard
