#include "formats/launch/fsdp_keys.h"

#include "document/read.h"

namespace steelyard {
namespace {

constexpr std::string_view kSyncEachBatch =
    "accelerator_config.gradient_accumulation_kwargs.sync_each_batch";
constexpr const char* kEndsApart = "Accelerate wraps embedding and head apart since 1.14";

}  // namespace

bool syncs_each_micro_batch(ConfigWriter& writing) {
  const bool each = writing.truth("parallel.sync_each_micro_batch", true);
  return each && writing.look_count("training.gradient_accumulation", 2) > 1;
}

void write_sync(ConfigWriter& writing) {
  if (syncs_each_micro_batch(writing))
    writing.put(kSyncEachBatch, Value::boolean(true), "no whole gradients wait for the last");
}

void read_sync(ConfigReader& reading) {
  if (const Value* sync = reading.take(kSyncEachBatch))
    reading.say("parallel.sync_each_micro_batch", *sync, *sync);
}

void write_ends(ConfigWriter& writing) {
  const bool second = writing.look_word("engine") != "fsdp1";
  if (writing.word("wrap.ends", "apart") == "root" && second) writing.lose("wrap.ends", kEndsApart);
}

bool read_fsdp_switches(ConfigReader& reading, const FsdpKey& key) {
  const auto on = [&](std::string_view name) -> const Value* {
    const Value* value = key(name);
    return value != nullptr && truth_of(*value).value_or(false) ? value : nullptr;
  };
  if (const Value* offload = on("offload_params")) {
    reading.say("offload.parameters", "cpu", *offload);
    reading.say("offload.optimizer", "cpu", *offload);
  }
  if (const Value* sync = reading.take(kSyncEachBatch))
    reading.say("parallel.sync_each_micro_batch", *sync, *sync);
  else
    reading.take_default("parallel.sync_each_micro_batch", Value::boolean(false),
                         "Accelerate reduces gradients with the last micro-batch (no_sync)");
  if (const Value* engine = reading.said("engine");
      engine != nullptr && word_of(*engine) == "fsdp2")
    reading.take_default("wrap.ends", Value::string("apart"), kEndsApart);
  if (const Value* again = on("activation_checkpointing"))
    reading.say("recompute.mode", "full", *again);
  const Value* save = key("state_dict_type");
  if (save == nullptr) return false;
  reading.say("checkpoint.save", word_of(*save) == "FULL_STATE_DICT" ? "full-rank0" : "sharded",
              *save);
  return true;
}

void read_fsdp_keys(ConfigReader& reading, Launch& launch) {
  const Value* fsdp = reading.take("fsdp");
  std::string words;
  if (fsdp != nullptr && fsdp->is_array()) {
    for (const Value& item : fsdp->items()) words += word_of(item) + " ";
  } else if (fsdp != nullptr) {
    words = word_of(*fsdp);
  }
  if (words.empty() || words == "false") return;
  std::optional<Value> config;
  if (const Value* given = reading.take("fsdp_config")) {
    if (given->is_table()) {
      config = *given;
    } else if (const auto text = named_file(launch, *given)) {
      ReadValue read = read_json(text->as_string(), word_of(*given));
      if (!read) {
        for (Diagnostic& problem : read.error()) launch.into.problems.push_back(std::move(problem));
        return;
      }
      if (is_too_large(*read, launch.into)) return;
      config = std::move(*read);
    }
  }
  const Value empty = Value::table();
  const Value& keys = config ? *config : empty;
  const FsdpKey key = [&](std::string_view name) {
    const Value* value = keys.find(name);
    return value != nullptr ? value : keys.find("fsdp_" + std::string(name));
  };
  const Value* version = key("version");
  // `fsdp: true` came with transformers 5.10, and version 2 as its default.
  const bool switched = words == "true" || words == "True";
  const bool second = version != nullptr ? word_of(*version) == "2" : switched;
  if (version == nullptr)
    reading.take_default("engine", Value::string(switched ? "fsdp2" : "fsdp1"),
                         switched ? "fsdp: true is version 2 unless said"
                                  : "Trainer's FSDP is version 1 unless said");
  else
    reading.say("engine", second ? "fsdp2" : "fsdp1", *version);
  const Value* reshard = key("reshard_after_forward");
  if (second && reshard != nullptr) {
    reading.say("parallel.zero_stage", Value::integer(truth_of(*reshard).value_or(true) ? 3 : 2),
                *reshard);
  } else if (words.find("shard_grad_op") != std::string::npos) {
    reading.say("parallel.zero_stage", Value::integer(2), *fsdp);
  } else if (words.find("no_shard") != std::string::npos ||
             words.find("hybrid") != std::string::npos) {
    reading.refuse(*fsdp, "this form of FSDP is not read", "full_shard and shard_grad_op are");
  } else {
    reading.say("parallel.zero_stage", Value::integer(3), *fsdp);
  }
  if (words.find("offload") != std::string::npos) {
    reading.say("offload.parameters", "cpu", *fsdp);
    reading.say("offload.optimizer", "cpu", *fsdp);
  }
  read_fsdp_switches(reading, key);
}

void refuse_fsdp_alone(ConfigWriter& writing) {
  const std::string engine = writing.look_word("engine");
  if ((engine == "fsdp1" || engine == "fsdp2") && writing.look_count("cluster.devices", 1) == 1)
    writing.refuse("engine", "one device has no FSDP with Accelerate", "--engine ddp");
}

void write_fsdp_keys(ConfigWriter& writing) {
  const std::string engine = writing.look_word("engine");
  if (engine != "fsdp1" && engine != "fsdp2") return;
  refuse_fsdp_alone(writing);
  writing.take("engine");
  const std::int64_t stage = writing.count("parallel.zero_stage", 3);
  const bool offload = writing.word("offload.parameters", "none") == "cpu";
  const bool states = writing.word("offload.optimizer", "none") == "cpu";
  if (offload != states)
    writing.refuse("offload.optimizer",
                   "FSDP offloads parameters and states together or not at all");
  if (offload && writing.look_word("training.optimizer").find("paged") != std::string::npos)
    writing.refuse("training.optimizer", "FSDP's offload steps on the host, where nothing is paged");
  std::string words = stage == 2 ? "shard_grad_op" : "full_shard";
  if (offload) words += " offload";
  writing.put("fsdp", words + " auto_wrap", "what is divided over the ranks");
  writing.put("fsdp_config.version", Value::integer(engine == "fsdp2" ? 2 : 1));
  if (engine == "fsdp2")
    writing.put("fsdp_config.reshard_after_forward", Value::boolean(stage != 2),
                "parameters go after forward, and are gathered again in backward");
  write_ends(writing);
  write_sync(writing);
  if (const Value* save = writing.take("checkpoint.save"))
    writing.put("fsdp_config.state_dict_type",
                word_of(*save) == "sharded" ? "SHARDED_STATE_DICT" : "FULL_STATE_DICT");
}

}  // namespace steelyard
