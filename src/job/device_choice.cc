#include "job/device_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "data/catalogue.h"
#include "document/amount.h"
#include "document/edit_distance.h"
#include "machine/machine.h"

namespace steelyard {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kSmallestMemory = kGiB;
constexpr std::int64_t kLargestMemory = 4096 * kGiB;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "8 x H100 SXM" -> "8-x-h100-sxm"
std::string folded(std::string_view written) {
  std::string name;
  for (char c : written.substr(0, 80)) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == ' ' || c == '_' || c == '\t' || c == '/' || c == '(' || c == ')') c = '-';
    if (c != '-' || (!name.empty() && name.back() != '-')) name += c;
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

// Takes the count of "8xh100" or "8-x-h100" off the name.
std::optional<std::int64_t> take_count(std::string& name) {
  std::size_t at = 0;
  while (at < name.size() && is_digit(name[at])) ++at;
  if (at == 0 || at > 9) return std::nullopt;
  std::size_t next = at;
  if (next < name.size() && name[next] == '-') ++next;
  if (next >= name.size() || (name[next] != 'x' && name[next] != '*')) return std::nullopt;
  ++next;
  if (next < name.size() && name[next] == '-') ++next;
  if (next >= name.size()) return std::nullopt;
  const std::int64_t count = std::stoll(name.substr(0, at));
  name.erase(0, next);
  return count;
}

std::vector<std::string> words_of(std::string_view name) {
  constexpr std::array<std::string_view, 9> kSaysNothing = {
      "nvidia", "amd", "geforce", "tesla", "instinct", "gpu", "hbm2e", "hbm3", "hbm3e"};
  std::vector<std::string> words;
  while (!name.empty()) {
    const std::size_t dash = name.find('-');
    const std::string_view word = name.substr(0, dash);
    if (!word.empty() &&
        std::find(kSaysNothing.begin(), kSaysNothing.end(), word) == kSaysNothing.end())
      words.emplace_back(word.starts_with("sxm") ? "sxm" : word);
    name = dash == std::string_view::npos ? std::string_view() : name.substr(dash + 1);
  }
  // "a100 80 gb" -> "a100", "80gb"
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] != "gb" || !is_digit(words[i - 1].front())) continue;
    words[i - 1] += "gb";
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return words;
}

// Whether any of the words is more than a maker's mark or a memory: "rtx" and "80gb" are those of many devices.
bool name_a_device(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return std::any_of(word.begin(), word.end(), is_digit) && !word.ends_with("gb");
  });
}

// The first device, in the order of the list, whose name has all the words; sxm first, as most of them are.
const Device* device_with(const std::vector<std::string>& words) {
  const Device* found = nullptr;
  for (const Device& device : devices()) {
    const auto parts = words_of(device.name);
    const bool all = std::all_of(words.begin(), words.end(), [&](const std::string& word) {
      return std::find(parts.begin(), parts.end(), word) != parts.end();
    });
    if (!all || !name_a_device(words)) continue;
    const bool sxm = std::find(parts.begin(), parts.end(), "sxm") != parts.end();
    if (found == nullptr || (sxm && found->name.find("-sxm") == std::string::npos)) found = &device;
  }
  return found;
}

// The known device whose memory is nearest: it lends the sizes of context and workspaces.
const Device& nearest_by_memory(std::int64_t bytes) {
  const Device* nearest = &devices().front();
  const auto distance = [bytes](const Device& device) {
    return std::abs(device.capacity.value().value() - bytes);
  };
  for (const Device& device : devices()) {
    if (device.architecture.starts_with("sm_") && distance(device) < distance(*nearest))
      nearest = &device;
  }
  return *nearest;
}

