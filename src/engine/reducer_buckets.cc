// What DistributedDataParallel allocates beside a model: flat copies while it sends the model's tensors from the first rank
// to the others, and the buckets in which it reduces gradients.
//
//   start          tensors in order, closed at 250 MiB; a flat copy of each such run of several, two at a time
//   first step     one bucket of all gradients (first_bucket)
//   later          in the order in which gradients came, the last tensor first: closed at 1 MiB once, then at bucket_cap_mb
//
// Sources: torch/csrc/distributed/c10d/comm.cpp, broadcast_coalesced; reducer.cpp, rebuild_buckets and
// compute_bucket_assignment_by_size; torch/nn/parallel/distributed.py, broadcast_bucket_size (2.x).
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace steelyard {
namespace {

constexpr std::int64_t kBroadcastBytes = std::int64_t{250} << 20;
constexpr std::int64_t kFirstBucketBytes = std::int64_t{1} << 20;

// Tensors one after the other, closed when they are as large as the limit.
struct TensorRun {
  Bytes bytes{};
  std::int64_t tensors = 0;

  void add(Bytes tensor) {
    bytes += tensor;
    ++tensors;
  }
};

}  // namespace

template <class N>
void EngineModel<N>::send_from_first_rank(const Stage<N>& stage, ElementType type, Events& events) {
  const std::vector<std::int64_t>& count = counts(stage);
  const std::vector<const Unit<N>*> units = all_units();
  std::vector<SlotId> under_way;  // oldest first; -1: one tensor, which is sent as it is
  const auto finish_one = [&] {
    if (under_way.front() >= 0) events.push_back({under_way.front(), -1});
    under_way.erase(under_way.begin());
  };
  TensorRun run;
  const auto send = [&] {
    const TensorRun sent = std::exchange(run, {});
    if (sent.tensors == 0) return;
    SlotId flat = -1;
    if (sent.tensors > 1) {
      SlotId& known = broadcast_[sent.bytes];
      if (known == 0)
        known =
            1 + book_.slot({"model", "tensors on their way to other ranks, flat", "ddp.broadcast"},
                           Pile::kCommunication,
                           Workbook<N>::counted("tensors of 250 MiB", sent.bytes.value().value()),
                           ElementType::kInt8);
      flat = known - 1;
      events.push_back({flat, 1});
    }
    under_way.push_back(flat);
    if (under_way.size() >= 2) finish_one();
  };
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    for (std::int64_t times = 0; times < count[unit]; ++times)
      for (const TensorShare<N>& share : units[unit]->tensors)
        for (std::int64_t copy = 0; copy < share.copies; ++copy) {
          run.add(bytes_of(Elements(Checked(plain(share.elements))), type));
          if (run.bytes >= Bytes(kBroadcastBytes)) send();
        }
  send();
  while (!under_way.empty()) finish_one();
}

// A layer's in the order in which backward makes their gradients, which is that of forward the other way round; of the ends,
// the last parameter first.
template <class N>
std::vector<const TensorShare<N>*> EngineModel<N>::as_gradients_come(std::size_t unit,
                                                                     const Unit<N>& of) const {
  std::vector<const TensorShare<N>*> shares;
  for (auto share = of.tensors.rbegin(); share != of.tensors.rend(); ++share)
    shares.push_back(&*share);
  const std::size_t kinds = context_.gradients_of_kind.size();
  if (unit == 0 || unit > kinds) return shares;
  const std::vector<SlotId>& gradients = context_.gradients_of_kind[unit - 1];
  const auto turn = [&](const TensorShare<N>* share) {
    const auto made = std::find_if(gradients.rbegin(), gradients.rend(), [&](SlotId gradient) {
      return book_.program.slot_at(gradient).owner == share->tensor->name;
    });
    return made - gradients.rbegin();
  };
  std::stable_sort(shares.begin(), shares.end(),
                   [&](const auto* a, const auto* b) { return turn(a) < turn(b); });
  return shares;
}

template <class N>
SlotId EngineModel<N>::rebuilt_buckets(const Stage<N>& stage, ElementType type) {
  const std::vector<std::int64_t>& count = counts(stage);
  const std::vector<const Unit<N>*> units = all_units(Of::kTrained);
  TensorSum buckets = book_.tensor_sum();
  Bytes limit(std::min<Checked>(kFirstBucketBytes, job_.buckets.ddp_bytes));
  TensorRun run;
  const auto close = [&] {
    if (run.tensors > 0) buckets.add(allocated_size(run.bytes), 1, 0);
    run = {};
    limit = Bytes(job_.buckets.ddp_bytes);
  };
  for (std::size_t unit = units.size(); unit-- > 0;) {
    const std::vector<const TensorShare<N>*> shares = as_gradients_come(unit, *units[unit]);
    for (std::int64_t times = 0; times < count[unit]; ++times)
      for (const TensorShare<N>* share : shares)
        for (std::int64_t copy = 0; copy < share->copies; ++copy) {
          run.add(bytes_of(Elements(Checked(plain(share->elements))), type));
          if (run.bytes >= limit) close();
        }
  }
  close();
  return book_.slot_of_tensors({"gradients", "buckets", "ddp.buckets"}, Pile::kCommunication,
                               trained_elements(stage), type, std::move(buckets));
}

template <class N>
SlotId EngineModel<N>::first_bucket(const Stage<N>& stage, ElementType type) {
  return book_.slot({"gradients", "one bucket of the first step", "ddp.buckets"},
                    Pile::kCommunication, trained_elements(stage), type);
}

template class EngineModel<Checked>;
template class EngineModel<Traced>;

}  // namespace steelyard
