// The tensors that a run should have, by size: what a measured block is compared with.
//
//   expected_tensors(job, rank_index)
//     1,050,673,152 B   activations   loss     logits              1
//       234,881,024 B   activations   mlp      gate_proj output   32
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "ledger/pile.h"

namespace steelyard {

struct ExpectedTensor {
  std::int64_t size = 0;   // rounded as the allocator does
  std::int64_t count = 0;  // alive at once, at most
  Pile pile = Pile::kActivations;
  std::string owner, name;
};

// Of all phases of that rank; largest first.
std::vector<ExpectedTensor> expected_tensors(const Job& job, std::size_t rank_index);

}  // namespace steelyard
