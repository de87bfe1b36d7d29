// Any text as each form of launch configuration: read without running off, and what is read can be written and read again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "document/read.h"
#include "document/render.h"
#include "formats/launch/config_text.h"
#include "formats/launch/launch.h"

namespace {

void look_at(std::string_view text, std::string_view name) {
  steelyard::is_launch_file(text, name);
  const steelyard::Imported imported = steelyard::import_launch(text, name);
  steelyard::import_report(imported);
  steelyard::render(imported.problems, "nothing imported");
  if (imported.failed()) return;
  for (const std::string_view target : steelyard::export_targets()) {
    const steelyard::Exported exported = steelyard::export_launch(imported.run, target);
    if (!exported.problems.empty()) continue;
    const steelyard::Imported again = steelyard::import_launch(exported.script, "launch.sh");
    steelyard::import_report(again);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* name :
       {"job.sh", "config.yaml", "config.json", "config.toml", "train.py", "train.ipynb"})
    look_at(text, name);
  // What YAML says is written and read as the same.
  const steelyard::ReadValue yaml = steelyard::read_yaml(text, "config.yaml");
  if (yaml && yaml->is_table()) steelyard::read_yaml(steelyard::yaml_text(*yaml), "again.yaml");
  return 0;
}
