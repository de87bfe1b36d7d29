#include "report/error_codes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace steelyard {

const std::vector<ErrorCode>& error_codes() {
  // clang-format off
  static const std::vector<ErrorCode> kCodes = {
      // The command line.
      {"E001", "unknown command", "Commands are not abbreviated: a prefix that is unique today breaks scripts tomorrow."},
      {"E002", "unknown flag", "Flags mirror the keys of the run file (steelyard list keys) and are not abbreviated."},
      {"E003", "a word too few or too many", "Each command says what it takes in the first line of its help."},
      {"E005", "a flag's value is not understood", "What a flag takes stands in the command's --help."},
      {"E070", "internal error", "The span and the replay of every event disagreed, or an impossible state was reached: a defect of steelyard, worth a report."},
      // Documents: JSON, TOML, run files key by key.
      {"E100", "a file cannot be read", "Relative paths on the command line start where you are; those in a run file start at the run file."},
      {"E101", "the text is not JSON or TOML", "Truncated and malformed files are refused as a whole: half a run file is another run."},
      {"E102", "a key is given twice", "Which of the two was meant cannot be known, so none is taken."},
      {"E103", "nested too deep, or too large", "A run file is a page of text; what is far larger is another kind of file."},
      {"E104", "unknown key", "A key that is not known would be ignored in silence, and the answer would be for another run. Keys of your own belong in [carried]."},
      {"E105", "a value of another kind", "A number is wanted where text stands, or the reverse. 8192, 8_192 and \"8k\" are all understood as counts."},
      {"E106", "a name that is not known", "Names are compared without regard to capitals and dashes; steelyard list names them all."},
      {"E107", "a number out of reason", "Sizes are one or more and fit 64 bits; a run of 10^18 of anything is a slip of the keyboard."},
      {"E108", "a needed key is missing", "Everything else has a default, which is listed among the assumptions (-v); this has none."},
      {"E110", "not a measured run", "validate reads recorded runs and rows of measurements: a record has \"schema\": \"steelyard.record/1\", a row an \"id\" and its \"source\". The other rows are judged all the same."},
      {"E111", "no device of that name", "A device is named as in steelyard list devices, as PyTorch prints it, or by its memory: \"24gb\"."},
      {"E112", "allocator settings are not understood", "PYTORCH_ALLOC_CONF is option:value, separated by commas; a list of values stands in brackets."},
      {"E113", "a pickle is not understood", "A snapshot is a pickle of protocol 2 to 5, as torch.cuda.memory._dump_snapshot writes it. A file that ends early is refused as a whole."},
      {"E114", "a pickle wants to run something", "A pickle can import and call anything when Python loads it. Here values alone are read; a memory snapshot has nothing else."},
      {"E115", "a pickle is no memory snapshot", "A snapshot has segments, made of blocks without gaps, and for each device a trace of what was allocated and freed."},
      {"E116", "a file is no evidence of a run", "It is named for what it is: a Git LFS pointer, an HTML page, a checkpoint, an archive. Evidence is a memory snapshot, a log, a profiler's trace or a flight recorder's dump."},
      {"E117", "a plan of experiments is not understood", "experiments.json is written by diagnose --plan-experiment --to-folder and read back as it was: its causes, the changed runs, and what each must show."},
      {"E118", "a script cannot be rehearsed", "rehearse starts the command that stands behind -- with a device on paper under PyTorch's CUDA build for Linux. What the script itself does wrong is its own, and is shown as Python says it."},
      // What keys mean together.
      {"E210", "the product is not the device count", "devices = data x tensor x context x pipeline. Expert parallelism divides the data-parallel ranks and needs no devices of its own. Any other product would leave devices idle or give one two jobs."},
      {"E211", "the batches do not multiply", "global_batch = micro_batch x gradient_accumulation x data. The learning-rate schedule rests on the global batch, so it is never rounded."},
      {"E212", "tensor parallelism does not divide the model", "Heads, key-value heads and feed-forward widths are cut into equal parts, one for each tensor-parallel rank; most engines refuse an uneven cut."},
      {"E213", "the pipeline does not divide the layers", "Every stage, and with virtual_pipeline every chunk, holds whole layers; some engines want them equal."},
      {"E214", "context parallelism does not divide the model", "Ulysses gives every rank whole heads; a ring needs a kernel that can be asked for parts of a sequence."},
      {"E215", "expert parallelism does not divide the experts", "Experts are divided in equal numbers over ranks inside data x context x tensor; what is left of that product holds the same experts."},
      {"E216", "the engine has no such choice", "Each engine shards in its own way: steelyard list engines says what each takes."},
      {"E217", "the engine has no such parallelism", "The run would not start: the engine has no code for it, or not together with what else is asked."},
      {"E218", "the sequence does not divide, or is too long", "Context and sequence parallelism cut the sequence into equal parts; a table of positions has an end."},
      {"E219", "nothing to recompute there", "The model has no such module, or the number of layers is out of range."},
      {"E220", "the device or kernel cannot do that", "Flash attention computes in 16 bits on recent devices; some models have one kernel only."},
      {"E221", "the optimizer has no such form", "fused, foreach and loop are forms of PyTorch's optimizers; others have one form."},
      {"E222", "nothing of that name to freeze", "training.frozen lists patterns of whole tensor names, as the checkpoint has them; `*` stands for any letters."},
      {"E224", "mixed precision needs fully_shard", "With one data rank torchtitan does not apply fully_shard, whose policy makes FSDP2's mixed precision: one device then uses autocast, and tensor or pipeline parallelism alone trains in the parameters' own type."},
      {"E225", "the adapter and the run do not fit together", "What is trained has one type, and the frozen part another: precision, engine and [adapter] say which. Quantised bases multiply in 16 bits."},
      {"E226", "no module of that name for an adapter", "adapter.target_modules lists the ends of linear modules' names, as PEFT does; routers, experts and embeddings of transformers are no linear modules."},
      {"E227", "lengths of samples and packing do not fit together", "Padded micro-batches are as long as their longest sample: mean_length and length_deviation say how long samples are, and belong to packing = \"padded\" alone."},
      {"E228", "CUDA graphs and the run do not fit together", "A graph replays what it has recorded, with the same shapes at the same addresses: what waits for the host, or is wrapped in a checkpoint, is not captured."},
      {"E229", "the device does not stand in that machine", "A machine is sold with one or a few kinds of devices. A file of your own says which, or none: then it is any."},
      {"E230", "collectives are checked", "With TORCH_DISTRIBUTED_DEBUG=DETAIL PyTorch runs a barrier over the hosts and compares what each rank is about to send before every collective. It finds the rank that hangs, and a step of many small collectives takes several times as long."},
      {"E231", "the method has no such reference", "A preference is scored by a reference: a second model (its weights stand beside the policy's), the policy without its adapters (no weights of its own), or nobody while it trains (precompute_ref_log_probs). Other methods score nothing."},
      {"E223", "nothing is left to train", "Backward starts at a loss that needs a gradient. In a pipeline DeepSpeed also runs backward on every stage, and joins the trained tensors of each into one: neither works where there are none."},
      {"E245", "the code has no such model", "Each engine trains with model code of its own, which has some families and not others (data/implementations names the version and the file). The sizes can be weighed all the same; nothing would start, so export refuses, and plan looks for no such layout."},
      {"E246", "the engine keeps no fp32 weights with this precision", "What a precision's name promises and what the engine's code keeps differ: say the precision that the engine has."},
      {"E247", "no stack that was asked for can train this", "A plan searches engines whose code has the model and whose launch files can say the run. --engine and --for say which are searched."},
      {"E260", "the device has no products of this precision: the run dies at start", "Units for 8-bit products came with Ada and Hopper, those for blocks of 32 with Blackwell. Transformer Engine and torchao ask for the compute capability before the first product, and stop. gate refuses such a run.", true},
      {"E261", "flash attention 2 needs Ampere: the run dies at start", "flash-attn 2 checks the device in its first call, and stops. PyTorch's own scaled_dot_product_attention takes another kernel there instead. gate refuses such a run.", true},
      {"E262", "a name of the environment that is not read", "Versions of packages stand in [environment] because they change memory. A name that nobody reads would be taken for one that is: steelyard list environment shows them all."},
      {"E263", "a variable that changes memory is not weighed", "It is known to change what is allocated, and the answer leaves it out. It is carried, and written again on export."},
      {"E264", "few bits reach a part of the weights alone", "bitsandbytes puts its classes in the place of torch.nn.Linear. Since transformers 5 the experts of a layer are two tensors and no linear modules: they stay as they are, and prepare_model_for_kbit_training even makes fp32 of them."},
      {"E265", "the checkpoint has few bits itself", "transformers loads quantised weights as they are stored, whatever the script asks for. Of bitsandbytes' 4 and 8 bits the bytes are known; those of other methods are not guessed."},
      {"E266", "adapters of experts that are not weighed, or that PEFT refuses", "Before transformers 5 each expert has linear modules, and a target that names them gives every expert an adapter. Leaving those out would answer for another run. Beside the stacked tensors of transformers 5 PEFT has no DoRA and no dropout, and asks for gate and up together."},
      {"E267", "a kernel is taken for installed", "transformers takes a package's kernel where it finds it, and its own code elsewhere, which keeps more. The answer is for the kernel."},
      // Models.
      {"E301", "unknown model family", "The tensors of a model follow from its family (model_type). A family that is not known is never guessed at."},
      {"E302", "a size is missing from the config", "The size of a model is never guessed from its family."},
      {"E303", "a value of the config is not understood", "It would change the tensors in a way that is not described here."},
      {"E304", "a size of the config is out of reason", "Zero, negative and absurd sizes are slips; they are never weighed."},
      {"E305", "sizes of the config disagree", "Widths are multiples of their heads, lists have one entry for each layer."},
      {"E306", "two names of one size disagree", "n_embd, d_model and hidden_size are one key in different families."},
      {"E307", "the model is too large to count", "Its parameters do not fit 64 bits."},
      {"E308", "no model of that name", "Presets, hub ids and links are known (steelyard list models); others need their config.json."},
      {"E309", "the stored tensors do not match", "The header of a safetensors file lists every tensor; a difference from the config is reported tensor by tensor."},
      {"E320", "known, and not weighed yet", "Leaving it out in silence would give a number for another run."},
      {"E410", "nothing of that name to explain", "A derivation can be asked of a pile, a phase, an owner, an entry or a rule; only what is alive at the peak, or in the phase that is named, has bytes."},
      {"E601", "a launch configuration says something that is not understood", "What is not understood would be another run, or one that the engine refuses. The line is the one in the engine's own file."},
      {"E602", "something of a launch configuration was not followed", "A condition that only the machine knows, a loop, a key that changes no byte: the rest is read, and this is said."},
      {"E603", "the engine has no word for this", "An exported file must start the run that was weighed. What an engine cannot be told is refused when it changes the run's shape, and listed as left out when it does not."},
      {"E604", "not a launch configuration, or no engine of that name", "Formats are recognised by their own keys; a script must launch something: torchrun, accelerate launch, deepspeed, srun."},
      {"E605", "the gate's policy is not understood", "A policy is TOML: refuse, not_weighed, no_training, headroom_gib, and a table for each partition with its device."},
      {"E610", "no environment variable can be called so", "A name is letters, digits and _, and begins with no digit. Another would be a command of the script that sets it."},
      {"E611", "not a word that Slurm takes", "The lines #SBATCH of a script hold a partition's name and a time limit as they are: another word would be another line, or a job that is refused."},
      {"E612", "a text that no launch file can hold", "YAML, JSON, TOML and shell scripts are UTF-8, and none of their words can hold the character 0."},
      {"E615", "a file of yours cannot be changed to this", "Export to a file's own engine changes the keys that have to change, and reads the result again: it must be the run that was asked for. A value that a script computes, or a key that means more than one thing, is left to you."},
      {"E616", "the change is in another file than the one given", "A script, its YAML and its JSON each say a part of the run. One stream can hold one of them, and the text of one is never written where another is expected."},
      {"E617", "another kind of file", "Configurations, launch scripts, run files and models are read. Programs are never run, and recorded evidence is no configuration."},
      // Answers and files that are written.
      {"E620", "the answer could not be written", "The disk is full, or stdout is closed: half an answer would be read as a whole one."},
      {"E621", "a file cannot be written", "It is written beside and renamed when it is complete, so the folder must take new files; the old file is as it was."},
      {"E622", "the step is too long for a trace", "A trace has a slice for every passage of every micro-batch. Beyond a hundred thousand no viewer opens it."},
      {"E623", "not enough memory for this input", "The input asks for more than the machine, or its limit (ulimit -v), gives."},
      {"E624", "the answer has nothing to draw", "A chart needs numbers: an answer without any, such as an error text without sizes, has none. --html writes the words as a page."},
      {"E630", "the page cannot be served", "`steelyard page` needs the built page beside the program, and a port of this machine that is free."},
      {"E640", "a key of the config is not followed", "A key that the family does not know may make tensors that are not counted. The nearest known name is shown."},
      {"E641", "a part of the model is not counted", "The file describes more than the language model, and that alone is weighed."},
      {"E642", "something that changes memory is not weighed", "Leaving it out in silence would answer for another run: it is refused by its name, with the line where it stands."},
  };
  // clang-format on
  return kCodes;
}

const ErrorCode* find_error_code(std::string_view code) {
  std::string written(code.substr(0, 8));
  if (written.starts_with('e')) written.front() = 'E';
  for (const ErrorCode& known : error_codes())
    if (known.code == written) return &known;
  return nullptr;
}

bool dies_at_start(const Diagnostics& problems) {
  return std::any_of(problems.begin(), problems.end(), [](const Diagnostic& problem) {
    const ErrorCode* code = find_error_code(problem.code);
    return code != nullptr && code->dies_at_start;
  });
}

std::string error_code_text(const ErrorCode& code, const Style& style) {
  return painted(style, Ink::kStrong, code.code) + ": " + std::string(code.title) + "\n  " +
         wrapped(style, code.why, 2) + "\n";
}

nlohmann::ordered_json json_of(const ErrorCode& code) {
  return {{"schema", "steelyard.error_code/1"},
          {"code", code.code},
          {"title", code.title},
          {"why", code.why},
          {"dies_at_start", code.dies_at_start}};
}

}  // namespace steelyard
