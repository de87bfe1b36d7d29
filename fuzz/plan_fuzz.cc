// Any text as a question for a plan: where its layouts are few, the search answers as weighing all of them does; where they are
// many, it stops when it is told to and accounts for each.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "document/read.h"
#include "plan/question.h"
#include "plan/search.h"

namespace {

using steelyard::Fate;
using steelyard::SearchResult;
using steelyard::SearchWish;
using steelyard::Space;
using steelyard::WeighedLayout;

constexpr std::size_t kMostText = 256 * 1024;
// What is weighed one by one, on models and clusters that take a moment.
constexpr std::uint32_t kMostLayouts = 64;
constexpr std::int64_t kMostLayers = 4, kMostDevices = 8, kMostSequences = 64;
// Looks at the clock before the time is up.
constexpr int kMostLooks = 400;

void check(bool right) {
  if (!right) std::abort();
}

steelyard::SearchHelp help_with(int& looks) {
  steelyard::SearchHelp help = steelyard::serial_help();
  help.expired = [&looks] { return looks <= 0 || --looks <= 0; };
  return help;
}

void check_sums(const SearchResult& result) {
  const steelyard::SearchCounts& counts = result.counts;
  check(counts.not_allowed + counts.certainly_too_large + counts.cannot_be_faster +
            counts.not_asked + counts.weighed() ==
        counts.layouts);
  check(counts.not_asked == 0 || result.interrupted);
}

void check_same(const std::vector<WeighedLayout>& a, const std::vector<WeighedLayout>& b) {
  check(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    check(a[i].layout == b[i].layout && a[i].seconds == b[i].seconds && a[i].bytes == b[i].bytes);
}

void compare_with_everything(const steelyard::PlanQuestion& question, const Space& space) {
  SearchWish wish;
  wish.best = 3;
  SearchWish all = wish;
  all.everything = true;
  const auto ask = [&](const SearchWish& asked) {
    return search(question.run, question.target, space, asked, steelyard::serial_help());
  };
  const SearchResult pruned = ask(wish), whole = ask(all);
  check_sums(pruned);
  check_sums(whole);
  check((pruned.best() == nullptr) == (whole.best() == nullptr));
  check_same(best_unlike(pruned, space, 3), best_unlike(whole, space, 3));
  for (const WeighedLayout& weighed : whole.weighed) {
    check(weighed.least_bytes <= static_cast<double>(weighed.bytes));
    check(weighed.least_high <= static_cast<double>(weighed.high));
    check(weighed.seconds <= 0 || weighed.least_seconds <= weighed.seconds * (1 + 1e-9));
  }
}

void plan(const steelyard::Value& document) {
  int looks = kMostLooks;
  const steelyard::SearchHelp help = help_with(looks);
  const auto question = steelyard::question_of(document, help);
  if (!question) {
    check(!question.error().empty());
    return;
  }
  const steelyard::PlanTarget& target = question->target;
  const Space space = space_of(*question, help);
  const bool quick = target.model->layers <= kMostLayers && target.devices <= kMostDevices &&
                     target.global_batch <= kMostSequences;
  if (!space.unfinished && space.size() <= kMostLayouts && quick) {
    compare_with_everything(*question, space);
    return;
  }
  looks = quick ? kMostLooks / 8 : 1;
  const SearchResult stopped = search(question->run, target, space, {}, help);
  check_sums(stopped);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > kMostText) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto document = steelyard::read_document(text, "run.toml")) plan(*document);
  return 0;
}
