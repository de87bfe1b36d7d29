// The world of one call of the library: the texts that were handed in, the answer as it is put together, and the machine
// where the caller lends it.
#pragma once

#include <steelyard/steelyard.h>

#include <mutex>
#include <string>
#include <vector>

#include "world/world.h"

namespace steelyard {

class CallWorld final : public World {
 public:
  // `files`: what the request holds itself; they go before those of `around`. All three outlive the call.
  CallWorld(const Surrounding& around, const std::vector<NamedText>& files, Reply& reply);

  bool has_machine() override { return machine_ != nullptr; }
  PathKind kind_of(const std::string& path) override;
  std::unique_ptr<InputSource> open(const std::string& path, std::string& why) override;
  const std::string* text_in_memory(const std::string& path) override;
  bool is_below(const std::string& path, const std::vector<std::string>& folders) override;
  std::vector<std::string> files_below(const std::string& folder, int deepest,
                                       std::size_t most) override;
  bool keeps_files() override { return true; }
  void keep_file(const std::string& path, std::string_view text) override;
  bool take_answer(std::string_view text) override;
  bool take_remark(std::string_view text) override;
  void share(std::size_t count, std::size_t threads,
             const std::function<void(std::size_t)>& work) override;
  std::size_t threads() override;
  double seconds() override;
  bool go_on(const WorkDone& at) override;
  bool stopped() override;

 private:
  const Surrounding& around_;
  const std::vector<NamedText>& files_;
  Reply& reply_;
  World* machine_;
  std::mutex talks_;  // progress may be told from any thread of a search
  bool stopped_ = false;
};

}  // namespace steelyard
