#include <steelyard/native.h>

#include "api/local_machine.h"
#include "cli/machine_world.h"

namespace steelyard {
namespace {

class ThisMachine final : public LocalMachine {
 public:
  explicit ThisMachine(unsigned threads) : world_(threads) {}
  World& machine() override { return world_; }

 private:
  MachineWorld world_;
};

}  // namespace

std::shared_ptr<LocalMachine> this_machine(unsigned threads) {
  return std::make_shared<ThisMachine>(threads);
}

}  // namespace steelyard