// Memory is sold in GB and built in GiB: a "24gb" card has 24 GiB on its board.
std::optional<std::int64_t> memory_written(std::string_view name) {
  std::string text(name);
  text.erase(std::remove(text.begin(), text.end(), '-'), text.end());
  if (!bytes_written(text)) return std::nullopt;
  const std::size_t unit = text.find_first_not_of("0123456789._,");
  if (unit == std::string::npos || text.size() - unit != 2) return bytes_written(text);
  text.insert(unit + 1, "i");
  return bytes_written(text);
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const Device& device : devices()) {
    names.push_back(device.name);
    names.insert(names.end(), device.short_forms.begin(), device.short_forms.end());
  }
  return names;
}

}  // namespace

std::optional<DeviceChoice> choose_device(std::string_view written, const Place& place,
                                          Diagnostics& problems) {
  DeviceChoice choice;
  // The sign would be read as a dash between words.
  if (!written.empty() && written.front() == '-') {
    problems.push_back({Severity::kError,
                        "E111",
                        fmt::format("\"{}\" begins with a minus", written.substr(0, 60)),
                        place,
                        "expected a device, perhaps with a count of 1 or more: 8xh100",
                        {}});
    return std::nullopt;
  }
  if (const DeviceMatch exact = find_device(written); exact.device != nullptr) {
    choice.device = unowned(*exact.device);
    if (exact.short_form)
      choice.understood = fmt::format("\"{}\" is short for {}", written, exact.device->description);
    return choice;
  }
  std::string name = folded(written);
  choice.count = take_count(name);
  if (choice.count && *choice.count < 1) {
    problems.push_back({Severity::kError,
                        "E107",
                        fmt::format("\"{}\" counts no devices", written),
                        place,
                        "needs 1 or more",
                        {}});
    return std::nullopt;
  }
  const DeviceMatch match = find_device(name);
  if (match.device != nullptr) {
    choice.device = unowned(*match.device);
    if (match.short_form)
      choice.understood = fmt::format("\"{}\" is short for {}", written, match.device->description);
    return choice;
  }
  if (const auto bytes = memory_written(name)) {
    if (*bytes < kSmallestMemory || *bytes > kLargestMemory) {
      problems.push_back({Severity::kError,
                          "E107",
                          fmt::format("a device of {}", name),
                          place,
                          "needs 1 GiB to 4 TiB",
                          {}});
      return std::nullopt;
    }
    const Device& like = nearest_by_memory(*bytes);
    auto device = std::make_shared<Device>(like);
    device->name = name;
    device->description = fmt::format("a device with {} of memory", name);
    // CUDA reports a little less than the board holds: 23.6 of 24 GiB (RTX 4090), 39.39 of 40 and
    // 79.1 of 80 (A100, H100). The least of these shares is taken.
    device->capacity = Bytes(*bytes - *bytes / 60);
    device->capacity_high = Bytes(*bytes);
    device->capacity_mark = "stated";
    device->capacity_source = "the run file";
    device->short_forms.clear();
    choice.device = std::move(device);
    choice.understood = fmt::format(
        "any device with {:.4g} GiB, 59/60 of it reported; context and workspaces as on {}",
        static_cast<double>(*bytes) / static_cast<double>(kGiB), like.name);
    return choice;
  }
  if (const Device* device = device_with(words_of(name))) {
    choice.device = unowned(*device);
    choice.understood = fmt::format("\"{}\" is taken for {}", written, device->description);
    return choice;
  }
  if (const Machine* machine = find_machine(name)) {
    problems.push_back(
        {Severity::kError, "E111", fmt::format("{} is a machine, no device", machine->name), place,
         fmt::format("it is built with {}", any_of(std::span<const std::string>(machine->devices))),
         fmt::format("cluster.machine = \"{}\" says it; --on {}x{} means so many of them",
                     machine->name, choice.count.value_or(2), machine->name)});
    return std::nullopt;
  }
  const auto near = nearest_products(name, known_names(), MustKeep::kCodes);
  problems.push_back(
      {Severity::kError, "E111", fmt::format("no device is called \"{}\"", written.substr(0, 60)),
       place, "`steelyard list devices` shows the known ones; a size as \"24gb\" is one too",
       did_you_mean("device", near)});
  return std::nullopt;
}

}  // namespace steelyard
