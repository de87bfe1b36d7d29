// A failure as its text says it, with what its frames mean: what the rules of the text share.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "diagnose/diagnosis.h"
#include "diagnose/shape_words.h"
#include "evidence/stack_origin.h"

namespace steelyard {

struct FailureView {
  const MemoryFailure& failure;
  const DiagnosisQuestion& question;
  StackOrigin origin;
  std::int64_t tried = 0, cached = 0, free = 0;  // cached: reserved and not allocated
  std::optional<std::int64_t> allocated;
};

// Whether one of the innermost frames, or its line of source, has that word.
bool frames_say(const MemoryFailure& failure, std::string_view word);

// The segment behind a printed size, which has two decimals.
SizeRange segment_range(std::int64_t tried);

// Frames that name the cause, whatever the run should hold then.
bool is_decisive(const StackOrigin& origin);

// What the run says of it: findings of its own, and those of the text that it makes more or less likely.
void hold_failure_against_run(const FailureView& view, std::vector<Finding>& findings);

}  // namespace steelyard
