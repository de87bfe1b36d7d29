#include "sources/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "document/amount.h"
#include "machine/machine.h"

namespace steelyard {
namespace {

struct DeviceName {
  std::string_view word;  // in lower case, anywhere in the printed name
  std::int64_t gib;       // 0: whatever the size
  std::string_view device;
};
// The first that fits wins. An H100 or A100 of a table without a form factor is the SXM one that clusters have.
constexpr std::array kDevices = {
    DeviceName{"95.0 gib capacity", 0, "h100-sxm-96gb"},
    DeviceName{"h100 pcie", 0, "h100-pcie-80gb"},
    DeviceName{"h100", 0, "h100-sxm-80gb"},
    DeviceName{"h800", 0, "h800"},
    DeviceName{"h200", 0, "h200-sxm"},
    DeviceName{"a100", 40, "a100-sxm-40gb"},
    DeviceName{"a100", 80, "a100-sxm-80gb"},
    DeviceName{"a100 40gb", 0, "a100-sxm-40gb"},
    DeviceName{"a100-sxm4-40gb", 0, "a100-sxm-40gb"},
    DeviceName{"a100", 0, "a100-sxm-80gb"},
    DeviceName{"v100", 16, "v100-sxm-16gb"},
    DeviceName{"v100", 32, "v100-sxm-32gb"},
    DeviceName{"gb300", 0, "gb300"},
    DeviceName{"gb200", 0, "gb200"},
    DeviceName{"b300", 0, "b300"},
    DeviceName{"b200", 0, "b200"},
    DeviceName{"mi300x", 0, "mi300x"},
    DeviceName{"a10g", 0, "a10g"},
    DeviceName{"l40s", 0, "l40s"},
    DeviceName{"l4 ", 0, "l4"},
    DeviceName{"a6000", 0, "rtx-a6000"},
    DeviceName{"4090", 0, "rtx-4090"},
    DeviceName{"3090", 0, "rtx-3090"},
};

Value named(std::initializer_list<std::pair<const char*, Value>> members) {
  Value table = Value::table();
  for (const auto& [key, value] : members) set_path(table, key, value, Place{});
  return table;
}

// "8x 200 Gbps HDR InfiniBand per node" -> "1600 Gb/s", "3.2 Tbps" -> "3200 Gb/s"; empty where it names no bits. What a row
// says in bytes is what a collective reached, or the links inside.
std::string way_out_of(std::string_view interconnect) {
  constexpr std::string_view kDigits = "0123456789.";
  double times = 1;
  for (std::size_t at = interconnect.find_first_of(kDigits); at != std::string_view::npos;
       at = interconnect.find_first_of(kDigits, at)) {
    const std::size_t from = at;
    at = std::min(interconnect.find_first_not_of(kDigits, at), interconnect.size());
    const auto number = number_written(interconnect.substr(from, at - from));
    if (number && interconnect.substr(at).starts_with("x ")) {
      times = *number;
      continue;
    }
    const std::size_t unit = std::min(interconnect.find_first_not_of(' ', at), interconnect.size());
    const std::string_view said =
        interconnect.substr(from, interconnect.find_first_of(" ,;", unit) - from);
    const auto bandwidth = bandwidth_written(said);
    if (bandwidth && said.find('B') == std::string_view::npos)
      return fmt::format("{:.0f} Gb/s", times * *bandwidth * 8e-9);
    times = 1;
  }
  return "";
}

void map_machine(const MeasuredRow& row, const std::string& device, MappedRun& mapped) {
  if (row.says("hardware.gpu", "DGX"))
    mapped.set("cluster.machine", usual_machine(*find_device(device).device)->name);
  else if (const std::string network = way_out_of(row.text("hardware.interconnect"));
           !network.empty())
    mapped.set("cluster.network", network);
}

}  // namespace

std::optional<std::string> device_named(std::string_view gpu, std::optional<std::int64_t> gib) {
  std::string lower(gpu);
  for (char& letter : lower)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const DeviceName& known : kDevices)
    if (lower.find(known.word) != std::string::npos &&
        (known.gib == 0 || (gib && known.gib == *gib)))
      return std::string(known.device);
  return std::nullopt;
}

Value llama_model(const Shape& shape) {
  return named(
      {{"model_type", Value::string("llama")},
       {"num_hidden_layers", Value::integer(shape.layers)},
       {"hidden_size", Value::integer(shape.hidden)},
       {"num_attention_heads", Value::integer(shape.heads)},
       {"num_key_value_heads", Value::integer(shape.kv_heads == 0 ? shape.heads : shape.kv_heads)},
       {"intermediate_size", Value::integer(shape.feed_forward)},
       {"vocab_size", Value::integer(shape.vocabulary)},
       {"max_position_embeddings", Value::integer(shape.positions)},
       {"attention_bias", Value::boolean(shape.biased_attention)},
       {"tie_word_embeddings", Value::boolean(shape.tied)},
       {"hidden_act", Value::string("silu")}});
}

Value gpt_model(const Shape& shape) {
  return named({{"model_type", Value::string("gpt2")},
                {"n_layer", Value::integer(shape.layers)},
                {"n_embd", Value::integer(shape.hidden)},
                {"n_head", Value::integer(shape.heads)},
                {"n_inner", Value::integer(shape.feed_forward)},
                {"vocab_size", Value::integer(shape.vocabulary)},
                {"n_positions", Value::integer(shape.positions)},
                {"tie_word_embeddings", Value::boolean(shape.tied)}});
}

