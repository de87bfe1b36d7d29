#include "formats/launch/fsdp2_python.h"

#include <fmt/format.h>

#include "document/quoting.h"
#include "formats/launch/hugging_face.h"

namespace steelyard {

std::string fsdp2_python(ConfigWriter& writing) {
  const std::string engine = writing.word("engine", "fsdp2");
  if (engine != "fsdp2")
    writing.refuse("engine", fmt::format("the run's engine is {}", engine),
                   "--engine fsdp2 makes it an FSDP2 run");
  const std::string model = model_written(writing);
  const std::int64_t devices = writing.count("cluster.devices", 1);
  writing.take("cluster.devices_per_node");
  const std::int64_t replicate = writing.count("parallel.replicate", 1);
  const std::int64_t data = writing.count("parallel.data", devices);
  const std::int64_t stage = writing.count("parallel.zero_stage", 3);
  const std::int64_t micro = writing.count("training.micro_batch", 1);
  const std::int64_t accumulation = writing.count("training.gradient_accumulation", 1);
  writing.take("training.global_batch");
  const std::int64_t length = writing.count("training.sequence_length", 2048);
  const std::string precision = writing.word("training.precision", "bf16-mixed");
  if (precision != "bf16-mixed" && precision != "fp32" && precision != "bf16-pure")
    writing.refuse("training.precision", fmt::format("not written with {}", precision),
                   "bf16-mixed, bf16-pure and fp32 are");
  const std::string mode = writing.word("recompute.mode", "none");
  const std::int64_t every = writing.count("recompute.every", 1);
  if (mode != "none" && mode != "full" && mode != "every")
    writing.refuse("recompute.mode", fmt::format("not written with {}", mode),
                   "none, full and every are");
  const bool reentrant = writing.truth("recompute.reentrant", false);
  const std::string attention = writing.word("training.attention", "flash");
  const std::string optimizer = writing.word("training.optimizer", "adamw");
  const std::string form = writing.word("training.optimizer_form", "foreach");
  const auto built =
      theirs_of("torch.optim.AdamW=adamw|torch.optim.Adam=adam|torch.optim.SGD=sgd", optimizer);
  if (!built)
    writing.refuse("training.optimizer", fmt::format("{} is none of torch's own", optimizer),
                   "adamw, adam and sgd are written");
  const bool offload = writing.word("offload.parameters", "none") == "cpu";
  if (offload != (writing.word("offload.optimizer", "none") == "cpu"))
    writing.refuse("offload.optimizer",
                   "FSDP2 offloads parameters and states together or not at all");
  const bool compile = writing.truth("training.compile", false);
  const Value* clip = writing.take("training.gradient_clip");
  const std::string code = writing.word("implementation", "transformers");
  if (code != "transformers")
    writing.refuse("implementation", "this snippet loads a transformers model");
  for (const char* key : {"wrap.policy", "checkpoint.save", "training.method", "training.dropout",
                          "parallel.sequence_parallel"})
    writing.take(key);
  if (writing.word("training.loss", "plain") != "plain")
    writing.refuse("training.loss", "this snippet computes the model's own loss");

  std::string text =
      "import torch\n"
      "from torch.distributed.device_mesh import init_device_mesh\n"
      "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard";
  text += offload ? ", CPUOffloadPolicy\n" : "\n";
  if (mode != "none")
    text +=
        "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import "
        "checkpoint_wrapper, CheckpointImpl\n";
  // SDPA takes the smallest kernel that runs, unless it is told which.
  const bool efficient = attention == "efficient";
  if (efficient) text += "from torch.nn.attention import SDPBackend, sdpa_kernel\n";
  text += "from transformers import AutoConfig, AutoModelForCausalLM\n\n";
  text += fmt::format("SEQUENCE_LENGTH = {}  # tokens of one sequence\n", length);
  text += fmt::format("MICRO_BATCH = {}  # sequences of one device in one micro-step\n", micro);
  text += fmt::format("GRADIENT_ACCUMULATION = {}  # micro-steps of one optimizer step\n\n",
                      accumulation);
  if (replicate > 1)
    text += fmt::format(
        "mesh = init_device_mesh(\"cuda\", ({}, {}), mesh_dim_names=(\"replicate\", \"shard\"))\n",
        replicate, data / std::max<std::int64_t>(1, replicate));
  else
    text += fmt::format("mesh = init_device_mesh(\"cuda\", ({},), mesh_dim_names=(\"shard\",))\n",
                        data);
  const std::string stored = precision == "bf16-pure" ? "torch.bfloat16" : "torch.float32";
  text += fmt::format("config = AutoConfig.from_pretrained({})\n", python_string(model));
  text += "with torch.device(\"meta\"):\n";
  text += fmt::format(
      "    model = AutoModelForCausalLM.from_config(config, dtype={}, "
      "attn_implementation=\"{}\")\n",
      stored,
      attention == "flash"   ? "flash_attention_2"
      : attention == "eager" ? "eager"
                             : "sdpa");
  // A cache would keep every layer's keys and values; a checkpointed layer would add to it once more
  // when it runs again, and attend to twice as many.
  text += "model.config.use_cache = False  # training asks for no past tokens\n";
  text += "layers = model.model.layers  # the blocks: each becomes one unit\n";
  if (mode != "none") {
    const std::string kind = reentrant ? "REENTRANT" : "NO_REENTRANT";
    text += "for index in range(len(layers)):\n";
    const std::string indent = mode == "every" ? "        " : "    ";
    if (mode == "every")
      text += fmt::format("    if index % {} == 0:  # the others keep all\n", every);
    text += fmt::format(
        "{}layers[index] = checkpoint_wrapper(layers[index], checkpoint_impl=CheckpointImpl.{})\n",
        indent, kind);
  }
  if (compile)
    text += "for index in range(len(layers)):\n    layers[index] = torch.compile(layers[index])\n";
  text += "options = dict(\n    mesh=mesh,\n";
  text += fmt::format(
      "    reshard_after_forward={},  # {}\n", stage == 2 ? "False" : "True",
      stage == 2 ? "ZeRO-2: gathered parameters stay" : "ZeRO-3: parameters go after forward");
  // The reduction is in 16 bits, as the precision says and as it is weighed.
  if (precision == "bf16-mixed")
    text +=
        "    mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, "
        "reduce_dtype=torch.bfloat16),\n";
  if (offload) text += "    offload_policy=CPUOffloadPolicy(),\n";
  text += ")\nfor layer in layers:\n    fully_shard(layer, **options)\n";
  const bool apart = writing.word("wrap.ends", "root") == "apart";
  const bool always = writing.word("parallel.reshard_after_forward", "default") == "always";
  if (apart)
    text += fmt::format(
        "if not config.tie_word_embeddings:\n"
        "    fully_shard(model.model.embed_tokens, **options)\n"
        "last = [model.model.norm, model.lm_head]{}\n"
        "if config.tie_word_embeddings:\n"
        "    last.insert(1, model.model.embed_tokens)  # one weight, one unit\n"
        "fully_shard(last, **{})\n",
        always ? "" : "  # stays gathered until its backward",
        always ? "options" : "{**options, \"reshard_after_forward\": False}");
  // PyTorch since June 2025 heeds what it is told of the root, too, and keeps it gathered where it is told nothing.
  text += always || (stage == 2 && !apart)
              ? "fully_shard(model, **options)\n"
              : "fully_shard(model, **{**options, \"reshard_after_forward\": None})\n";
  text += fmt::format("model.to_empty(device=\"{}\")  # then load or initialise the weights\n",
                      offload ? "cpu" : "cuda");
  if (offload)  // FSDP2 moves parameters; buffers stay where they are unless they are moved
    text += "for buffer in model.buffers():\n    buffer.data = buffer.data.to(\"cuda\")\n";
  text += "\n";
  std::string how;
  if (optimizer != "sgd" || form != "loop")
    how = form == "fused"     ? ", fused=True"
          : form == "foreach" ? ", foreach=True"
                              : ", foreach=False";
  text += fmt::format("optimizer = {}(model.parameters(), lr=1e-4{})\n\n",
                      built.value_or("torch.optim.AdamW"), how);
  text +=
      "\ndef step(batches):\n    for index, batch in enumerate(batches):  # GRADIENT_ACCUMULATION "
      "of them\n";
  // No set_is_last_backward: with it the last unit's input of the reduction stays for the next
  // micro-batch, four bytes of each of its parameters.
  if (!writing.truth("parallel.sync_each_micro_batch", true))
    text += "        model.set_requires_gradient_sync(index + 1 == GRADIENT_ACCUMULATION)\n";
  const std::string_view indent = efficient ? "            " : "        ";
  if (efficient) text += "        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):\n";
  text += fmt::format(
      "{0}loss = model(input_ids=batch, labels=batch).loss / GRADIENT_ACCUMULATION\n"
      "{0}loss.backward()\n",
      indent);
  const bool clips =
      clip != nullptr &&
      (clip->is_bool() ? clip->as_bool() : clip->is_number() && clip->as_number() > 0);
  if (clips)
    text += fmt::format("    torch.nn.utils.clip_grad_norm_(model.parameters(), {})\n",
                        clip->is_number() ? clip->as_number() : 1.0);
  text += "    optimizer.step()\n    optimizer.zero_grad()\n";
  return text;
}

}  // namespace steelyard
