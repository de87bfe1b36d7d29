// Runs a fuzz target over the files of its corpus, once each, where libFuzzer is not linked: so every
// input that ever broke a reader is an ordinary test of every build.
//
//   launch_fuzz CORPUS...                                   each file as it is
//   launch_fuzz --mutations 100000 [--seed 1] CORPUS...     and as many damaged ones: the same for the same seed
//
// A mutation cuts, repeats, swaps or overwrites a stretch of a file, puts in a piece of another one, a sign of the formats or
// a number at the edge. One that takes more than a second is a failure like a crash; it is left in ./slow-input.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr double kMostSeconds = 1.0;

// Of the processor: a busy machine is no fault. Nor is one whose processor was lent to others for a while, which its clock
// counts: an input that is slow is slow again.
double seconds_of(const std::string& text) {
  double least = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::clock_t begin = std::clock();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    least = attempt == 0 ? seconds : std::min(least, seconds);
    if (least <= kMostSeconds) break;
  }
  return least;
}

constexpr std::array<std::string_view, 40> kPieces = {"\n",
                                                      "\r\n",
                                                      "\t",
                                                      " ",
                                                      ": ",
                                                      "- ",
                                                      "\"",
                                                      "'",
                                                      "{",
                                                      "}",
                                                      "[",
                                                      "]",
                                                      "(",
                                                      ")",
                                                      "|",
                                                      ">",
                                                      "&a ",
                                                      "*a",
                                                      "<<: ",
                                                      "#",
                                                      "$(",
                                                      "${",
                                                      "))",
                                                      "\\\n",
                                                      "<<E",
                                                      "auto",
                                                      "null",
                                                      "true",
                                                      "-1",
                                                      "0",
                                                      "1e9",
                                                      "1e-9",
                                                      ".nan",
                                                      "inf",
                                                      "''",
                                                      "=",
                                                      "--x ",
                                                      "\xC3\x28",
                                                      "\xEF\xBB\xBF",
                                                      "9223372036854775807"};

class Mutator {
 public:
  Mutator(const std::vector<std::string>& files, unsigned seed) : files_(files), engine_(seed) {}

  std::string next() {
    std::string text = files_[below(files_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t count) { return count == 0 ? 0 : engine_() % count; }

  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = std::min(text.size() - at, 1 + below(below(4) == 0 ? 400 : 12));
    switch (below(7)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(at, length));
        break;
      case 2: {  // elsewhere
        const std::string piece = text.substr(at, length);
        text.erase(at, length);
        text.insert(below(text.size() + 1), piece);
        break;
      }
      case 3: {
        const std::string& other = files_[below(files_.size())];
        const std::size_t from = below(other.size());
        text.insert(at, other.substr(from, 1 + below(200)));
        break;
      }
      case 4:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 5:
        text.replace(at, length, kPieces[below(kPieces.size())]);
        break;
      default:
        for (std::size_t i = at; i < at + length; ++i) text[i] = static_cast<char>(engine_());
    }
  }

  const std::vector<std::string>& files_;
  std::mt19937 engine_;
};

int mutate(const std::vector<std::string>& files, std::size_t count, unsigned seed) {
  Mutator mutator(files, seed);
  double slowest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string text = mutator.next();
    // The last input is on disk when it crashes.
    std::ofstream("last-input", std::ios::binary) << text;
    const double seconds = seconds_of(text);
    if (seconds > slowest) slowest = seconds;
    if (seconds > kMostSeconds) {
      std::ofstream("slow-input", std::ios::binary) << text;
      std::printf("mutation %zu of seed %u takes %.1f s: ./slow-input\n", i, seed, seconds);
      return 1;
    }
  }
  std::filesystem::remove("last-input");
  std::printf("%zu mutations of %zu files, seed %u: the slowest %.2f s\n", count, files.size(),
              seed, slowest);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files;
  std::size_t mutations = 0;
  unsigned seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if ((word == "--mutations" || word == "--seed") && i + 1 < argc) {
      const unsigned long number = std::stoul(argv[++i]);
      if (word == "--seed")
        seed = static_cast<unsigned>(number);
      else
        mutations = number;
      continue;
    }
    if (!std::filesystem::is_directory(argv[i])) {
      std::fprintf(stderr, "%s: no such corpus folder\n", argv[i]);
      return 1;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      files.emplace_back((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      if (mutations > 0) continue;
      std::fprintf(stderr, "%s\n",
                   entry.path().c_str());  // the last line names the input that crashed
      seconds_of(files.back());
    }
  }
  if (files.empty()) return 1;
  if (mutations > 0) return mutate(files, mutations, seed);
  std::printf("%zu inputs replayed\n", files.size());
  return 0;
}
