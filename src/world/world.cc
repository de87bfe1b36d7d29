#include "world/world.h"

namespace steelyard {
namespace {

thread_local World* current = nullptr;

}  // namespace

PathKind World::kind_of(const std::string& /*path*/) { return PathKind::kNothing; }

std::unique_ptr<InputSource> World::open(const std::string& /*path*/, std::string& why) {
  why = "no such file";
  return nullptr;
}

const std::string* World::text_in_memory(const std::string& /*path*/) { return nullptr; }

bool World::is_below(const std::string& /*path*/, const std::vector<std::string>& /*folders*/) {
  return false;
}

std::vector<std::string> World::files_below(const std::string& /*folder*/, int /*deepest*/,
                                            std::size_t /*most*/) {
  return {};
}

bool World::has_machine() { return false; }
bool World::keeps_files() { return false; }
void World::keep_file(const std::string& /*path*/, std::string_view /*text*/) {}
bool World::take_answer(std::string_view /*text*/) { return false; }
bool World::take_remark(std::string_view /*text*/) { return false; }

void World::share(std::size_t count, std::size_t /*threads*/,
                  const std::function<void(std::size_t)>& work) {
  for (std::size_t i = 0; i < count; ++i) work(i);
}

std::size_t World::threads() { return 1; }
double World::seconds() { return 0; }
bool World::go_on(const WorkDone& /*at*/) { return true; }
void World::listen_for_stop() {}
bool World::stopped() { return false; }

World& world() {
  static World nothing;
  return current == nullptr ? nothing : *current;
}

InWorld::InWorld(World& here) : before_(current) { current = &here; }
InWorld::~InWorld() { current = before_; }

}  // namespace steelyard
