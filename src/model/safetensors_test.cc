#include "model/safetensors.h"

#include <gtest/gtest.h>

#include <string>

namespace steelyard {
namespace {

std::string with_length(std::uint64_t length, std::string_view json) {
  std::string bytes;
  for (unsigned i = 0; i < 8; ++i) bytes += static_cast<char>((length >> (8 * i)) & 0xFFU);
  return bytes.append(json);
}
std::string file(std::string_view json) { return with_length(json.size(), json); }

TEST(Safetensors, ReadsNamesShapesAndTypes) {
  const auto tensors = read_safetensors_header(file(R"({"__metadata__": {"format": "pt"},
               "a": {"dtype": "BF16", "shape": [3, 4], "data_offsets": [0, 24]},
               "b": {"dtype": "F32", "shape": [], "data_offsets": [24, 28]}})"),
                                               "model.safetensors");
  ASSERT_TRUE(tensors);
  ASSERT_EQ(tensors->size(), 2U);
  EXPECT_EQ((*tensors)[0].shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ((*tensors)[1].elements, 1);
  const auto sums = elements_by_type(*tensors);
  EXPECT_EQ(sums.front(), (std::pair<std::string, std::int64_t>{"BF16", 12}));
}

TEST(Safetensors, SaysHowMuchToRead) {
  EXPECT_EQ(safetensors_header_bytes(with_length(100, "")), 108);
  EXPECT_EQ(safetensors_header_bytes("1234567"), std::nullopt);
  EXPECT_EQ(safetensors_header_bytes(with_length(0xFFFFFFFFFFFFFFFFULL, "")), std::nullopt);
  EXPECT_EQ(safetensors_header_bytes(with_length(0, "")), std::nullopt);
}

TEST(Safetensors, BelievesNothing) {
  const auto refused = [](const std::string& bytes) {
    return !read_safetensors_header(bytes, "x", std::int64_t{1} << 20).has_value();
  };
  const auto tensor = [](std::string_view shape, std::string_view offsets) {
    return file(R"({"a": {"dtype": "F32", "shape": )" + std::string(shape) +
                R"(, "data_offsets": )" + std::string(offsets) + "}}");
  };
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused(with_length(1000, "{}")));  // cut off
  EXPECT_TRUE(refused(file("{\"a\"")));
  EXPECT_TRUE(refused(file("[]")));
  EXPECT_TRUE(refused(file(R"({"a": 3})")));
  EXPECT_TRUE(refused(tensor("[-1]", "[0, 4]")));
  EXPECT_TRUE(refused(tensor("[1.5]", "[0, 4]")));
  EXPECT_TRUE(refused(tensor("[2]", "[0, 4]")));  // too few bytes
  EXPECT_TRUE(refused(tensor("[1]", "[4, 0]")));  // backwards
  EXPECT_TRUE(refused(tensor("[1]", "[-4, 0]")));
  EXPECT_TRUE(refused(tensor("[1]", "[1048576, 1048580]")));           // behind the end
  EXPECT_TRUE(refused(tensor("[4294967296, 4294967296]", "[0, 4]")));  // overflow
  EXPECT_TRUE(refused(tensor("[9223372036854775807]", "[0, 4]")));
  EXPECT_FALSE(refused(tensor("[1]", "[0, 4]")));
}

TEST(ShardIndex, NamesEachFileOnce) {
  const auto index = read_shard_index(
      R"({"metadata": {"total_size": 28},
          "weight_map": {"a": "model-2.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}})",
      "model.safetensors.index.json");
  ASSERT_TRUE(index);
  EXPECT_EQ(index->shards,
            (std::vector<std::string>{"model-1.safetensors", "model-2.safetensors"}));
  EXPECT_EQ(index->tensors, 3);
  EXPECT_EQ(index->total_bytes, 28);
}

TEST(ShardIndex, StaysInItsFolder) {
  for (const char* name : {"../secret", "/etc/passwd", "..", "a/b", "a\\\\b", "", "C:x"})
    EXPECT_FALSE(
        read_shard_index(std::string(R"({"weight_map": {"a": ")") + name + "\"}}", "index.json"))
        << name;
  EXPECT_FALSE(read_shard_index(R"({"weight_map": {"a": 3}})", "index.json"));
  EXPECT_FALSE(read_shard_index(R"({"a": 3})", "index.json"));
  EXPECT_FALSE(read_shard_index("{", "index.json"));
}

}  // namespace
}  // namespace steelyard
