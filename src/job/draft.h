// A job while it is being completed: what was written, what is decided, what is wrong.
//
//   const std::int64_t tensor = draft.count_or(KeyId::kTensor, 1, "not given");
//   if (...) draft.refuse(KeyId::kTensor, "E212", "tensor 8 does not divide 12 heads", "...", "tensor = 4 does");
//
// Whoever takes a default says so: it becomes an assumption of the job.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "job/job.h"
#include "job/keys.h"
#include "job/settings.h"

namespace steelyard {

class Draft {
 public:
  Draft(const Settings& settings, Job& job, Diagnostics& problems)
      : settings_(settings), job_(job), problems_(problems) {}

  const Settings& settings() const { return settings_; }
  Job& job() { return job_; }
  const Job& job() const { return job_; }
  bool has(KeyId id) const { return settings_.has(id); }

  // The value as written, or the fallback with its reason among the assumptions.
  std::int64_t count_or(KeyId id, std::int64_t fallback, std::string_view reason);
  bool truth_or(KeyId id, bool fallback, std::string_view reason);
  // The same for the enumerations of job.h, which have the order of the key's names.
  template <class Name>
  Name name_or(KeyId id, Name fallback, std::string_view reason) {
    return static_cast<Name>(index_or(id, static_cast<int>(fallback), reason));
  }

  // The value as written, or the fallback without a word: for what changes nothing when it is absent.
  std::int64_t count_or(KeyId id, std::int64_t fallback) const {
    return settings_.count(id).value_or(fallback);
  }
  bool truth_or(KeyId id, bool fallback) const { return settings_.truth(id).value_or(fallback); }

  void assume(KeyId id, std::string value, std::string_view reason);
  void refuse(KeyId id, std::string_view code, std::string message, std::string label,
              std::string help = {});
  void warn(KeyId id, std::string_view code, std::string message, std::string label,
            std::string help = {});
  // Of one item of a list, where it stands.
  void refuse_at(const Place& place, std::string_view code, std::string message, std::string label,
                 std::string help = {});
  // The run is weighed, and stops before its first step is done. The code is one that the table of codes marks so.
  void warn_of_death(KeyId id, std::string_view code, std::string message, std::string label,
                     std::string help = {});

 private:
  int index_or(KeyId id, int fallback, std::string_view reason);

  const Settings& settings_;
  Job& job_;
  Diagnostics& problems_;
};

}  // namespace steelyard
