// devices = data x tensor x context x pipeline (figure 22): which number is wrong, and what would fit.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "job/layout_choice.h"

namespace steelyard {
namespace {

struct Degree {
  KeyId id{};
  std::int64_t value = 1;
  bool given = false;
  std::string_view name() const { return key_of(id).name; }
};

// Saturates: what is this large never equals a number of devices.
std::int64_t product_of(const std::vector<Degree>& degrees, KeyId without) {
  std::int64_t product = 1;
  for (const Degree& degree : degrees)
    if (degree.id != without && __builtin_mul_overflow(product, degree.value, &product))
      return kLargestCount;
  return product;
}
std::int64_t product_of(const std::vector<Degree>& degrees) {
  return product_of(degrees, KeyId::kModel);
}

std::string factors_of(const std::vector<Degree>& degrees) {
  std::string text;
  for (const Degree& degree : degrees)
    if (degree.given) text += fmt::format("{}{}", text.empty() ? "" : " x ", degree.value);
  return text;
}

// "tensor 8 · pipeline 3 · data 2 (line 18)": all numbers of the product, and where the data stands.
std::string parts_of(const Draft& draft, const std::vector<Degree>& degrees, KeyId blamed) {
  const int line = draft.settings().place(blamed).line;
  std::string text;
  for (const std::size_t index : {0U, 2U, 3U, 1U}) {
    const Degree& degree = degrees[index];
    if (!degree.given) continue;
    if (!text.empty()) text += " · ";
    text += fmt::format("{} {}", degree.name(), degree.value);
    const Place place = draft.settings().place(degree.id);
    if (degree.id == KeyId::kData && place.line > 0 && place.line != line)
      text += fmt::format(" (line {})", place.line);
  }
  return text;
}

std::string sentence(const std::vector<std::string>& clauses) {
  std::string text;
  for (std::size_t i = 0; i < clauses.size() && i < 3; ++i)
    text += (i > 0 ? "; " : "") + clauses[i];
  return text;
}

// Up to two values of one degree that leave a whole number of data-parallel ranks: the nearest below and above.
std::vector<std::int64_t> fitting(std::int64_t devices, std::int64_t others, std::int64_t value) {
  std::vector<std::int64_t> values;
  if (devices % others != 0) return values;
  const std::int64_t room = devices / others;
  for (std::int64_t v = std::min(value - 1, room); v >= 1; --v)
    if (room % v == 0) {
      values.push_back(v);
      break;
    }
  for (std::int64_t v = value + 1; v <= std::min<std::int64_t>(room, 65'536); ++v)
    if (room % v == 0) {
      values.push_back(v);
      break;
    }
  return values;
}

// `data` was given, and the product is another number.
void refuse_product(Draft& draft, const std::vector<Degree>& degrees, std::int64_t devices) {
  const std::int64_t product = product_of(degrees);
  KeyId blamed = KeyId::kData;
  std::vector<std::string> help;
  // The one that can be mended alone is the one that is wrong; layers are cut more freely than matrices.
  bool mended = false;
  for (const KeyId id : {KeyId::kPipeline, KeyId::kData, KeyId::kContext, KeyId::kTensor}) {
    const auto degree =
        std::find_if(degrees.begin(), degrees.end(), [id](const Degree& d) { return d.id == id; });
    if (!degree->given) continue;
    const std::int64_t others = product_of(degrees, id);
    if (devices % others != 0) continue;
    if (!mended) blamed = id;
    mended = true;
    help.push_back(id == KeyId::kData ? fmt::format("data = {} fits {}", devices / others, devices)
                                      : fmt::format("{} = {} keeps data {}", degree->name(),
                                                    devices / others, degrees[1].value));
    if (help.size() == 2) break;
  }
  if (!mended)
    for (const Degree& degree : degrees)
      if (degree.given && degree.value > 1 && devices % degree.value != 0) blamed = degree.id;
  const auto of_blamed =
      std::find_if(degrees.begin(), degrees.end(), [&](const Degree& d) { return d.id == blamed; });
  if (blamed != KeyId::kData && help.size() < 2) {
    const std::int64_t rest = product_of(degrees, blamed) / degrees[1].value;
    for (const std::int64_t v : fitting(devices, rest, of_blamed->value))
      if (v * rest <= devices && v * product_of(degrees, blamed) != devices) {
        help.push_back(fmt::format("{} = {} with data {} also fits {}", of_blamed->name(), v,
                                   devices / (v * rest), devices));
        break;
      }
  }
  if (help.empty()) help.push_back(fmt::format("devices = {} fits these degrees", product));
  draft.refuse(blamed, "E210",
               fmt::format("{} = {} is not {} devices", factors_of(degrees), product, devices),
               parts_of(draft, degrees, blamed), sentence(help));
}

// `data` was left out, and the other degrees do not divide the devices.
void refuse_division(Draft& draft, const std::vector<Degree>& degrees, std::int64_t devices) {
  const std::int64_t product = product_of(degrees);
  KeyId blamed = KeyId::kTensor;
  std::vector<std::string> help;
  for (const KeyId id : {KeyId::kPipeline, KeyId::kContext, KeyId::kTensor}) {
    const auto degree =
        std::find_if(degrees.begin(), degrees.end(), [id](const Degree& d) { return d.id == id; });
    if (!degree->given || degree->value == 1) continue;
    const std::int64_t others = product_of(degrees, id);
    const auto values = fitting(devices, others, degree->value);
    if (values.empty()) continue;
    blamed = id;
    for (const std::int64_t v : values)
      help.push_back(
          fmt::format("{} = {} gives data {}", degree->name(), v, devices / (others * v)));
    break;
  }
  if (help.empty()) {
    for (const Degree& degree : degrees)
      if (degree.value > 1 && devices % degree.value != 0) blamed = degree.id;
    const std::int64_t above = (devices / product + 1) * product;
    help.push_back(
        devices < product
            ? fmt::format("devices = {} is the least for these degrees", product)
            : fmt::format("devices = {} or {} fits these degrees", above - product, above));
  }
  const std::string factors = factors_of(degrees);
  const std::string written =
      factors.find('x') == std::string::npos ? factors : fmt::format("{} = {}", factors, product);
  draft.refuse(blamed, "E210", fmt::format("{} does not divide {} devices", written, devices),
               parts_of(draft, degrees, blamed), sentence(help));
}

}  // namespace

void choose_devices(Draft& draft, std::optional<std::int64_t> counted) {
  Job& job = draft.job();
  Parallel& parallel = job.parallel;
  // In this order the product is shown; data is the second, and refuse_product() counts on it.
  std::vector<Degree> degrees = {
      {KeyId::kTensor}, {KeyId::kData}, {KeyId::kContext}, {KeyId::kPipeline}};
  for (Degree& degree : degrees) {
    degree.given = draft.has(degree.id);
    degree.value = degree.id == KeyId::kData
                       ? draft.count_or(degree.id, 1)
                       : draft.count_or(degree.id, 1, "not divided unless asked");
    // A degree of one adds nothing to the story of a product.
    if (degree.id != KeyId::kData && degree.value == 1) degree.given = false;
  }
  parallel.tensor = Ranks(degrees[0].value);
  parallel.context = Ranks(degrees[2].value);
  parallel.pipeline = Ranks(degrees[3].value);
  parallel.data = Ranks(degrees[1].value);

  std::int64_t devices = product_of(degrees);
  const auto given = draft.settings().count(KeyId::kDevices);
  if (given && counted && *given != *counted) {
    draft.refuse(KeyId::kDevices, "E210",
                 fmt::format("devices is {}, device says {}", *given, *counted),
                 "two counts of the same devices",
                 fmt::format("leave out the {} before the device's name", *counted));
  }
  if (given || counted) {
    devices = given ? *given : *counted;
  } else {
    if (devices > key_of(KeyId::kDevices).most) {
      draft.refuse(KeyId::kData, "E107", fmt::format("{} devices", factors_of(degrees)),
                   fmt::format("needs at most {}", key_of(KeyId::kDevices).most));
      devices = 1;
    }
    draft.assume(
        KeyId::kDevices, fmt::format("{}", devices),
        devices == 1 ? "one, unless more are asked for" : "data x tensor x context x pipeline");
  }
  job.cluster.devices = Ranks(devices);

  if (draft.has(KeyId::kData)) {
    if (product_of(degrees) != devices) refuse_product(draft, degrees, devices);
  } else {
    const std::int64_t rest = product_of(degrees);
    if (devices % rest != 0) {
      refuse_division(draft, degrees, devices);
    } else {
      parallel.data = Ranks(devices / rest);
      draft.assume(KeyId::kData, fmt::format("{}", parallel.data),
                   "devices / (tensor x context x pipeline)");
    }
  }

  const std::int64_t of_machine = job.cluster.devices_per_node;
  const Machine* machine = job.cluster.machine.get();
  job.cluster.devices_per_node = Ranks(draft.count_or(
      KeyId::kDevicesPerNode, std::min(devices, of_machine),
      fmt::format("{} has {}", machine == nullptr ? "the usual machine" : machine->name,
                  of_machine)));
  const std::int64_t per_node = job.cluster.devices_per_node;
  if (draft.has(KeyId::kDevicesPerNode) && devices > per_node && devices % per_node != 0)
    draft.warn(KeyId::kDevicesPerNode, "E210",
               fmt::format("{} devices do not fill machines of {}", devices, per_node),
               fmt::format("the last machine has {}", devices % per_node));
}

}  // namespace steelyard
