#include "api/call_world.h"

#include <algorithm>
#include <cstring>

#include "api/local_machine.h"

namespace steelyard {
namespace {

class HeldText final : public InputSource {
 public:
  explicit HeldText(const std::string& text) : text_(text) {}
  std::ptrdiff_t read(char* room, std::size_t size, std::string& /*why*/) override {
    const std::size_t count = std::min(size, text_.size() - at_);
    std::memcpy(room, text_.data() + at_, count);
    at_ += count;
    return static_cast<std::ptrdiff_t>(count);
  }

 private:
  const std::string& text_;
  std::size_t at_ = 0;
};

// "./configs/run.toml" is "configs/run.toml".
std::string_view plain_name(std::string_view path) {
  while (path.starts_with("./")) path.remove_prefix(2);
  return path;
}

bool is_in(std::string_view file, std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  return folder.empty() || folder == "." ||
         (file.size() > folder.size() + 1 && file.starts_with(folder) &&
          file[folder.size()] == '/');
}

}  // namespace

CallWorld::CallWorld(const Surrounding& around, const std::vector<NamedText>& files, Reply& reply)
    : around_(around),
      files_(files),
      reply_(reply),
      machine_(around.machine == nullptr ? nullptr : &around.machine->machine()) {}

const std::string* CallWorld::text_in_memory(const std::string& path) {
  for (const std::vector<NamedText>* files : {&files_, &around_.files})
    for (const NamedText& file : *files)
      if (plain_name(file.name) == plain_name(path)) return &file.text;
  return nullptr;
}

PathKind CallWorld::kind_of(const std::string& path) {
  if (text_in_memory(path) != nullptr) return PathKind::kFile;
  if (!path.empty())
    for (const std::vector<NamedText>* files : {&files_, &around_.files})
      for (const NamedText& file : *files)
        if (plain_name(path) != "." && is_in(plain_name(file.name), plain_name(path)))
          return PathKind::kFolder;
  return machine_ == nullptr ? PathKind::kNothing : machine_->kind_of(path);
}

std::unique_ptr<InputSource> CallWorld::open(const std::string& path, std::string& why) {
  if (const std::string* text = text_in_memory(path)) return std::make_unique<HeldText>(*text);
  // Nobody pipes anything into a library.
  if (machine_ != nullptr && path != "-") return machine_->open(path, why);
  why = "no such file";
  return nullptr;
}

bool CallWorld::is_below(const std::string& path, const std::vector<std::string>& folders) {
  if (text_in_memory(path) != nullptr) return true;
  return machine_ != nullptr && machine_->is_below(path, folders);
}

std::vector<std::string> CallWorld::files_below(const std::string& folder, int deepest,
                                                std::size_t most) {
  std::vector<std::string> paths;
  for (const std::vector<NamedText>* files : {&files_, &around_.files})
    for (const NamedText& file : *files)
      if (paths.size() < most && is_in(plain_name(file.name), plain_name(folder)))
        paths.push_back(file.name);
  if (machine_ != nullptr && machine_->kind_of(folder) == PathKind::kFolder)
    for (std::string& path : machine_->files_below(folder, deepest, most))
      if (paths.size() < most && text_in_memory(path) == nullptr) paths.push_back(std::move(path));
  std::sort(paths.begin(), paths.end());
  return paths;
}

void CallWorld::keep_file(const std::string& path, std::string_view text) {
  reply_.files.push_back({path, std::string(text)});
}

bool CallWorld::take_answer(std::string_view text) {
  reply_.text += text;
  return true;
}

bool CallWorld::take_remark(std::string_view text) {
  reply_.remarks += text;
  return true;
}

void CallWorld::share(std::size_t count, std::size_t threads,
                      const std::function<void(std::size_t)>& work) {
  if (machine_ != nullptr)
    machine_->share(count, threads, work);
  else
    World::share(count, threads, work);
}

std::size_t CallWorld::threads() { return machine_ == nullptr ? 1 : machine_->threads(); }

double CallWorld::seconds() { return machine_ == nullptr ? 0 : machine_->seconds(); }

bool CallWorld::go_on(const WorkDone& at) {
  const std::lock_guard one_at_a_time(talks_);
  if (!stopped_ && around_.progress && !around_.progress(at.done, at.all, at.best_seconds))
    stopped_ = true;
  return !stopped_;
}

bool CallWorld::stopped() {
  const std::lock_guard one_at_a_time(talks_);
  return stopped_;
}

}  // namespace steelyard
