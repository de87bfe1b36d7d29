// The readers' answers to layouts: the jobs that a search weighs, and those that stand for many of them.
//
//   reader.job_of(layout)         the run file with the layout's keys laid over, read
//   reader.facts_of(base)         what bounds the memory and the time of every layout with this base
//   reader.time_of(form)          one micro-batch of layouts with this form
//   reader.times_of_groups(...)   the same with its data ranks
#pragma once

#include <memory>
#include <vector>

#include "plan/search.h"

namespace steelyard {

class LayoutReader {
 public:
  LayoutReader(const Value& run, const PlanTarget& target, const Space& space,
               const SearchHelp& help);

  ReadJob job_of(const Layout& layout) const;
  bool is_out_of_time() const { return help_.is_out_of_time(); }
  // Whether the run file says how layers are cut into stages.
  bool stages_are_stated() const;
  // `timed`: somebody will ask for time, too.
  FormFacts facts_of(const Layout& base, bool timed) const;
  // `again`: some of its layouts compute layers again. All 0 where nothing is known.
  PassageTime time_of(const Layout& form, bool again) const;
  // Groups of one form that differ only in data ranks, replicas, how many rounds there are, if more than one, and how many
  // stages, if more than one: their kernels are the same. `first`: any layout of the group.
  struct AskedGroup {
    Layout first;
    bool again = false;   // some compute layers again
    bool splits = false;  // some split backward
  };
  std::vector<std::shared_ptr<const GroupTime>> times_of_groups(
      const Layout& form, const std::vector<AskedGroup>& groups) const;

 private:
  struct Clocks;
  GroupTime time_of_group(const Layout& form, const AskedGroup& group, bool again,
                          std::unique_ptr<Clocks>& clocks) const;
  ReadJob job_of_form(const Layout& form) const;
  bool recomputes_what_it_refuses(Layout base) const;
  FormFacts facts_of(const Layout& base, const Job& job, bool timed) const;

  const Value& run_;
  const PlanTarget& target_;
  const Space& space_;
  const SearchHelp& help_;
  // A form stands for itself: what the run file says about stages belongs to layouts that have them, and what it says of
  // divided states to those that divide them.
  Value form_run_, undivided_run_;
};

}  // namespace steelyard
