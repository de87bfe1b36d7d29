// One thing wrong in a job that was right. Each mutation leaves a line that cannot be weighed: the answer must be an
// error object, whatever was thrown.
#include <functional>
#include <initializer_list>

#include "random_jobs.h"

namespace steelyard {
namespace {

struct Key {
  const char* section;
  const char* name;
};
// Counts of one or more, and what must be a name. A null is not thrown at these: it means that the key is absent.
constexpr std::initializer_list<Key> kCounts = {{"cluster", "devices"},
                                                {"training", "sequence_length"},
                                                {"training", "micro_batch"},
                                                {"parallel", "data"},
                                                {"training", "gradient_accumulation"},
                                                {"parallel", "tensor"},
                                                {"parallel", "pipeline"},
                                                {"parallel", "context"},
                                                {"parallel", "expert"},
                                                {"cluster", "devices_per_node"},
                                                {"training", "vocabulary_multiple"},
                                                {"parallel", "replicate"},
                                                {"buckets", "reduce"},
                                                {"recompute", "every"},
                                                {"recompute", "layers"}};
constexpr std::initializer_list<Key> kNames = {
    {"training", "precision"}, {"training", "optimizer"}, {"training", "optimizer_form"},
    {"training", "attention"}, {"training", "loss"},      {"parallel", "schedule"},
    {"recompute", "mode"},     {"checkpoint", "save"},    {"cluster", "device"}};
constexpr std::initializer_list<const char*> kSections = {
    "cluster", "training", "parallel", "recompute", "checkpoint", "buckets", "overlap", "offload"};

std::string nested(std::size_t depth, char open, char close) {
  return std::string(depth, open) + std::string(depth, close);
}

class Mutation {
 public:
  explicit Mutation(std::uint64_t seed)
      : dice_(seed ^ 0x5EED5EED5EED5EEDU), job_(random_job(seed)) {}

  std::string line() {
    using Change = std::string (Mutation::*)();
    static constexpr Change changes[] = {
        &Mutation::cut_off,          &Mutation::unknown_section, &Mutation::unknown_key,
        &Mutation::count_not_count,  &Mutation::count_too_small, &Mutation::count_too_large,
        &Mutation::name_not_name,    &Mutation::unknown_name,    &Mutation::wrong_product,
        &Mutation::section_no_table, &Mutation::too_deep,        &Mutation::not_a_job,
        &Mutation::broken_text,      &Mutation::repeated_key,    &Mutation::impossible,
        &Mutation::broken_model,     &Mutation::needed_absent,   &Mutation::model_too_large};
    const auto which = dice_.from(0, static_cast<std::int64_t>(std::size(changes)) - 1);
    return (this->*changes[which])();
  }

 private:
  RunFile& at(const Key& key) { return job_[key.section][key.name]; }
  Key key_of(std::initializer_list<Key> keys) { return dice_.one_of(std::vector<Key>(keys)); }

