#include "cli/paper_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "data/embedded.h"

extern char** environ;

namespace steelyard {
namespace {

namespace fs = std::filesystem;

// A folder of this run's own, which goes with it.
class OwnFolder {
 public:
  OwnFolder() {
    std::error_code fault;
    std::string name = (fs::temp_directory_path(fault) / "steelyard-rehearsal-XXXXXX").string();
    if (!fault && mkdtemp(name.data()) != nullptr) path_ = name;
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder() {
    std::error_code fault;
    if (!path_.empty()) fs::remove_all(path_, fault);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Ctrl-C is the command's: it ends, and then this program says what was seen. Afterwards as before.
class LeftToTheCommand {
 public:
  LeftToTheCommand() {
    struct sigaction leave {};
    leave.sa_handler = SIG_IGN;
    sigaction(SIGINT, &leave, &interrupt_);
    sigaction(SIGQUIT, &leave, &quit_);
  }
  LeftToTheCommand(const LeftToTheCommand&) = delete;
  LeftToTheCommand& operator=(const LeftToTheCommand&) = delete;
  ~LeftToTheCommand() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGQUIT, &quit_, nullptr);
  }

 private:
  struct sigaction interrupt_ {
  }, quit_{};
};

bool put_file(const fs::path& path, std::string_view text) {
  std::error_code fault;
  fs::create_directories(path.parent_path(), fault);
  std::ofstream out(path, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  return static_cast<bool>(out);
}

// The libraries, the observer, and the configurations of models that it may be asked for.
bool unpack(const fs::path& folder) {
  for (const PaperFile* file = paper_files(); file->name != nullptr; ++file)
    if (!put_file(folder / file->name, {file->bytes, file->size})) return false;
  for (const EmbeddedFile& file : embedded_files_in("models"))
    if (!put_file(folder / file.path, file.text)) return false;
  return true;
}

std::string before(const char* variable, const std::string& first, char between) {
  const char* rest = std::getenv(variable);
  return rest != nullptr && *rest != 0 ? first + between + rest : first;
}

// The user's own environment, with these laid over it.
class Variables {
 public:
  Variables() {
    for (char** one = environ; *one != nullptr; ++one) texts_.emplace_back(*one);
  }
  void set(const std::string& name, const std::string& value) {
    std::erase_if(texts_, [&](const std::string& text) { return text.starts_with(name + "="); });
    texts_.push_back(name + "=" + value);
  }
  // Where the user has not said it.
  void suggest(const std::string& name, const std::string& value) {
    if (std::getenv(name.c_str()) == nullptr) set(name, value);
  }
  std::vector<char*> pointers() {
    std::vector<char*> found;
    for (std::string& text : texts_) found.push_back(text.data());
    found.push_back(nullptr);
    return found;
  }

 private:
  std::vector<std::string> texts_;
};

Variables variables_of(const PaperRun& run, const fs::path& folder) {
  Variables set;
  const std::string device = (folder / "libcuda.so.1").string();
  set.set("LD_PRELOAD",
          before("LD_PRELOAD", device + ":" + (folder / "libnvidia-ml.so.1").string(), ':'));
  set.set("PYTHONPATH", before("PYTHONPATH", (folder / "observer").string(), ':'));
  set.set("TRITON_LIBCUDA_PATH", folder.string());
  set.set("STEELYARD_REHEARSAL", (folder / "seen").string());
  set.set("STEELYARD_STEPS", std::to_string(run.steps));
  set.set("STEELYARD_RANKS", run.ranks);
  set.set("STEELYARD_WEIGHTS", run.weights);
  set.set("STEELYARD_DATA", run.data);
  if (!run.snapshot.empty()) set.set("STEELYARD_SNAPSHOT", fs::absolute(run.snapshot).string());
  set.set("PAPER_DEVICE", run.device);
  set.set("PAPER_DEVICES", std::to_string(run.devices));
  if (run.bytes > 0) set.set("PAPER_DEVICE_BYTES", std::to_string(run.bytes));
  set.set("PAPER_CONTEXT_BYTES", std::to_string(run.outside));
  set.set("PAPER_KEEP_VALUES", "1");
  // Nothing is downloaded and nothing is reported.
  set.set("HF_HUB_OFFLINE", "1");
  set.set("HF_DATASETS_OFFLINE", "1");
  set.set("HF_HUB_DISABLE_TELEMETRY", "1");
  set.set("WANDB_MODE", "disabled");
  set.suggest("TOKENIZERS_PARALLELISM", "false");
  return set;
}

int status_in(int waited) {
  return WIFSIGNALED(waited) ? 128 + WTERMSIG(waited) : WEXITSTATUS(waited);
}

void read_what_was_seen(const fs::path& folder, PaperRunEnd& end) {
  std::vector<fs::path> files;
  std::error_code fault;
  for (const auto& entry : fs::directory_iterator(folder, fault))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    if (path.filename().string().starts_with("problem-")) {
      const auto read = nlohmann::json::parse(text.str(), nullptr, false);
      if (read.is_object() && read.contains("problem") && read["problem"].is_string())
        end.problem = read["problem"].get<std::string>();
    } else {
      end.observations.push_back(text.str());
    }
  }
}

}  // namespace

PaperRunEnd start_on_paper(const PaperRun& run) {
  PaperRunEnd end;
  const OwnFolder folder;
  std::error_code fault;
  if (folder.path().empty() || !unpack(folder.path()) ||
      !fs::create_directory(folder.path() / "seen", fault)) {
    end.problem = "no files can be made in the folder for temporary files";
    return end;
  }
  std::vector<std::string> words = run.command;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  Variables variables = variables_of(run, folder.path());

  posix_spawn_file_actions_t streams{};
  posix_spawn_file_actions_init(&streams);
  if (run.quiet) posix_spawn_file_actions_addopen(&streams, 2, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&streams, 2, 1);  // stdout is the answer's
  posix_spawnattr_t attributes{};
  posix_spawnattr_init(&attributes);
  sigset_t usual;
  sigemptyset(&usual);
  sigaddset(&usual, SIGINT);
  sigaddset(&usual, SIGQUIT);
  sigaddset(&usual, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  {
    const LeftToTheCommand meanwhile;
    const int failure = posix_spawnp(&child, pointers[0], &streams, &attributes, pointers.data(),
                                     variables.pointers().data());
    posix_spawn_file_actions_destroy(&streams);
    posix_spawnattr_destroy(&attributes);
    if (failure != 0) {
      end.problem = fmt::format("{} cannot be started: {}", run.command[0], std::strerror(failure));
      return end;
    }
    int waited = 0;
    while (waitpid(child, &waited, 0) < 0 && errno == EINTR) {
    }
    end.status = status_in(waited);
  }
  end.interrupted = end.status == 128 + SIGINT || end.status == 130;
  read_what_was_seen(folder.path() / "seen", end);
  return end;
}

}  // namespace steelyard
