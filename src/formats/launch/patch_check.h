// Edited launch files, read again: whether they are the run that was wanted.
//
//   PatchCheck check(main, imported, wanted, changed, context);
//   check.differences(edits)         {} or {"training.micro_batch"}: keys in which they are another run
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "formats/launch/launch.h"
#include "formats/launch/patch_launcher.h"
#include "formats/launch/patch_text.h"

namespace steelyard {

constexpr const char* kTheFile = "the file";  // in place of a key: it is no run any more

bool is_same_place(const Mark& one, const Mark& other);
const LaunchSource* source_of(const Imported& imported, const Mark& mark);

class PatchCheck {
 public:
  // All are kept by reference: `wanted` and `changed` may be completed until the first question.
  PatchCheck(const std::string& main, const Imported& imported, const Value& wanted,
             const std::set<std::string>& changed, const LaunchContext& context)
      : main_(main), imported_(imported), wanted_(wanted), changed_(changed), context_(context) {}

  // The texts with these edits. What a script writes itself, between << and its end, is edited in the script.
  std::map<std::string, std::string> texts_of(const std::vector<const PlacedEdit*>& edits) const;
  // The keys in which the files, read again, are another run than the one that is wanted.
  std::vector<std::string> differences(const std::vector<const PlacedEdit*>& edits) const;
  // Why the last that could not be read could not.
  const Diagnostic& failure() const { return failure_; }

 private:
  std::vector<std::string> edited_keys(const std::vector<const PlacedEdit*>& edits) const;
  bool stands_with_a_change(const Value& run, const std::string& key) const;

  const std::string& main_;
  const Imported& imported_;
  const Value& wanted_;
  const std::set<std::string>& changed_;
  const LaunchContext& context_;
  mutable Diagnostic failure_;
};

}  // namespace steelyard
