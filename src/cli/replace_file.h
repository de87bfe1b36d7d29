// A file written beside the one it replaces, and renamed: a failure leaves the old one whole.
#pragma once

#include <string>
#include <string_view>

namespace steelyard {

// Keeps the permissions of what was there, and follows a link. False when it could not be written: the old file stands.
bool replace_file(const std::string& path, std::string_view text);

}  // namespace steelyard
