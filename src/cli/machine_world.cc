#include "cli/machine_world.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "cli/outlet.h"
#include "quantity/print.h"
#include "report/time_table.h"

namespace steelyard {
namespace {

namespace fs = std::filesystem;

std::string reason_unread(int failure) {
  return failure == ENOENT   ? "no such file"
         : failure == EISDIR ? "it is a folder"
         : failure == EACCES ? "permission denied"
                             : std::strerror(failure);
}

class Descriptor final : public InputSource {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() override {
    if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  std::ptrdiff_t read(char* room, std::size_t size, std::string& why) override {
    ssize_t count = -1;
    do count = ::read(descriptor_, room, size);
    while (count < 0 && errno == EINTR);
    if (count < 0) why = reason_unread(errno);
    return count;
  }

 private:
  int descriptor_;
};

std::atomic<bool> asked_to_stop{false};
extern "C" void stop_the_search(int) {
  asked_to_stop = true;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

MachineWorld::MachineWorld(std::size_t threads)
    : threads_(threads > 0 ? threads
                           : std::max<std::size_t>(1, std::thread::hardware_concurrency())) {}

PathKind MachineWorld::kind_of(const std::string& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  switch (status.type()) {
    case fs::file_type::not_found:
    case fs::file_type::none:
      return PathKind::kNothing;
    case fs::file_type::regular:
      return PathKind::kFile;
    case fs::file_type::directory:
      return fs::is_empty(path, failed) && !failed ? PathKind::kEmptyFolder : PathKind::kFolder;
    default:
      return PathKind::kOther;
  }
}

std::unique_ptr<InputSource> MachineWorld::open(const std::string& path, std::string& why) {
  const int descriptor = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) return std::make_unique<Descriptor>(descriptor);
  why = reason_unread(errno);
  return nullptr;
}

bool MachineWorld::is_below(const std::string& path, const std::vector<std::string>& folders) {
  std::error_code failed;
  const fs::path file = fs::canonical(path, failed);
  if (failed) return false;
  return std::any_of(folders.begin(), folders.end(), [&](const std::string& name) {
    std::error_code unknown;
    const fs::path folder = fs::canonical(name.empty() ? "." : name, unknown);
    if (unknown || folder == folder.root_path()) return false;
    return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
           folder.end();
  });
}

std::vector<std::string> MachineWorld::files_below(const std::string& folder, int deepest,
                                                   std::size_t most) {
  std::vector<std::string> paths;
  std::error_code failed;
  for (auto at = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied, failed);
       !failed && at != fs::recursive_directory_iterator() && paths.size() < most;
       at.increment(failed)) {
    if (at.depth() > deepest) at.disable_recursion_pending();
    std::error_code unknown;
    if (at->is_regular_file(unknown)) paths.push_back(at->path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// As many threads as are wanted; the work is handed out in small pieces.
void MachineWorld::share(std::size_t count, std::size_t threads,
                         const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  const std::size_t together = std::min(threads > 0 ? threads : threads_, count);
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < together; ++i) others.emplace_back(run);
  run();
  for (std::thread& thread : others) thread.join();
}

double MachineWorld::seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ProgramWorld::~ProgramWorld() {
  if (shown_at_ > 0) status_line("");
}

// One line on a terminal, from half a second on.
bool ProgramWorld::go_on(const WorkDone& at) {
  if (at.seconds > 0.5 && at.seconds - shown_at_ > 0.1 && ::isatty(STDERR_FILENO) == 1) {
    shown_at_ = at.seconds;
    const double rest = at.done == 0 ? 0
                                     : at.seconds * static_cast<double>(at.all - at.done) /
                                           static_cast<double>(at.done);
    status_line(fmt::format("weighed {} of at most {} layouts · {} · at most {:.1f} s left",
                            print_count(at.done), print_count(at.all),
                            at.best_seconds > 0 ? "best " + print_seconds(Seconds(at.best_seconds))
                                                : std::string("none fits yet"),
                            rest));
  }
  return !asked_to_stop;
}

bool ProgramWorld::stopped() { return asked_to_stop; }

void ProgramWorld::listen_for_stop() { std::signal(SIGINT, stop_the_search); }

}  // namespace steelyard
