#include "engine/cached_blocks.h"

#include <algorithm>

namespace steelyard {

Bytes largest_allocation(const Program& program, NodeId id) {
  const Node& node = program.node(id);
  Bytes largest{};
  if (node.kind == NodeKind::kTape) {
    for (const Event& event : program.events(node))
      if (event.count > 0) largest = std::max(largest, program.slot_at(event.slot).bytes);
  } else {
    for (NodeId child : program.children(node))
      largest = std::max(largest, largest_allocation(program, child));
  }
  return largest;
}

Bytes blocks_beyond(Bytes cached, const Program& program, const std::vector<Event>& events) {
  struct Block {
    Bytes bytes{};
    SlotId used_by = -1;
  };
  std::vector<Block> blocks;
  Bytes sum{};
  for (const Event& event : events) {
    const Bytes bytes = program.slot_at(event.slot).bytes;
    if (bytes <= cached) continue;
    for (std::int32_t i = 0; i < event.count; ++i) {
      Block* best = nullptr;
      for (Block& block : blocks)
        if (block.used_by < 0 && block.bytes >= bytes && (!best || block.bytes < best->bytes))
          best = &block;
      if (!best) {
        sum += bytes;
        best = &blocks.emplace_back(Block{bytes});
      }
      best->used_by = event.slot;
    }
    for (std::int32_t i = 0; i > event.count; --i) {
      const auto used = std::find_if(blocks.begin(), blocks.end(), [&](const Block& block) {
        return block.used_by == event.slot;
      });
      if (used != blocks.end()) used->used_by = -1;
    }
  }
  return sum;
}

}  // namespace steelyard
