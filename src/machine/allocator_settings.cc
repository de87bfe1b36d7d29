#include "machine/allocator_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <vector>

#include "document/edit_distance.h"
#include "document/value.h"
#include "quantity/parse.h"

namespace steelyard {
namespace {

enum class Meaning : std::uint8_t {
  kMaxSplitSize,
  kMaxNonSplitRounding,
  kGarbageCollection,
  kRoundup,
  kExpandable,
  kLargeSegment,
  kFraction,
  kBackend,
  kSwitchWithoutEffect,  // a boolean of the host's side
  kNumberWithoutEffect,
};

struct Option {
  std::string_view name;
  Meaning meaning;
};

constexpr std::array<Option, 17> kOptions = {{
    {"max_split_size_mb", Meaning::kMaxSplitSize},
    {"max_non_split_rounding_mb", Meaning::kMaxNonSplitRounding},
    {"garbage_collection_threshold", Meaning::kGarbageCollection},
    {"roundup_power2_divisions", Meaning::kRoundup},
    {"expandable_segments", Meaning::kExpandable},
    {"large_segment_size_mb", Meaning::kLargeSegment},
    {"per_process_memory_fraction", Meaning::kFraction},
    {"backend", Meaning::kBackend},
    {"release_lock_on_cudamalloc", Meaning::kSwitchWithoutEffect},
    {"release_lock_on_hipmalloc", Meaning::kSwitchWithoutEffect},
    {"pinned_use_cuda_host_register", Meaning::kSwitchWithoutEffect},
    {"pinned_use_hip_host_register", Meaning::kSwitchWithoutEffect},
    {"pinned_use_background_threads", Meaning::kSwitchWithoutEffect},
    {"graph_capture_record_stream_reuse", Meaning::kSwitchWithoutEffect},
    {"pinned_num_register_threads", Meaning::kNumberWithoutEffect},
    {"pinned_reserve_segment_size_mb", Meaning::kNumberWithoutEffect},
    {"throw_on_cudamalloc_oom", Meaning::kSwitchWithoutEffect},
}};

constexpr std::int64_t kMebi = std::int64_t{1} << 20;
// Larger values mean the same: no device has an exbibyte.
constexpr std::int64_t kLargestMebibytes = std::int64_t{1} << 40;

struct Token {
  std::string text;
  int column = 1;
};

bool is_mark(char c) { return c == ',' || c == ':' || c == '[' || c == ']'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Words and the marks `, : [ ]`. Spaces are dropped, also within a word, as PyTorch drops them.
std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (is_space(c)) continue;
    if (is_mark(c) || !in_word) tokens.push_back({"", static_cast<int>(at) + 1});
    tokens.back().text += c;
    in_word = !is_mark(c);
  }
  return tokens;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& source)
      : text_(text), whole_(source_of(source, text)), tokens_(tokens_of(text)) {}

  tl::expected<AllocatorSettings, Diagnostics> read() {
    while (next_ < tokens_.size()) {
      const std::size_t start = next_;
      if (!read_option()) skip_option(start);
      if (next_ < tokens_.size()) take(",", "a comma between two options");
    }
    if (!problems_.empty()) return tl::unexpected(std::move(problems_));
    return settings_;
  }

 private:
  bool read_option() {
    const Token key = current();
    if (is_mark(key.text.front()))
      return fail(key, "E112", fmt::format("\"{}\" where the name of an option is due", key.text),
                  "an option", "write option:value, separated by commas");
    const auto* const option =
        std::find_if(kOptions.begin(), kOptions.end(),
                     [&](const Option& known) { return known.name == key.text; });
    if (option == kOptions.end()) return fail_unknown(key);
    ++next_;
    if (!take(":", fmt::format("the value of {}", key.text))) return false;
    return read_value(*option);
  }

