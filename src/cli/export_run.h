// A run as an engine's own files: what `export` writes, and `plan --export` of the layout it found.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "cli/command.h"
#include "document/diagnostic.h"
#include "document/value.h"
#include "formats/launch/launch.h"

namespace steelyard {

bool is_export_target(const std::string& name);  // an engine's files, or "slurm"
Diagnostic unknown_target(const std::string& name);
// What the target is of itself where the run says nothing; says so.
void settle_and_say(Value& document, const std::string& target);
// `folder`: where names in the document start.
tl::expected<Exported, Diagnostics> exported_run(const Invocation& invocation,
                                                 const Value& document, const std::string& folder,
                                                 const std::string& name,
                                                 const std::string& target);
// To stdout as one script, as JSON, or as files to a folder: what the flags say.
int give_exported(const Invocation& invocation, const std::string& target,
                  const Exported& exported);

}  // namespace steelyard
