// What a call can reach beside its own words: files, other threads, a clock, and who listens.
//
//   World& here = world();                         of this thread
//   if (here.kind_of("run.toml") == PathKind::kFile) ...
//   share_work(layouts.size(), [&](std::size_t i) { weigh(layouts[i]); });
//
// The program's world is the machine that it runs on; a page has the texts that it was handed and nothing else. Each call of the
// library has a world of its own, so that calls on several threads do not meet.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace steelyard {

enum class PathKind { kNothing, kFile, kFolder, kEmptyFolder, kOther };

// An opened file, read piece by piece.
class InputSource {
 public:
  virtual ~InputSource() = default;
  // The bytes that were put into `room`; 0 at the end, below 0 when `why` says what failed.
  virtual std::ptrdiff_t read(char* room, std::size_t size, std::string& why) = 0;
};

// How far a search is.
struct WorkDone {
  std::int64_t done = 0, all = 0;
  double best_seconds = 0;     // of a step; 0: none fits yet
  double seconds = 0;          // since the start
  double longest_seconds = 0;  // then it ends
};

// A world without anything: every face overrides what it has.
class World {
 public:
  virtual ~World() = default;

  // Whether names that are not handed in are looked for on the machine itself.
  virtual bool has_machine();
  // Files. "-" is what the caller pipes in.
  virtual PathKind kind_of(const std::string& path);
  // Null when `why` says what failed.
  virtual std::unique_ptr<InputSource> open(const std::string& path, std::string& why);
  // The whole text of a file that lies in memory in any case; null: open it.
  virtual const std::string* text_in_memory(const std::string& path);
  // Whether the file, with links followed, lies below one of the folders ("": where the program was started).
  virtual bool is_below(const std::string& path, const std::vector<std::string>& folders);
  // The plain files below a folder, in order, `deepest` folders deep.
  virtual std::vector<std::string> files_below(const std::string& folder, int deepest,
                                               std::size_t most);
  // Whether what would be written to files is kept for the caller instead, and where.
  virtual bool keeps_files();
  virtual void keep_file(const std::string& path, std::string_view text);

  // The answer, and the talk beside it; false: they go to the program's streams.
  virtual bool take_answer(std::string_view text);
  virtual bool take_remark(std::string_view text);

  // Work on so many threads, 0 for all that there are; the calling thread is one of them.
  virtual void share(std::size_t count, std::size_t threads,
                     const std::function<void(std::size_t)>& work);
  virtual std::size_t threads();
  // Seconds since any fixed moment; always 0 where there is no clock.
  virtual double seconds();
  // Shows how far it is; false: stop, and answer with the best so far.
  virtual bool go_on(const WorkDone& at);
  // From here on a wish to stop is no longer the end of the program.
  virtual void listen_for_stop();
  // Whether somebody asked to stop.
  virtual bool stopped();
};

World& world();

// The world of this thread, until the end of the block.
class InWorld {
 public:
  explicit InWorld(World& here);
  ~InWorld();
  InWorld(const InWorld&) = delete;
  InWorld& operator=(const InWorld&) = delete;

 private:
  World* before_;
};

}  // namespace steelyard