  bool read_value(const Option& option) {
    switch (option.meaning) {
      case Meaning::kMaxSplitSize:
        return read_mebibytes(option, 20, [&](Bytes size) { settings_.max_split_size = size; });
      case Meaning::kMaxNonSplitRounding:
        return read_mebibytes(option, 20,
                              [&](Bytes size) { settings_.max_non_split_rounding = size; });
      case Meaning::kLargeSegment:
        return read_mebibytes(option, 11, [&](Bytes size) { settings_.large_segment = size; });
      case Meaning::kGarbageCollection:
        return read_share(option, "above 0 and below 1", [&](double share) {
          settings_.garbage_collection_threshold = share;
          return share > 0 && share < 1;
        });
      case Meaning::kFraction:
        return read_share(option, "from 0 to 1", [&](double share) {
          // The whole of the device is no limit of PyTorch's own.
          settings_.memory_fraction =
              share < 1 ? std::optional<double>(share) : std::optional<double>();
          return share >= 0 && share <= 1;
        });
      case Meaning::kExpandable:
        return read_switch(option, settings_.expandable_segments);
      case Meaning::kRoundup:
        return read_divisions(option);
      case Meaning::kBackend:
        return read_backend(option);
      case Meaning::kSwitchWithoutEffect: {
        bool ignored = false;
        return read_switch(option, ignored);
      }
      case Meaning::kNumberWithoutEffect: {
        std::int64_t ignored = 0;
        return read_count(option, ignored);
      }
    }
    return false;
  }

  template <class Set>
  bool read_mebibytes(const Option& option, std::int64_t smallest, Set set) {
    const Token value = current();
    std::int64_t count = 0;
    if (!read_count(option, count)) return false;
    if (count < smallest)
      return fail(value, "E107", fmt::format("{} is {}", option.name, value.text),
                  fmt::format("at least {}", smallest),
                  fmt::format("PyTorch refuses less than {}", smallest));
    set(Bytes(std::min(count, kLargestMebibytes) * kMebi));
    return true;
  }

  template <class Accept>
  bool read_share(const Option& option, std::string_view range, Accept accept) {
    const Token value = current();
    const auto share = parse_number(value.text);
    if (!share || !accept(*share))
      return fail(value, share ? "E107" : "E105",
                  fmt::format("{} is \"{}\"", option.name, value.text),
                  fmt::format("a number {}", range),
                  fmt::format("write a number {}, as in {}:0.8", range, option.name));
    ++next_;
    return true;
  }

  bool read_switch(const Option& option, bool& value) {
    const Token word = current();
    if (word.text != "True" && word.text != "False")
      return fail(word, "E105", fmt::format("{} is \"{}\"", option.name, word.text),
                  "True or False", "PyTorch takes exactly True or False, with a capital");
    value = word.text == "True";
    ++next_;
    return true;
  }

  // Digits alone; more than 64 bits hold counts as the largest number.
  bool read_count(const Option& option, std::int64_t& count) {
    const Token value = current();
    if (value.text.empty() || value.text.find_first_not_of("0123456789") != std::string::npos)
      return fail(value, "E105", fmt::format("{} is \"{}\"", option.name, value.text),
                  "a whole number", fmt::format("write a whole number, as in {}:512", option.name));
    count = 0;
    for (char digit : value.text)
      if (__builtin_mul_overflow(count, 10, &count) ||
          __builtin_add_overflow(count, digit - '0', &count)) {
        count = std::numeric_limits<std::int64_t>::max();
        break;
      }
    ++next_;
    return true;
  }

  bool read_power(const Option& option, std::int64_t& count, bool or_zero) {
    const Token value = current();
    if (!read_count(option, count)) return false;
    if ((count == 0 && or_zero) || std::has_single_bit(static_cast<std::uint64_t>(count)))
      return true;
    return fail(value, "E107", fmt::format("{} holds {}", option.name, value.text),
                or_zero ? "a power of two, or 0" : "a power of two",
                "intervals and divisions are powers of two: 1, 2, 4, 8 ...");
  }

