// A command of the user's, started with the device on paper under it and the observer beside it, by its environment alone.
//
//   PaperRun run;
//   run.command = {"python", "train.py"};
//   run.device = "h100-sxm-80gb"; run.devices = 8;
//   const PaperRunEnd end = start_on_paper(run);      waits; what the command says goes to stderr
//   end.observations                                  texts of steelyard.record/1, one for each rank that was seen
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace steelyard {

struct PaperRun {
  std::vector<std::string> command;
  std::string device;        // of data/devices
  std::int64_t devices = 1;  // of one node
  std::int64_t bytes = 0;    // of each; 0: as the device has
  std::int64_t outside = 0;  // taken beside the allocator
  std::string ranks = "0";   // "0,7", "last", "all"
  std::int64_t steps = 3;
  std::string weights, data;  // as --weights and --data have it; empty: not said
  std::string snapshot;       // a file; empty: none
  bool quiet = false;         // what the command says is not shown
};

struct PaperRunEnd {
  int status = 0;            // of the command; 128 + N: of a signal
  bool interrupted = false;  // by the user
  std::string problem;       // why nothing could be started or seen
  std::vector<std::string> observations;
};

PaperRunEnd start_on_paper(const PaperRun& run);

// One file of the device on paper, as the build made it.
struct PaperFile {
  const char* name;  // "libcuda.so.1", "observer/sitecustomize.py"
  const char* bytes;
  std::size_t size;
};
// Ends with a row without a name; empty where the program was built without.
const PaperFile* paper_files();

}  // namespace steelyard
