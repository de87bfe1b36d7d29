// One value of one key: of the right kind, within reason, or refused with what was expected.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "document/amount.h"
#include "document/edit_distance.h"
#include "job/settings.h"
#include "recipe/optimizer.h"
#include "recipe/precision.h"

namespace steelyard {
namespace {

// Entries of a list: patterns and names are looked for in each tensor, counts are those of stages.
constexpr std::size_t kMostTexts = 1'000;
constexpr std::size_t kMostCounts = 10'000;

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

// A number without a fraction that a 64-bit integer holds.
std::optional<std::int64_t> whole(double number) {
  constexpr double kBound = 9.2e18;
  if (!(std::abs(number) < kBound) || std::floor(number) != number) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::string expected_names(const Key& key) {
  constexpr std::size_t kMost = 10;
  switch (key.kind) {
    case KeyKind::kPrecision:
      return "`steelyard list precisions` shows what is accepted";
    case KeyKind::kOptimizer:
      return "`steelyard list optimizers` shows what is accepted";
    default:
      break;
  }
  const std::span<const std::string_view> names = key.names;
  return "expected " + any_of(names.subspan(0, std::min(names.size(), kMost)));
}

}  // namespace

bool Settings::read_value(const Value& value, const Key& key, Setting& setting) {
  switch (key.kind) {
    case KeyKind::kModel:
      if (value.is_string()) setting.text = value.as_string();
      if (value.is_string() || value.is_table()) return true;
      wrong_kind(value, key, "a name, a path or a table of config.json's keys");
      return false;
    case KeyKind::kMachine:
      if (value.is_string()) setting.text = value.as_string();
      if (value.is_string() || value.is_table()) return true;
      wrong_kind(value, key, "a name, a path or a table of a machine's facts");
      return false;
    case KeyKind::kBandwidth:
      return read_bandwidth(value, key, setting.number);
    case KeyKind::kDevice:
    case KeyKind::kText:
      if (!value.is_string()) {
        wrong_kind(value, key,
                   key.kind == KeyKind::kDevice ? "a device, as \"h100-sxm-80gb\"" : "a string");
        return false;
      }
      setting.text = value.as_string();
      return true;
    case KeyKind::kPrecision:
    case KeyKind::kOptimizer:
      return read_known_text(value, key, setting.text);
    case KeyKind::kName:
      return read_name(value, key, setting.name);
    case KeyKind::kCount:
    case KeyKind::kSequence:
    case KeyKind::kBytes:
      return read_count(value, key, setting.count);
    case KeyKind::kNumber:
    case KeyKind::kFraction:
      // Some numbers have names, as "worst".
      if (value.is_string() && !key.names.empty() && !number_written(value.as_string()))
        return read_name(value, key, setting.name);
      return read_number(value, key, setting.number);
    case KeyKind::kSwitch:
      return read_switch(value, key, setting.truth);
    case KeyKind::kClip:
      if (value.is_bool()) return read_switch(value, key, setting.truth);
      if (value.is_string() && !number_written(value.as_string()))
        return read_switch(value, key, setting.truth);
      if (!read_number(value, key, setting.number)) return false;
      setting.truth = setting.number > 0;
      return true;
    case KeyKind::kTexts:
      return read_texts(value, key, setting.texts);
    case KeyKind::kNames: {
      std::vector<std::string> words;
      if (!read_texts(value, key, words)) return false;
      bool known = true;
      for (std::size_t i = 0; i < words.size(); ++i) {
        Value word = Value::string(words[i]);
        word.set_mark(value.is_array() ? value.items()[i].mark() : value.mark());
        int index = -1;
        known = read_name(word, key, index) && known;
        setting.several.push_back(index);
      }
      return known;
    }
    case KeyKind::kCounts: {
      if (!value.is_array()) {
        wrong_kind(value, key, "a list of counts, as [8, 8, 7]");
        return false;
      }
      if (!is_short(value, key, kMostCounts)) return false;
      bool right = true;
      for (const Value& item : value.items()) {
        std::int64_t count = 0;
        right = read_count(item, key, count) && right;
        setting.counts.push_back(count);
        setting.count += right ? count : 0;
      }
      return right;
    }
  }
  return false;
}

bool Settings::read_count(const Value& value, const Key& key, std::int64_t& count) {
  std::optional<std::int64_t> read;
  if (value.is_integer()) {
    read = value.as_integer();
  } else if (value.is_number()) {
    if (std::isfinite(value.as_number()) && std::abs(value.as_number()) >= 9.2e18) {
      complain({Severity::kError,
                "E107",
                fmt::format("{} is {}", key.name, shown(value)),
                value.place(),
                fmt::format("needs at most {}", key.most),
                {}});
      return false;
    }
    read = whole(value.as_number());
  } else if (value.is_string()) {
    const std::string& text = value.as_string();
    if (key.kind == KeyKind::kBytes) read = bytes_written(text);
    if (!read) read = count_written(text, key.kind == KeyKind::kSequence ? 1024 : 1000);
    if (read && !count_written(text, 1000)) {
      understand(key, fmt::format("{}", *read), fmt::format("\"{}\" in bytes", text));
    } else if (read && !text.empty() && (text.back() < '0' || text.back() > '9')) {
      understand(key, fmt::format("{}", *read),
                 key.kind == KeyKind::kSequence
                     ? fmt::format("\"{}\": the k of a sequence is 1024", text)
                     : fmt::format("\"{}\": k, M and B are thousands here", text));
    }
  }
  if (!read) {
    wrong_kind(value, key,
               key.kind == KeyKind::kSequence ? "a count of tokens, as 8192 or \"8k\""
               : key.kind == KeyKind::kBytes  ? "bytes, as 26214400 or \"25MiB\""
                                              : "a whole number");
    return false;
  }
  if (*read < key.least || *read > key.most) {
    const bool few = *read < key.least;
    complain({Severity::kError,
              "E107",
              fmt::format("{} is {}", key.name, *read),
              value.place(),
              few ? fmt::format("needs {} or more", key.least)
                  : fmt::format("needs at most {}", key.most),
              {}});
    return false;
  }
  count = *read;
  return true;
}

bool Settings::read_number(const Value& value, const Key& key, double& number) {
  std::optional<double> read;
  if (value.is_number()) read = value.as_number();
  if (value.is_string()) read = number_written(value.as_string());
  if (!read || !std::isfinite(*read)) {
    wrong_kind(value, key, key.kind == KeyKind::kFraction ? "a number from 0 to 1" : "a number");
    return false;
  }
  if (*read < static_cast<double>(key.least) || *read > static_cast<double>(key.most)) {
    complain({Severity::kError,
              "E107",
              fmt::format("{} is {}", key.name, *read),
              value.place(),
              fmt::format("needs {} to {}", key.least, key.most),
              {}});
    return false;
  }
  number = *read;
  return true;
}

bool Settings::read_bandwidth(const Value& value, const Key& key, double& bytes_per_second) {
  const auto read = value.is_string() ? bandwidth_written(value.as_string()) : std::nullopt;
  if (!read) {
    wrong_kind(value, key, "a bandwidth, as \"400 Gb/s\" or \"50 GB/s\"");
    return false;
  }
  if (!(*read >= kLeastBandwidth && *read <= kLargestBandwidth)) {
    complain({Severity::kError,
              "E107",
              fmt::format("{} is {}", key.name, shown(value)),
              value.place(),
              "needs 1 Mb/s to 1000 TB/s",
              {}});
    return false;
  }
  bytes_per_second = *read;
  return true;
}

bool Settings::read_switch(const Value& value, const Key& key, bool& truth) {
  if (value.is_bool()) {
    truth = value.as_bool();
    return true;
  }
  if (value.is_string()) {
    const std::string word = lowered(value.as_string());
    for (const auto& [yes, no] :
         {std::pair{"true", "false"}, {"yes", "no"}, {"on", "off"}, {"1", "0"}}) {
      if (word != yes && word != no) continue;
      truth = word == yes;
      return true;
    }
  }
  wrong_kind(value, key, "true or false");
  return false;
}

bool Settings::read_name(const Value& value, const Key& key, int& index) {
  if (!value.is_string()) {
    wrong_kind(value, key, any_of(std::span<const std::string_view>(key.names)));
    return false;
  }
  const std::string& word = value.as_string();
  const std::string_view name = meant_name(key, word);
  if (name.empty()) {
    unknown_name(value, key, word);
    return false;
  }
  if (lowered(word) != name)
    understand(key, std::string(name), fmt::format("\"{}\" is taken for it", word));
  index = static_cast<int>(std::find(key.names.begin(), key.names.end(), name) - key.names.begin());
  return true;
}

bool Settings::read_known_text(const Value& value, const Key& key, std::string& text) {
  if (!value.is_string()) {
    wrong_kind(value, key, "a name");
    return false;
  }
  const bool precision = key.kind == KeyKind::kPrecision;
  const std::string& word = value.as_string();
  std::string name = lowered(word);
  std::replace(name.begin(), name.end(), '_', '-');
  const auto known = [&] {
    return precision ? find_precision(name) != nullptr : find_optimizer(name) != nullptr;
  };
  if (!known()) name = std::string(meant_name(key, word));
  if (name.empty() || !known()) {
    unknown_name(value, key, word);
    return false;
  }
  if (name != word) understand(key, name, fmt::format("\"{}\" is taken for it", word));
  text = std::move(name);
  return true;
}

bool Settings::read_texts(const Value& value, const Key& key, std::vector<std::string>& texts) {
  if (value.is_array()) {
    if (!is_short(value, key, kMostTexts)) return false;
    for (const Value& item : value.items()) {
      if (!item.is_string()) {
        wrong_kind(item, key, "a string");
        return false;
      }
      texts.push_back(item.as_string());
    }
    return true;
  }
  if (!value.is_string()) {
    wrong_kind(value, key, "a list of strings");
    return false;
  }
  // A flag has no brackets: `--recompute-modules mlp,norms`.
  std::string_view rest = value.as_string();
  while (true) {
    const std::size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    texts.emplace_back(word);
    if (comma == std::string_view::npos) return true;
    rest.remove_prefix(comma + 1);
  }
}

bool Settings::is_short(const Value& list, const Key& key, std::size_t most) {
  if (list.items().size() <= most) return true;
  complain({Severity::kError,
            "E107",
            fmt::format("{} has {} entries", key.name, list.items().size()),
            list.place(),
            fmt::format("needs at most {}", most),
            {}});
  return false;
}

void Settings::wrong_kind(const Value& value, const Key& key, std::string_view expected) {
  complain({Severity::kError,
            "E105",
            fmt::format("{} is {}", key.name, shown(value)),
            value.place(),
            fmt::format("expected {}", expected),
            {}});
}

void Settings::unknown_name(const Value& value, const Key& key, std::string_view word) {
  complain({Severity::kError, "E106",
            fmt::format("no {} is called \"{}\"", key.name, word.substr(0, 60)), value.place(),
            expected_names(key), did_you_mean(key.name, nearest_names(word, accepted_names(key)))});
}

void Settings::understand(const Key& key, std::string value, std::string reason) {
  understood_.push_back({key.path, std::move(value), std::move(reason)});
}

}  // namespace steelyard
