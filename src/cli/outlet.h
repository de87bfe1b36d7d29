// Where the program's words go: the answer to stdout, the talk to stderr. A reader that hangs up
// ends the writing without a complaint.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace steelyard {

void answer(std::string_view text);  // stdout
void remark(std::string_view text);  // stderr
void flush_answer();

// A file's text, "-" being stdin; nothing when it cannot be read. Of more than `most` bytes one more is read: who asks sees it.
std::optional<std::string> text_of_file(const std::string& path,
                                        std::size_t most = std::string::npos - 1);
bool write_file(const std::string& path, std::string_view text);

// Leaves SIGPIPE to the writes above and makes Ctrl-C exit 130.
void prepare_signals();

}  // namespace steelyard
