#include "allocator/device_lag.h"

#include "allocator/slot_streams.h"

namespace steelyard {

void DeviceLag::begin_step(int step, CachingAllocator& allocator) {
  awaited_.clear();
  behind_ = step > 0 ? queue_.depth : 0;
  allocator.catch_up(kCollectiveStream);
}

void DeviceLag::begin_tape(NodeId tape) {
  const auto index = static_cast<std::size_t>(tape);
  before_tape_ = launched_;
  of_tape_ = queue_.depth > 0 && index < queue_.launches.size() ? queue_.launches[index] : 0;
}

void DeviceLag::end_tape(CachingAllocator& allocator) {
  launched_ = before_tape_ + of_tape_;
  catch_up(allocator);
}

void DeviceLag::played(std::size_t events, std::size_t of, CachingAllocator& allocator) {
  if (of_tape_ == 0) return;
  launched_ =
      before_tape_ + of_tape_ * static_cast<std::int64_t>(events) / static_cast<std::int64_t>(of);
  catch_up(allocator);
}

void DeviceLag::free_later(BlockIndex block, CachingAllocator& allocator) {
  allocator.record_stream(block, kCollectiveStream);
  awaited_.push_back({launched_, allocator.address_of(block)});
  allocator.free(block);
}

void DeviceLag::catch_up(CachingAllocator& allocator) {
  const std::size_t before = awaited_.size();
  while (!awaited_.empty() && awaited_.front().launched + behind_ <= launched_)
    awaited_.pop_front();
  if (awaited_.size() != before) allocator.catch_up(kCollectiveStream, awaited_.size());
}

void DeviceLag::add_to(StateDigest& digest) const {
  for (std::size_t place = 0; place < awaited_.size(); ++place) {
    StateDigest one;
    one.add(static_cast<std::uint64_t>(awaited_[place].address));
    one.add(one.second ^ static_cast<std::uint64_t>(launched_ - awaited_[place].launched));
    one.add(one.second ^ static_cast<std::uint64_t>(place));
    digest.add(one.second);
  }
}

}  // namespace steelyard
