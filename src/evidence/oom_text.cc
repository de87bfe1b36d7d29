#include "evidence/oom_text.h"

#include <algorithm>
#include <array>

#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::size_t kLongestMessage = 600;
// Context, libraries and communicators of one process.
constexpr Bytes kMostContext(std::int64_t{2} << 30);
constexpr std::string_view kOutOfMemory = " out of memory";

struct OomBackend {
  std::string_view word;  // right before " out of memory"
  std::string_view name;
};
constexpr std::array<OomBackend, 8> kOomBackends = {{{"CUDA", "cuda"},
                                                     {"HIP", "hip"},
                                                     {"XPU", "xpu"},
                                                     {"MPS backend", "mps"},
                                                     {"NPU", "npu"},
                                                     {"MLU", "mlu"},
                                                     {"MUSA", "musa"},
                                                     {"MTIA", "mtia"}}};

// The numbers of the sentence; `text` begins with it.
void read_numbers(std::string_view text, MemoryFailure& failure) {
  failure.tried = size_behind(text, "Tried to allocate ");
  if (auto device = behind(text, "GPU "))
    failure.device = is_printed_digit(device->empty() ? ' ' : device->front())
                         ? take_printed_integer(*device)
                         : std::nullopt;
  for (const std::string_view label : {"total capacity of ", "total capacty of "})
    if (const auto size = size_behind(text, label)) failure.capacity = size;
  if (!failure.capacity) failure.capacity = size_before(text, " total capacity;");
  failure.free = size_behind(text, "of which ");
  if (!failure.free) failure.free = size_before(text, " free;");
  failure.allocated = size_behind(text, "Of the allocated memory ");
  if (!failure.allocated) failure.allocated = size_before(text, " already allocated;");
  failure.allowed = size_before(text, " allowed;");
  failure.private_pools = size_before(text, " allocated in private pools");
  failure.unallocated = size_before(text, " is reserved by PyTorch but unallocated");
  failure.reserved = size_before(text, " reserved in total by PyTorch");
  if (!failure.reserved) failure.reserved = size_before(text, " cached)");
  if (failure.allocated && failure.unallocated && !failure.reserved)
    failure.reserved = *failure.allocated + *failure.unallocated;
  if (failure.allocated && failure.reserved && !failure.unallocated &&
      *failure.reserved >= *failure.allocated)
    failure.unallocated = *failure.reserved - *failure.allocated;
  failure.own_process = size_behind(text, "this process has ");
  if (failure.own_process == Bytes(0)) failure.own_process.reset();
  // "Process 4711 has 3.20 GiB memory in use."
  int processes = 0;
  for (std::size_t at = text.find("Process "); at != std::string_view::npos;
       at = text.find("Process ", at + 1)) {
    std::string_view rest = text.substr(at + 8);
    if (!take_printed_integer(rest) || !rest.starts_with(" has ")) continue;
    rest.remove_prefix(5);
    const auto size = take_printed_size(rest);
    if (size && *size > Bytes(0))
      failure.other_processes = failure.other_processes.value_or(Bytes(0)) + *size;
    ++processes;
  }
  // In a container the own process has a number that it does not know: what it reserved, and a context, names it.
  if (processes != 1 || failure.own_process || !failure.other_processes || !failure.reserved)
    return;
  const Bytes beside = *failure.other_processes - *failure.reserved;
  if (beside < Bytes(0) || beside > kMostContext) return;
  failure.own_process = failure.other_processes;
  failure.other_processes.reset();
}

// MPS prints other words, and NPU forks the oldest ones.
void read_mps(std::string_view text, MemoryFailure& failure) {
  failure.allocated = size_behind(text, "MPS allocated: ");
  if (const auto other = size_behind(text, "other allocations: ")) failure.other_processes = other;
  failure.allowed = size_behind(text, "max allowed: ");
}

