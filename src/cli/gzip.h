// Texts that gzip packed. The page is built without zlib and unpacks them itself (web/no_gzip.cc).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace steelyard {

bool is_packed(std::string_view bytes);

// All members of a gzip file, one after the other; false where it is damaged or larger than `most`. What is cut is read as
// far as it goes.
bool unpack(std::string_view packed, std::size_t most, std::string& text);

}  // namespace steelyard
