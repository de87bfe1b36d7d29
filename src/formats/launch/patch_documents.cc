#include "formats/launch/patch_documents.h"

#include <array>

#include "formats/launch/formats.h"

namespace steelyard {
namespace {

struct WriterOf {
  std::string_view format;
  void (*write)(ConfigWriter&);
};
constexpr std::array kWriters = {
    WriterOf{"deepspeed", write_deepspeed},  WriterOf{"accelerate", write_accelerate},
    WriterOf{"trainer", write_hugging_face}, WriterOf{"torchtitan", write_torchtitan},
    WriterOf{"megatron", write_megatron},    WriterOf{"nanotron", write_nanotron},
    WriterOf{"axolotl", write_axolotl},      WriterOf{"llama-factory", write_llama_factory},
};

}  // namespace

std::unique_ptr<WrittenDocument> written_document(std::string_view format, const Value& run) {
  for (const WriterOf& writer : kWriters) {
    if (writer.format != format) continue;
    ConfigWriter writing(run, format);
    writer.write(writing);
    auto written = std::make_unique<WrittenDocument>();
    written->theirs = std::move(writing.theirs);
    written->said_by = std::move(writing.said_by);
    written->problems = std::move(writing.problems);
    return written;
  }
  return nullptr;
}

Leaves::Leaves(const Value& document) {
  if (document.is_table()) visit(document, "");
  for (const Leaf& leaf : leaves_) by_path_[leaf.path] = leaf.value;
}

void Leaves::visit(const Value& table, const std::string& path) {
  for (const Value::Member& member : table.members()) {
    const std::string inner = path.empty() ? member.key : path + "." + member.key;
    if (member.value.is_table() && !member.value.members().empty())
      visit(member.value, inner);
    else
      leaves_.push_back({inner, &member.value});
  }
}

const Value* Leaves::find(const std::string& path) const {
  const auto found = by_path_.find(path);
  return found == by_path_.end() ? nullptr : found->second;
}

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t dot = path.find('.');
    parts.emplace_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

const Value::Member* member_at(const Value& document, std::string_view path) {
  const Value* here = &document;
  const Value::Member* member = nullptr;
  for (const std::string& part : parts_of(path)) {
    member = here->member(part);
    if (member == nullptr) return nullptr;
    here = &member->value;
  }
  return member;
}

std::vector<std::string> neighbours_of(const Value& document, std::string_view path) {
  const std::size_t dot = path.rfind('.');
  const Value* table = dot == std::string_view::npos ? &document : document.at(path.substr(0, dot));
  std::vector<std::string> keys;
  if (table != nullptr && table->is_table())
    for (const Value::Member& member : table->members()) keys.push_back(member.key);
  return keys;
}

}  // namespace steelyard
