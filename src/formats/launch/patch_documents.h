// A run as the document of one format, and two of them compared: what a change of the run changes there.
//
//   const auto before = written_document("axolotl", imported.run);
//   const auto after = written_document("axolotl", wanted);
//   Leaves(before->theirs)            sequence_len = 2048, fsdp_config.offload_params = false, ...
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "document/value.h"
#include "formats/launch/mapping.h"

namespace steelyard {

struct WrittenDocument {
  Value theirs;
  std::map<std::string, const Row*, std::less<>> said_by;
  Diagnostics problems;  // what the format cannot say
};

// Null: the format is read and not written.
std::unique_ptr<WrittenDocument> written_document(std::string_view format, const Value& run);

// Each value that is no table, by its dotted path, in the document's order; an empty table is a value.
struct Leaf {
  std::string path;
  const Value* value = nullptr;
};
class Leaves {
 public:
  explicit Leaves(const Value& document);
  std::vector<Leaf>::const_iterator begin() const { return leaves_.begin(); }
  std::vector<Leaf>::const_iterator end() const { return leaves_.end(); }
  const Value* find(const std::string& path) const;  // or null

 private:
  void visit(const Value& table, const std::string& path);
  std::vector<Leaf> leaves_;
  std::map<std::string, const Value*> by_path_;
};

// The member at a dotted path, with the place of its key.
const Value::Member* member_at(const Value& document, std::string_view path);

// The keys of the table that holds `path`, in their order.
std::vector<std::string> neighbours_of(const Value& document, std::string_view path);
std::vector<std::string> parts_of(std::string_view path);

}  // namespace steelyard