  std::string cut_off() {
    const std::string whole = job_.dump();
    return whole.substr(
        0, static_cast<std::size_t>(dice_.from(1, static_cast<std::int64_t>(whole.size()) - 1)));
  }
  std::string unknown_section() {
    job_[dice_.one_of<const char*>({"trainning", "clusters!", "", "modell", "\x01", "Ünïcode"})] =
        RunFile::object();
    return job_.dump();
  }
  std::string unknown_key() {
    const char* section = dice_.one_of(std::vector<const char*>(kSections));
    job_[section][dice_.one_of<const char*>({"qqq", "sequence lengthh", "", "tensor_", "0"})] = 1;
    return job_.dump();
  }
  std::string count_not_count() {
    const std::vector<RunFile> wrong = {
        "eight cats", "", true, 2.5, -0.5, RunFile::object(), "0x", RunFile::array()};
    at(key_of(kCounts)) = dice_.one_of(wrong);
    return job_.dump();
  }
  std::string count_too_small() {
    const std::vector<RunFile> wrong = {0, -1, -8, INT64_MIN, "-3", -1e30};
    at(key_of(kCounts)) = dice_.one_of(wrong);
    return job_.dump();
  }
  std::string count_too_large() {
    const std::vector<RunFile> wrong = {INT64_MAX, UINT64_MAX, 1'000'000'000'000'000'001, 1e300,
                                        "99999999999999999999999999"};
    at(key_of(kCounts)) = dice_.one_of(wrong);
    return job_.dump();
  }
  std::string name_not_name() {
    const std::vector<RunFile> wrong = {7, true, RunFile::array({"flash"}), 1.5, RunFile::object()};
    at(key_of(kNames)) = dice_.one_of(wrong);
    return job_.dump();
  }
  std::string unknown_name() {
    at(key_of(kNames)) = dice_.one_of<std::string>(
        {"nonesuch", "", " ", "flashy!", "💥", std::string(100'000, 'x'), "../../etc"});
    return job_.dump();
  }
  std::string wrong_product() {
    const auto devices = job_["cluster"]["devices"].get<std::int64_t>();
    const auto degree = [&](const char* name) {
      return job_["parallel"].contains(name) ? job_["parallel"][name].get<std::int64_t>() : 1;
    };
    job_["parallel"]["data"] =
        devices / (degree("tensor") * degree("pipeline") * degree("context"));
    job_["cluster"]["devices"] = devices + dice_.from(1, 3);
    return job_.dump();
  }
  std::string section_no_table() {
    const std::vector<RunFile> wrong = {1, "all", true, RunFile::array({1}), 0.5};
    job_[dice_.one_of(std::vector<const char*>(kSections))] = dice_.one_of(wrong);
    return job_.dump();
  }
  std::string too_deep() {
    const auto depth = static_cast<std::size_t>(dice_.one_of<int>({70, 1'000, 100'000}));
    const std::string whole = job_.dump();
    switch (dice_.from(0, 2)) {
      case 0:
        return nested(depth, '[', ']');
      case 1:
        return whole.substr(0, whole.size() - 1) + ",\"training2\":" + nested(depth, '[', ']') +
               "}";
      default:
        return whole.substr(0, whole.size() - 1) + ",\"x\":" + std::string(depth, '{');
    }
  }
  std::string not_a_job() {
    return dice_.one_of<std::string>({"[]", "{}", "null", "7", "\"llama-3.1-8b\"", "true",
                                      "[1,2,3]", "[" + job_.dump() + "]", job_.dump() + job_.dump(),
                                      "}", "nan", "{\"model\": {}}", "{\"model\": []}", "-", "\"",
                                      "//"});
  }
  // One byte of the text changed so that it is no JSON any more.
  std::string broken_text() {
    std::string text = job_.dump();
    const std::string::size_type colon = text.find(
        ':', static_cast<std::size_t>(dice_.from(0, static_cast<std::int64_t>(text.size()) / 2)));
    switch (dice_.from(0, 3)) {
      case 0:
        text[0] = '[';
        return text;
      case 1:
        return text.insert(1, "\xff\xfe");
      case 2:
        return text.insert(1, std::string(1, '\0'));
      default:
        return text.replace(colon, 1, "\xc0");
    }
  }
  std::string repeated_key() {
    const std::string whole = job_.dump();
    return whole.substr(0, whole.size() - 1) + ",\"engine\":\"ddp\"}";
  }
  // Each number is right; together they are not.
  std::string impossible() {
    RunFile& parallel = job_["parallel"];
    switch (dice_.from(0, 7)) {
      case 0:
        job_["engine"] = "ddp";
        parallel["zero_stage"] = 3;
        break;
      case 1:
        job_["engine"] = "megatron";
        parallel["pipeline"] = 4'096;
        parallel.erase("data");
        job_["cluster"]["devices"] = 4'096;
        parallel.erase("tensor");
        break;
      case 2:
        job_["engine"] = "fsdp1";
        parallel["tensor"] = 2;
        break;
      case 3:
        job_["recompute"] = {{"mode", "every"}, {"every", 500}};
        break;
      case 4:
        job_["recompute"] = {{"mode", "block"}, {"layers", 999'999}};
        break;
      case 5:
        job_["training"]["precision"] = "fp32";
        job_["training"]["attention"] = "flash";
        break;
      case 6:
        parallel["virtual_pipeline"] = 50'000;
        break;
      default:
        parallel["replicate"] = 997;
        break;
    }
    return job_.dump();
  }
  std::string broken_model() {
    RunFile& model = job_["model"];
    static const std::vector<RunFile> wrong = {
        0, -1, nullptr, "many", 1.5, INT64_MIN, true, RunFile::object(), RunFile::array()};
    for (const char* key : {"num_hidden_layers", "n_layer", "hidden_size", "n_embd"})
      if (model.contains(key) && (dice_.chance(50) || key[0] == 'n')) {
        model[key] = dice_.one_of(wrong);
        return job_.dump();
      }
    model["model_type"] = dice_.one_of<const char*>({"lama", "", "gpt5", "T5 "});
    return job_.dump();
  }
  std::string needed_absent() {
    switch (dice_.from(0, 2)) {
      case 0:
        job_.erase("model");
        break;
      case 1:
        job_["cluster"].erase("device");
        break;
      default:
        job_[dice_.one_of<const char*>({"model", "cluster"})] = nullptr;
        break;
    }
    return job_.dump();
  }
  // More parameters or tokens than 64 bits of bytes can hold.
  std::string model_too_large() {
    RunFile& model = job_["model"];
    for (const char* key : {"vocab_size", "num_hidden_layers", "n_layer"})
      if (model.contains(key)) {
        model[key] =
            dice_.one_of<std::int64_t>({INT64_MAX, INT64_MAX / 2, 4'000'000'000'000'000'000});
        return job_.dump();
      }
    return "{";
  }

  Dice dice_;
  RunFile job_;
};

}  // namespace

std::string mutated_line(std::uint64_t seed) { return Mutation(seed).line(); }

}  // namespace steelyard
