// Where the program's words go: the answer to stdout, the talk to stderr. A reader that hangs up
// ends the writing without a complaint; any other answer that cannot be written is an error.
//
// Text of others (names, keys, quoted lines) may hold what steers a terminal: none of it passes (document/printable.h).
#pragma once

#include <string_view>

#include "report/style.h"

namespace steelyard {

// What the two streams show: colours of ours, and beyond ASCII.
void set_outlets(const Style& answer, const Style& talk);

void answer(std::string_view text);  // stdout
// A file's own text on stdout, for other programs: as it is, but on a terminal as any answer.
void answer_file(std::string_view text);
void remark(std::string_view text);  // stderr
// One line of stderr that the next one replaces; empty: takes it away.
void status_line(std::string_view text);

void flush_answer();
// The exit status of a command whose answer is complete: kBadInput when it could not be written, and that is said.
int finished(int status);

// Leaves SIGPIPE and SIGXFSZ to the writes and makes Ctrl-C exit 130.
void prepare_signals();

}  // namespace steelyard
