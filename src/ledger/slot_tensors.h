// Slots that stand for many tensors: each is a block of its own, and that decides what an allocator reserves.
//
//   parameters of a layer   33.5 MB · 8.4 · 8.4 · 33.5 · 117.4 ...           in the order in which they are made
//   woven: exp_avg with exp_avg_sq                                           of the first tensor, then of the second ...
//   joined: a buffer's parts of embedding, layers and head                   one block
//
// The sum is always kept; the list only where an allocator will ask (SlotDetail::kTensors), so that spans do not pay.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "quantity/quantity.h"

namespace steelyard {

enum class SlotDetail : std::uint8_t { kSums, kTensors };

// Whether a collective of the communication library reads or writes it, on a stream of its own: one that computation
// waits for at once, or one beside it.
enum class Exchanged : std::uint8_t { kNo, kWaitedFor, kBeside };

struct SlotTensors {
  struct Tensor {
    Bytes bytes{};           // as allocated: rounded to 512 bytes
    std::int32_t place = 0;  // of the parameter that it belongs to, within its unit
  };
  std::vector<Tensor> tensors;  // empty: the slot is one tensor
  // Slots of one number (0: none) that appear side by side are made together, place by place.
  std::int32_t woven = 0;
  // Slots of one number (0: none) that appear one behind the other are parts of one tensor.
  std::int32_t joined = 0;
  Exchanged exchanged = Exchanged::kNo;
  // A ring: of several the one goes that has been there longest, whichever micro-batch made it.
  bool oldest_goes = false;
};

// Adds tensors up, and writes them down where that is wanted.
class TensorSum {
 public:
  explicit TensorSum(SlotDetail detail) : detail_(detail) {}

  // `each` bytes `count` times, for parameters that stand one behind the other from `place` on.
  void add(Bytes each, std::int64_t count, std::int64_t place, std::int64_t of_each = 1) {
    bytes_ += each * Checked(count) * Checked(of_each);
    if (detail_ == SlotDetail::kSums) return;
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t k = 0; k < of_each; ++k)
        tensors_.push_back({each, static_cast<std::int32_t>(place + i)});
  }
  Bytes bytes() const { return bytes_; }
  std::vector<SlotTensors::Tensor> take_tensors() && { return std::move(tensors_); }

 private:
  SlotDetail detail_;
  Bytes bytes_{};
  std::vector<SlotTensors::Tensor> tensors_;
};

}  // namespace steelyard