  // "8" for all sizes, or "[256:1,512:2,>:4]": sizes of at least 256 MiB and below 512 MiB by 1 ...; the first also
  // holds below itself, ">" holds above the last, and what is not named stays as it was.
  bool read_divisions(const Option& option) {
    auto& divisions = settings_.roundup_divisions;
    if (current().text != "[") {
      std::int64_t all = 0;
      if (!read_power(option, all, false)) return false;
      divisions.fill(all);
      return true;
    }
    ++next_;
    auto last = divisions.begin();
    bool first = true;
    while (current().text != "]") {
      const Token interval = current();
      std::int64_t mebibytes = 0;
      const bool rest = interval.text == ">";
      if (rest)
        ++next_;
      else if (!read_power(option, mebibytes, false))
        return false;
      std::int64_t count = 0;
      if (!take(":", fmt::format("the divisions of {}", interval.text)) ||
          !read_power(option, count, true))
        return false;
      if (rest) {
        std::fill(first ? last : last + 1, divisions.end(), count);
      } else {
        last = divisions.begin() +
               std::min(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(mebibytes))) - 1,
                        kRoundupIntervals - 1);
        if (first) std::fill(divisions.begin(), last, count);
        *last = count;
        first = false;
      }
      if (current().text != "]" && !take(",", "a comma between two intervals")) return false;
    }
    ++next_;
    return true;
  }

  bool read_backend(const Option& option) {
    const Token value = current();
    if (value.text == "cudaMallocAsync" || value.text == "hipMallocAsync")
      return fail(value, "E320", fmt::format("backend:{} is not simulated", value.text), "native",
                  "it is the driver's allocator, whose rules are not public: weigh with "
                  "backend:native");
    if (value.text != "native")
      return fail(value, "E106", fmt::format("{} is \"{}\"", option.name, value.text), "native",
                  "the backends are native and cudaMallocAsync");
    ++next_;
    return true;
  }

  // The end of the text reads as an empty word behind the last character.
  Token current() const {
    if (next_ < tokens_.size()) return tokens_[next_];
    return {"", static_cast<int>(text_.size()) + 1};
  }

  bool take(std::string_view mark, const std::string& what) {
    const Token found = current();
    if (found.text == mark) {
      ++next_;
      return true;
    }
    return fail(found, "E112",
                found.text.empty() ? fmt::format("the text ends where {} is due", what)
                                   : fmt::format("\"{}\" where {} is due", found.text, what),
                fmt::format("\"{}\"", mark), "write option:value, separated by commas");
  }

  // From the option's first word to the comma before the next option.
  void skip_option(std::size_t start) {
    int depth = 0;
    for (next_ = start; next_ < tokens_.size(); ++next_) {
      const std::string& text = tokens_[next_].text;
      if (text == "[") ++depth;
      if (text == "]") --depth;
      if (text == "," && depth <= 0) return;
    }
  }

  bool fail_unknown(const Token& key) {
    if (is_full(problems_, Severity::kError)) return count_fault();
    std::vector<std::string_view> names;
    for (const Option& option : kOptions) names.push_back(option.name);
    const auto nearest = nearest_names(key.text, names);
    return fail(key, "E104", fmt::format("unknown option \"{}\"", key.text),
                "not an option of the allocator",
                nearest.empty() ? "the options are those of PYTORCH_ALLOC_CONF"
                                : did_you_mean("option", nearest));
  }

  bool count_fault() {
    count_problem(problems_, Severity::kError);
    return false;
  }

  bool fail(const Token& at, const char* code, std::string message, std::string label,
            std::string help) {
    if (is_full(problems_, Severity::kError)) return count_fault();
    // Of a long text what surrounds the place: fifty copies of it would be many times as long.
    Place place = Mark{whole_, 1, at.column, std::max(1, static_cast<int>(at.text.size()))}.place();
    problems_.push_back({Severity::kError, code, std::move(message), std::move(place),
                         std::move(label), std::move(help)});
    return false;
  }

  std::string_view text_;
  std::shared_ptr<const Source> whole_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  AllocatorSettings settings_;
  Diagnostics problems_;
};

}  // namespace

tl::expected<AllocatorSettings, Diagnostics> read_allocator_settings(std::string_view text,
                                                                     const std::string& source) {
  return Reader(text, source).read();
}

}  // namespace steelyard
