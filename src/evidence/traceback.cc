#include "evidence/traceback.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "evidence/printed.h"

namespace steelyard {
namespace {

struct FramePhase {
  std::string_view words;
  std::string_view phase;
};
// In a frame, innermost first: the first of these that stands in it names the phase.
constexpr std::array<FramePhase, 41> kFramePhases = {{{"/optim/", "optimizer"},
                                                      {"bitsandbytes/optim", "optimizer"},
                                                      {"distrib_optimizer", "optimizer"},
                                                      {"_multi_tensor_", "optimizer"},
                                                      {"_single_tensor_", "optimizer"},
                                                      {"_take_model_step", "optimizer"},
                                                      {"optimizer.step", "optimizer"},
                                                      {"_optimizer_step", "optimizer"},
                                                      {"clip_grad", "optimizer"},
                                                      {"_foreach_norm", "optimizer"},
                                                      {"autograd/__init__.py", "backward"},
                                                      {"torch/autograd/graph.py", "backward"},
                                                      {".backward(", "backward"},
                                                      {" backward", "backward"},
                                                      {"backward_step", "backward"},
                                                      {" unscale_", "optimizer"},
                                                      {"save_checkpoint", "checkpoint"},
                                                      {"save_pretrained", "checkpoint"},
                                                      {"torch.save(", "checkpoint"},
                                                      {"dist_checkpointing", "checkpoint"},
                                                      {"distributed/checkpoint", "checkpoint"},
                                                      {"full_tensor(", "checkpoint"},
                                                      {"from_pretrained", "load"},
                                                      {"load_state_dict", "load"},
                                                      {"load_checkpoint", "load"},
                                                      {"_load_pretrained_model", "load"},
                                                      {"materialize_meta", "load"},
                                                      {"set_module_tensor_to_device", "load"},
                                                      {"torch.load(", "load"},
                                                      {" __init__", "load"},
                                                      {"nn/modules/module.py:", ""},
                                                      {"cross_entropy", "loss"},
                                                      {"loss_utils.py", "loss"},
                                                      {"loss_function(", "loss"},
                                                      {"log_softmax", "loss"},
                                                      {"generation/utils.py", "evaluation"},
                                                      {" generate", "evaluation"},
                                                      {"evaluation_loop", "evaluation"},
                                                      {" evaluate", "evaluation"},
                                                      {" validate", "evaluation"},
                                                      {"prediction_step", "evaluation"}}};

// Whose own frames the signs know by their place within the package (frame_signs.cc).
constexpr std::array<std::string_view, 14> kPackages = {
    "/torch/",       "/transformers/", "/deepspeed/",          "/megatron/",  "/peft/",
    "/accelerate/",  "/bitsandbytes/", "/torchtitan/",         "/trl/",       "/nemo/",
    "/safetensors/", "/lightning/",    "/transformer_engine/", "/flash_attn/"};

// Words that begin with a space are the whole name of a function: "train.py:3 forward: x = y" is a forward,
// "train.py:3 main: pretrain(model, forward_step)" is none.
bool stands_in(std::string_view words, std::string_view frame) {
  const std::size_t at = frame.find(words);
  if (at == std::string_view::npos || !words.starts_with(' ')) return at != std::string_view::npos;
  const std::string_view rest = frame.substr(at + words.size());
  return frame.find(' ') == at && (rest.empty() || rest.starts_with(':'));
}

}  // namespace

std::optional<std::string> frame_of_line(std::string_view text) {
  const auto begin = behind(text, "File \"");
  if (!begin) return std::nullopt;
  const std::size_t end = begin->find('"');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view path = begin->substr(0, end);
  std::string_view rest = begin->substr(end + 1);
  const auto line = integer_behind(rest, "line ");
  if (!line) return std::nullopt;
  for (const std::string_view root : {"site-packages/", "dist-packages/", "site-packages\\"}) {
    const std::size_t at = path.rfind(root);
    if (at != std::string_view::npos) path.remove_prefix(at + root.size());
  }
  // A package that is installed from its own sources: /workspace/DeepSpeed/deepspeed/runtime/zero/stage3.py.
  std::size_t package = 0;
  for (const std::string_view name : kPackages)
    if (const std::size_t at = path.rfind(name); at != std::string_view::npos)
      package = std::max(package, at + 1);
  path.remove_prefix(package);
  if (path.starts_with('/') || path.find(":\\") == 1) {
    // The last folder and the file: enough to find it, and the screen is narrow.
    const std::size_t file = path.find_last_of("/\\");
    const std::size_t folder =
        file == std::string_view::npos || file == 0 ? file : path.find_last_of("/\\", file - 1);
    if (folder != std::string_view::npos) path.remove_prefix(folder + 1);
  }
  std::string_view name;
  if (const auto in = behind(rest, ", in ")) name = without_spaces(*in);
  if (name.size() > 120) name = name.substr(0, 120);
  return fmt::format("{}:{} {}", path.substr(0, 200), *line, name);
}

std::string phase_of_frames(const std::vector<std::string>& frames) {
  // The optimizer's, the loss's and backward's own frames decide before what called them; a module's forward is what
  // remains.
  bool in_module = false;
  for (const std::string& frame : frames) {
    for (const FramePhase& known : kFramePhases) {
      if (!stands_in(known.words, frame)) continue;
      if (!known.phase.empty()) {
        // A constructor within a module's call is part of the forward.
        if (known.phase == "load" && in_module) continue;
        // What the backward pass calls again of a forward is recomputed within it; a step may call the forward, too.
        if (in_module && (known.phase == "optimizer" || known.phase == "loss")) return "forward";
        return std::string(known.phase);
      }
      if (frame.find("_call_impl") != std::string::npos ||
          frame.find("_wrapped_call_impl") != std::string::npos)
        in_module = true;
      else if (frame.find(" _apply") != std::string::npos ||
               frame.find(" to:") != std::string::npos)
        return "load";
    }
    if (stands_in(" forward", frame)) in_module = true;
  }
  return in_module ? "forward" : std::string();
}

}  // namespace steelyard
