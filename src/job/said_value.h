// Words from the command line, or from a suggestion, as the value that a run file would hold.
#pragma once

#include <string_view>

#include "document/value.h"
#include "job/keys.h"

namespace steelyard {

// "8192" of a count is a number, "a,b" of a list a list; what does not read as its kind stays text, and
// the reader of the job says what is wrong with it.
Value said_value(const Key& key, std::string_view text, const Place& place);
// Writes it into the run file at the key's path, "parallel.context"; a key that is not known as text.
void say(Value& document, std::string_view key, std::string_view text, const Place& place);

}  // namespace steelyard
