#include "cli/written_paths.h"

#include <filesystem>

#include "cli/run_input.h"
#include "job/file_path.h"
#include "job/keys.h"
#include "model/catalogue.h"

namespace steelyard {
namespace {

namespace filesystem = std::filesystem;

bool names_a_file(const Value& run, const Key& key, const Value& written,
                  const std::string& folder) {
  const std::string& text = written.as_string();
  if (text.find("://") != std::string::npos) return false;
  if (looks_like_path(text)) return true;
  if (&key != &key_of(KeyId::kModel)) return false;
  // A name of ours goes before a folder of that name.
  Diagnostics unknown;
  return !find_model(text, written.place(), unknown) && model_file_of(run, folder);
}

std::string seen_from(const std::string& to_folder, const std::string& path) {
  const filesystem::path from(to_folder.empty() ? "." : to_folder);
  const filesystem::path there =
      from.is_absolute() ? filesystem::absolute(path) : filesystem::path(path);
  const std::string seen =
      there.lexically_normal().lexically_proximate(from.lexically_normal()).generic_string();
  const bool is_marked = seen.starts_with("..") || seen.starts_with("/");
  return is_marked ? seen : "./" + seen;
}

}  // namespace

std::vector<KeyEdit> moved_paths(const Value& run, const std::string& folder,
                                 const std::string& to_folder) {
  std::vector<KeyEdit> edits;
  for (const KeyId id : {KeyId::kModel, KeyId::kMachine}) {
    const Key& key = key_of(id);
    const Value* written = run.at(key.path);
    if (written == nullptr || !written->is_string() || !names_a_file(run, key, *written, folder))
      continue;
    const std::string path = path_from(folder, *written);
    if (path.starts_with("/") || path.starts_with("~")) continue;
    std::string text = seen_from(to_folder, path);
    const filesystem::path now(text), before(written->as_string());
    if (now.lexically_normal() == before.lexically_normal()) continue;
    edits.push_back({std::string(key.path), Value::string(std::move(text))});
  }
  return edits;
}

std::vector<KeyEdit> paths_for_file(const Value& run, const std::string& folder,
                                    const std::string& file) {
  return moved_paths(run, folder, file == "-" ? "" : filesystem::path(file).parent_path().string());
}

}  // namespace steelyard
