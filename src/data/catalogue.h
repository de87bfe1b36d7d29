// The entries of one folder of data/, each in a file of its own name, read when first asked for.
//
//   Catalogue<Device> catalogue("devices", read_device);
//   catalogue.find("h100-sxm-80gb")      parses data/devices/h100-sxm-80gb.json, once
//   catalogue.find_short_form("h100")    parses only files whose text holds "h100" in quotes
//   catalogue.all()                      every file, by "list_order", then by name
//
// A program that names one device reads one file, so starting up stays a matter of a few
// milliseconds. Entries live as long as the catalogue; every call may come from any thread.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "data/embedded.h"
#include "data/fact.h"

namespace steelyard {

// An entry among those that somebody owns: catalogues live as long as the program.
template <class Entry>
std::shared_ptr<const Entry> unowned(const Entry& entry) {
  return std::shared_ptr<const Entry>(std::shared_ptr<const Entry>(), &entry);
}

template <class Entry>
class Catalogue {
 public:
  using Reader = Entry (*)(const Fact&);

  Catalogue(std::string_view folder, Reader reader) : folder_(folder), reader_(reader) {}

  // Nothing when no file has that name.
  const Entry* find(std::string_view name) {
    const std::lock_guard lock(mutex_);
    if (const auto known = entries_.find(name); known != entries_.end()) return known->second.get();
    const std::string path = folder_ + '/' + std::string(name) + ".json";
    const auto text = embedded_text(path);
    if (!text) return nullptr;
    const FactFile file(path, *text);
    if (file.root()["name"].text() != name) file.root()["name"].fail("is not the name of its file");
    return entries_.emplace(name, std::make_unique<const Entry>(reader_(file.root())))
        .first->second.get();
  }

  // The entry whose "short_forms" hold `form`.
  const Entry* find_short_form(std::string_view form) {
    const std::string quoted = '"' + std::string(form) + '"';
    for (const EmbeddedFile& file : embedded_files_in(folder_)) {
      if (file.text.find(quoted) == std::string_view::npos) continue;
      const FactFile facts(file.path, file.text);
      const auto forms = facts.root().texts_or_none("short_forms");
      if (std::find(forms.begin(), forms.end(), form) != forms.end())
        return find(facts.root()["name"].text());
    }
    return nullptr;
  }

  const std::vector<Entry>& all() {
    const std::lock_guard lock(mutex_);
    if (!all_.empty()) return all_;
    struct Placed {
      std::int64_t order;
      std::string_view path;
      Entry entry;
    };
    std::vector<Placed> placed;
    for (const EmbeddedFile& file : embedded_files_in(folder_)) {
      const FactFile facts(file.path, file.text);
      placed.push_back({facts.root()["list_order"].integer(), file.path, reader_(facts.root())});
    }
    std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
      return a.order != b.order ? a.order < b.order : a.path < b.path;
    });
    for (Placed& one : placed) all_.push_back(std::move(one.entry));
    return all_;
  }

 private:
  std::string folder_;
  Reader reader_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<const Entry>, std::less<>> entries_;
  std::vector<Entry> all_;
};

}  // namespace steelyard