// Which versions of PyTorch print the sentence so.
std::string era_of(std::string_view text, const MemoryFailure& failure) {
  const auto has = [text](std::string_view words) {
    return text.find(words) != std::string_view::npos;
  };
  if (failure.backend == "mps") return "1.13+";
  if (has(" cached)")) return "0.4-1.3";
  if (has("reserved in total by PyTorch)"))
    return has("If reserved memory is >> allocated") ? "1.10-2.0" : "1.4-1.9";
  if (has("capacty")) return "2.1";
  if (has("docs.pytorch.org") || has("PYTORCH_ALLOC_CONF") ||
      (failure.allowed && has("capacity of")))
    return "2.9+";
  if (has("capacity of")) return "2.2-2.8";
  return {};
}

int numbers_of(const MemoryFailure& failure) {
  int count = 0;
  for (const auto& size : {failure.tried, failure.allocated, failure.reserved, failure.unallocated,
                           failure.free, failure.capacity, failure.allowed, failure.private_pools,
                           failure.own_process, failure.other_processes})
    count += size ? 1 : 0;
  return count;
}

bool is_whole(std::string_view text, std::string_view backend) {
  if (backend == "mps") return text.find("private pool") != std::string_view::npos;
  return text.find("reserved by PyTorch but unallocated") != std::string_view::npos ||
         text.find("reserved in total by PyTorch)") != std::string_view::npos ||
         text.find(" cached)") != std::string_view::npos ||
         text.find("more than 1EB memory") != std::string_view::npos;
}

// Without runs of spaces, and not without end.
std::string message_of(std::string_view text) {
  std::string message;
  for (const char c : text) {
    if (c == ' ' && (message.empty() || message.back() == ' ')) continue;
    if (message.size() >= kLongestMessage) break;
    message += c;
  }
  // The advice behind the numbers is the same in every text.
  for (const std::string_view advice :
       {" If reserved but unallocated memory is large", " If reserved memory is >>",
        " Please use `empty_cache`", " Use PYTORCH_MPS_HIGH_WATERMARK_RATIO"}) {
    const std::size_t at = message.find(advice);
    if (at != std::string::npos) message.resize(at);
  }
  while (!message.empty() && message.back() == ' ') message.pop_back();
  return message;
}

// "CUDA" of "torch.OutOfMemoryError: CUDA out of memory."
const OomBackend* backend_before(std::string_view text, std::size_t at) {
  for (const OomBackend& backend : kOomBackends)
    if (text.substr(0, at).ends_with(backend.word)) return &backend;
  return nullptr;
}

}  // namespace

std::optional<OomText> find_oom_text(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find(kOutOfMemory, from); at != std::string_view::npos;
       at = text.find(kOutOfMemory, at + 1)) {
    const OomBackend* backend = backend_before(text, at);
    if (backend == nullptr) continue;
    const std::size_t begin = at - backend->word.size();
    std::string_view sentence = text.substr(begin);
    // Another sentence may stand behind it in the same line.
    const std::size_t next = sentence.find(kOutOfMemory, at - begin + kOutOfMemory.size());
    if (next != std::string_view::npos && backend_before(sentence, next) != nullptr)
      sentence = sentence.substr(0, next);
    // "CUDA error: out of memory" and a comment about a CUDA out of memory name no request.
    const std::string_view after = sentence.substr(backend->word.size() + kOutOfMemory.size());
    const bool names_request = sentence.find("ried to allocate") < 400 ||
                               after.starts_with(". T") || without_spaces(after) == "." ||
                               (backend->name == "mps" && after.starts_with(" ("));
    if (!names_request) continue;
    OomText found;
    found.begin = begin;
    found.failure.kind = MemoryFailure::Kind::kDeviceAllocator;
    found.failure.backend = std::string(backend->name);
    read_numbers(sentence, found.failure);
    if (backend->name == "mps") read_mps(sentence, found.failure);
    found.failure.era = era_of(sentence, found.failure);
    found.failure.message = message_of(sentence);
    found.fields = numbers_of(found.failure);
    found.whole = is_whole(sentence, backend->name);
    return found;
  }
  return std::nullopt;
}

}  // namespace steelyard
