// What native.h lends: a machine, kept alive by the caller.
#pragma once

#include "world/world.h"

namespace steelyard {

class LocalMachine {
 public:
  virtual ~LocalMachine() = default;
  virtual World& machine() = 0;
};

}  // namespace steelyard
