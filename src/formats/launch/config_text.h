// A document as YAML, JSON or TOML, with a comment beside the keys that have one.
#pragma once

#include <map>
#include <string>

#include "document/value.h"

namespace steelyard {

using Comments = std::map<std::string, std::string, std::less<>>;  // by dotted path

std::string yaml_text(const Value& document, const Comments& comments = {});
std::string json_text(const Value& document);  // JSON has no comments
std::string toml_text(const Value& document, const Comments& comments = {});

}  // namespace steelyard
