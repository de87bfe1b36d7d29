// A node of a data file, read with its unit and named in every complaint.
//
//   const FactFile file("devices/h100-sxm-80gb.json", text);
//   file.root()["capacity"]["low"].bytes()        "79.10 GiB" -> Bytes
//   file.root()["capacity"]["low"].integer()      DataError: devices/h100-sxm-80gb.json:
//   capacity.low is no integer
//
// Data files are ours: a fault in one is a fault of the program, thrown as DataError and found by
// the tests that read every file. Input of users is read elsewhere and never throws.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "quantity/element_type.h"
#include "quantity/quantity.h"

namespace steelyard {

class DataError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class Fact {
 public:
  Fact(const nlohmann::json& node, std::string where) : node_(&node), where_(std::move(where)) {}

  bool has(std::string_view key) const;
  Fact operator[](std::string_view key) const;  // the key must be there
  std::vector<Fact> items() const;              // of a list, in order
  std::vector<std::string> keys() const;        // of an object, sorted

  std::string text() const;
  std::int64_t integer() const;
  double number() const;
  bool flag() const;
  ElementType element_type() const;  // "bf16"
  Bytes bytes() const;               // "80 GiB"
  BytesPerSecond bytes_per_second() const;
  FlopsPerSecond flops_per_second() const;

  // What an absent key means is said by the caller.
  std::string text_or(std::string_view key, std::string otherwise) const;
  std::int64_t integer_or(std::string_view key, std::int64_t otherwise) const;
  double number_or(std::string_view key, double otherwise) const;
  bool flag_or(std::string_view key, bool otherwise) const;
  std::optional<ElementType> optional_element_type(std::string_view key) const;
  std::vector<std::string> texts_or_none(std::string_view key) const;

  const std::string& where() const { return where_; }
  const nlohmann::json& node() const { return *node_; }
  [[noreturn]] void fail(const std::string& complaint) const;

 private:
  const nlohmann::json* node_;
  std::string where_;
};

// Owns the parsed text of one file; its facts must not outlive it.
class FactFile {
 public:
  FactFile(std::string_view path, std::string_view text);
  Fact root() const;

 private:
  std::string path_;
  std::shared_ptr<const nlohmann::json> json_;
};

}  // namespace steelyard
