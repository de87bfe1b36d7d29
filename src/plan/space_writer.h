// Writes layouts into a space, bundle by bundle, and says of each which form it has.
//
//   writer.start_forms()                    another engine, recipe, tensor, context, experts or loss
//   writer.add(common, rounds, divisions, recomputations)
//
// Equal lists are kept once. Layouts whose micro-batch computes the same are one form: a layout without its pipeline, its
// replicas and its rounds, on one data rank or on the fewest that stand for several.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "job/settings.h"
#include "plan/space.h"

namespace steelyard {

class SpaceWriter {
 public:
  SpaceWriter(const Settings& fixed, Space& space) : fixed_(fixed), space_(space) {}

  void start_forms();
  // Every combination of the three lists. What the space has no room for cuts it short.
  void add(const Layout& common, const std::vector<Rounds>& rounds,
           const std::vector<Division>& divisions,
           const std::vector<Recomputation>& recomputations);
  // As the run or the layout's recipe says: optimizer, parameters, activations.
  bool offloads(const Layout& layout, KeyId offload) const;

 private:
  template <class Item>
  class Numbered {
   public:
    std::uint16_t number_of(const std::vector<Item>& list, std::vector<std::vector<Item>>& all) {
      const auto [found, fresh] = known_.try_emplace(list, static_cast<std::uint16_t>(all.size()));
      if (fresh) all.push_back(list);
      return found->second;
    }

   private:
    std::map<std::vector<Item>, std::uint16_t> known_;
  };

  void add_forms(Layout layout, const std::vector<Rounds>& rounds,
                 const std::vector<Recomputation>& recomputations);
  void add_base(Layout form);

  // What tells forms apart since start_forms().
  using FormKey = std::tuple<Implementation, std::int32_t, RecomputeMode, bool>;
  static RecomputeMode mode_of_form(const Layout& layout);
  static FormKey form_key(const Layout& layout);
  Layout form_of(const Layout& layout) const;
  std::uint8_t stage_of_form(const Layout& layout) const;

  const Settings& fixed_;
  Space& space_;
  std::map<FormKey, std::uint32_t> forms_here_, bases_here_;
  std::map<std::tuple<Implementation, bool, std::uint16_t, std::uint16_t>, std::uint32_t>
      form_rows_here_;
  Numbered<Rounds> rounds_;
  Numbered<Division> divisions_;
  Numbered<Recomputation> recomputations_;
};

}  // namespace steelyard
