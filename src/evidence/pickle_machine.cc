#include "evidence/pickle_machine.h"

#include "evidence/pickle_stack.h"

namespace steelyard {

tl::expected<Pickle, Diagnostics> read_pickle(std::string_view bytes,
                                              std::string_view source_name) {
  PickleInput input(bytes, source_name);
  PickleStack stack(input);
  PickleMachine<PickleStack>(input, stack).run();
  if (!input.problems().empty()) return tl::unexpected(std::move(input.problems()));
  return std::move(stack).taken();
}

}  // namespace steelyard