Shape printed_shape(MeasuredRow& row) {
  Shape shape;
  shape.layers = row.need("model.layers");
  shape.hidden = row.need("model.hidden");
  shape.heads = row.need("model.heads");
  shape.kv_heads = row.count("model.kv_heads").value_or(0);
  // Any four times of what a row can say is far from overflow: see MeasuredRow::count and the job's limits.
  shape.feed_forward =
      row.count("model.ffn").value_or(std::min<std::int64_t>(shape.hidden, 1 << 30) * 4);
  shape.vocabulary = row.need("model.vocab");
  shape.positions = row.count("train.seq_len").value_or(shape.positions);
  return shape;
}

void assume_megatron_dropout(MappedRun& mapped) {
  mapped.set("training.hidden_dropout", Value::number(0.1));
  mapped.set("training.attention_dropout", Value::number(0.1));
  mapped.assumed.push_back(
      {"training.dropout", "0.1", "not printed; the default of Megatron-LM's arguments.py"});
}

void scatter_transfers(MappedRun& mapped) {
  mapped.set_switch("parallel.scattered_transfers", true);
  mapped.read_as("transfers between stages scattered",
                 "Megatron-LM of those years sends a part from each tensor rank "
                 "(scatter_gather_tensors_in_pipeline, on by default)");
}

void map_cluster(MeasuredRow& row, MappedRun& mapped, std::int64_t devices_per_node) {
  const auto device = device_named(row.text("hardware.gpu"), row.count("hardware.gpu_memory_gib"));
  if (device) {
    mapped.set("cluster.device", *device);
    map_machine(row, *device, mapped);
  } else {
    row.miss("hardware.gpu that we know");
  }
  const std::int64_t devices = row.need("hardware.gpus");
  mapped.set("cluster.devices", devices);
  mapped.set("cluster.devices_per_node", std::min(devices, devices_per_node));
}

bool map_stages(std::int64_t layers, std::int64_t stages, std::int64_t chunks_of_stage,
                MappedRun& mapped) {
  if (stages < 1 || chunks_of_stage < 1) return false;
  mapped.set("parallel.pipeline", stages);
  mapped.set("parallel.virtual_pipeline", chunks_of_stage);
  mapped.set("parallel.schedule", chunks_of_stage > 1 ? "interleaved" : "1f1b");
  // A product of two printed numbers, of at most a million each.
  const std::int64_t chunks =
      std::min<std::int64_t>(stages, 1 << 20) * std::min<std::int64_t>(chunks_of_stage, 1 << 20);
  if (layers % chunks == 0) return true;
  if ((layers + 2) % chunks != 0) return false;
  const std::int64_t each = (layers + 2) / chunks;
  Value::Array layout;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
    layout.push_back(Value::integer(each - (chunk == 0 || chunk == chunks - 1 ? 1 : 0)));
  mapped.set("parallel.pipeline_layout", Value::array(std::move(layout)));
  mapped.read_as("a layer less on the first and the last stage",
                 "the layers divide no other way: embedding and loss count as one each");
  return true;
}

void map_outcome(const MeasuredRow& row, MappedRun& mapped) {
  mapped.out_of_memory = row.truth("measured.oom");
  if (mapped.out_of_memory) return;
  for (const char* speed : {"measured.step_time_s", "measured.tokens_per_s_per_gpu",
                            "measured.tflops_per_gpu", "measured.mfu"}) {
    if (!row.number(speed)) continue;
    mapped.out_of_memory = false;
    mapped.read_as("out of memory: no", "the row prints a speed, so the run ran");
    return;
  }
}

namespace {

// Whether what a row prints of TFLOP/s and time is less than half of what its tokens take in the matrices of its layers alone,
// forward and backward: then one of its numbers is of another run.
bool contradicts_itself(const MeasuredRow& row) {
  const auto layers = row.number("model.layers"), hidden = row.number("model.hidden"),
             sequences = row.number("train.global_batch"), length = row.number("train.seq_len"),
             devices = row.number("hardware.gpus"), seconds = row.number("measured.step_time_s"),
             teraflops = row.number("measured.tflops_per_gpu");
  if (!layers || !hidden || !sequences || !length || !devices || !seconds || !teraflops)
    return false;
  const double needed = 6 * *sequences * *length * 12 * *layers * *hidden * *hidden;
  return *teraflops * 1e12 * *seconds * *devices < needed / 2;
}

}  // namespace

void map_time(const MeasuredRow& row, MappedRun& mapped) {
  if (contradicts_itself(row))
    return mapped.read_as("no step time",
                          "its TFLOP/s and seconds make fewer sequences than it says");
  const auto positive = [&](const char* path) -> std::optional<double> {
    const std::optional<double> value = row.number(path);
    return value && *value > 0 ? value : std::nullopt;
  };
  mapped.step_seconds = positive("measured.step_time_s");
  if (!mapped.step_seconds) mapped.tokens_per_second = positive("measured.tokens_per_s_per_gpu");
  if (!mapped.step_seconds && !mapped.tokens_per_second)
    mapped.step_seconds = positive("derived_by_us.step_time_s");
}

}  // namespace steelyard
