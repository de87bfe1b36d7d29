// The machine that the program runs on, as a world: its files, its cores, its clock.
//
//   MachineWorld machine;
//   InWorld here(machine);
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "world/world.h"

namespace steelyard {

class MachineWorld : public World {
 public:
  // 0: as many threads as there are cores.
  explicit MachineWorld(std::size_t threads = 0);

  bool has_machine() override { return true; }
  PathKind kind_of(const std::string& path) override;
  std::unique_ptr<InputSource> open(const std::string& path, std::string& why) override;
  bool is_below(const std::string& path, const std::vector<std::string>& folders) override;
  std::vector<std::string> files_below(const std::string& folder, int deepest,
                                       std::size_t most) override;
  void share(std::size_t count, std::size_t threads,
             const std::function<void(std::size_t)>& work) override;
  std::size_t threads() override { return threads_; }
  double seconds() override;

 private:
  std::size_t threads_;
};

// The program's: progress stands on the terminal, and the first Ctrl-C asks for the best so far; a second one ends the program.
class ProgramWorld : public MachineWorld {
 public:
  ~ProgramWorld() override;
  bool go_on(const WorkDone& at) override;
  void listen_for_stop() override;
  bool stopped() override;

 private:
  double shown_at_ = 0;
};
}  // namespace steelyard
