// Random jobs on stdout, one JSON line each, for `steelyard weigh --jobs`.
//
//   steelyard_random_jobs valid   10000 [first seed]
//   steelyard_random_jobs invalid 10000 [first seed]
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "random_jobs.h"

namespace {

bool number_in(std::string_view text, std::uint64_t& number) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && end == text.data() + text.size();
}

}  // namespace

int main(int count, char** words) {
  const std::string_view kind = count > 1 ? words[1] : "";
  std::uint64_t lines = 0, first = 0;
  const bool understood = (count == 3 || count == 4) && (kind == "valid" || kind == "invalid") &&
                          number_in(words[2], lines) && (count == 3 || number_in(words[3], first));
  if (!understood) {
    std::fputs("usage: steelyard_random_jobs valid|invalid COUNT [FIRST-SEED]\n", stderr);
    return 2;
  }
  for (std::uint64_t seed = first; seed < first + lines; ++seed) {
    const std::string line =
        kind == "valid" ? steelyard::random_job(seed).dump() : steelyard::mutated_line(seed);
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fputc('\n', stdout);
  }
  return 0;
}
