#include "report/plan_details.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/amount.h"
#include "report/plan_stacks.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

std::string memory(Bytes bytes, const Style& style) { return print_memory(bytes, style.units); }
std::string memory(std::int64_t bytes, const Style& style) { return memory(Bytes(bytes), style); }

std::string batch_words(const PlanQuestion& question) {
  const std::int64_t sequences = question.target.global_batch;
  return fmt::format("{} sequences, {} tokens a step: the schedule can stay",
                     print_count(sequences),
                     print_count(Checked(sequences) * question.target.sequence_length));
}

std::string question_text(const FirstQuestion& first, const Style& style) {
  const Bytes most = std::max({first.activations, first.optimizer, first.replicated});
  const std::string what = most == first.activations ? "activations"
                           : most == first.optimizer ? "optimizer state"
                           : first.shared            ? "parameters"
                                                     : "replicated parameters";
  std::string text =
      named_line(style, "first",
                 {fmt::format("the run as given: {}, {} of {} {}", what, memory(most, style),
                              memory(first.need, style), memory_unit(style.units)),
                  fmt::format("{} usable", memory(first.usable, style))});
  std::vector<std::string> moves;
  for (const FirstQuestion::Move& move : first.moves)
    if (move.need != first.need)  // what is so already is no move
      moves.push_back(
          fmt::format("{} {}{}", move.words, memory(move.need, style), move.fits ? " fits" : ""));
  return moves.empty() ? text : text + "       " + facts(style, moves, 7) + "\n";
}

std::string rejected_text(const PlanAnswer& answer, const Style& style) {
  std::string text;
  std::size_t shown = 0;
  for (const TooLarge& group : answer.result.too_large) {
    if (++shown > 3) break;
    const Layout& layout = answer.space.layout(group.nearest);
    std::string line =
        fmt::format("{} too large by {}: the nearest misses by {} {}", print_count(group.layouts),
                    group.certain ? std::string("weights, states and saved activations")
                    : group.host  ? std::string("what is kept on the host")
                                  : words_of(group.binds),
                    memory(group.least_excess, style), memory_unit(style.units));
    if (const WeighedLayout* fit = nearest_fit(answer.result, answer.space, layout)) {
      const Layout& other = layout_of(answer.space, *fit);
      std::string change = words_of_change(layout, other);
      if (other.recipe != layout.recipe)
        change += (change.empty() ? "" : ", ") +
                  (other.recipe == 0 ? "no " + answer.space.recipes[layout.recipe].name
                                     : answer.space.recipes[other.recipe].name);
      line += "; it would fit with " + change;
    }
    text += "  " + wrapped(style, line, 4) + "\n";
  }
  for (std::size_t i = 0; i < answer.result.refusals.size() && i < 2; ++i) {
    const Refusal& refusal = answer.result.refusals[i];
    text += "  " +
            wrapped(style,
                    fmt::format("{} not allowed [{}]: {}", print_count(refusal.layouts),
                                refusal.code, refusal.words),
                    4) +
            "\n";
  }
  return text;
}

}  // namespace

std::string counts_text(const SearchCounts& counts, const Style& style) {
  std::vector<std::string> parts;
  const auto add = [&](std::int64_t count, const char* words) {
    if (count > 0) parts.push_back(fmt::format("{} {}", print_count(count), words));
  };
  add(counts.not_allowed, "not allowed");
  add(counts.certainly_too_large, "certainly too large");
  add(counts.cannot_be_faster, "that cannot be faster");
  add(counts.not_asked, "not asked");
  add(counts.weighed(), "weighed");
  std::string text = fmt::format("{} layouts = ", print_count(counts.layouts));
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : " + ") + parts[i];
  text += fmt::format(" ({} fit, {} tight, {} too large)", print_count(counts.fits),
                      print_count(counts.tight), print_count(counts.too_large));
  return wrapped(style, text, 2);
}

std::string asked_text(const PlanQuestion& question, const PlanAnswer& answer, const Style& style) {
  std::string text = named_line(style, "batch", {batch_words(question)});
  if (answer.first_question) text += question_text(*answer.first_question, style);
  return text;
}

std::string counted_text(const PlanAnswer& answer, double seconds, const Style& style) {
  return fmt::format("{}, in {:.2f} s\n", counts_text(answer.result.counts, style), seconds) +
         rejected_text(answer, style);
}

}  // namespace steelyard
