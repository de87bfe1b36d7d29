// The formats, one file each: what recognises a document, what reads it into a run file, what writes it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "document/value.h"
#include "formats/launch/mapping.h"
#include "formats/launch/shell.h"

namespace steelyard {

// What the files of one launch share while they are read: who else can be opened, and what only several of them
// decide together.
struct Launch {
  Imported into;
  ReadFile read_file;  // absent: files that are named cannot be read
  std::string folder;
  std::map<std::string, Value, std::less<>> files;  // that the script writes itself
  const ShellEnvironment* environment = nullptr;    // of the command that is read
  int depth = 0;

  // Stacks on Hugging Face's Trainer: mixed precision and the type in which weights are loaded are said in
  // different files, and mean one thing under DDP and another under FSDP.
  Value mixed;  // "bf16", "fp16", "no"; where it was said
  Value load;   // "bfloat16", ...
  bool hugging_face = false;
  bool trl = false;  // TRL's own command: its configurations have defaults of their own
};

// Far above any configuration that someone wrote, and few enough to compare each with each.
constexpr std::int64_t kMostLaunchValues = 20'000;
// Says so, when a document has more.
bool is_too_large(const Value& document, Imported& into);

// A file that another one names, as text; a problem at `at` when there is none.
std::optional<Value> named_file(Launch& launch, const Value& at);

// The same as a document; nothing after a problem was said.
std::optional<Value> named_document(Launch& launch, const Value& at);

// A kind of document, one row each: by what it is recognised, who reads it, and which target of `export` writes it.
struct DocumentFormat {
  std::string_view name;   // "axolotl"
  std::string_view label;  // "Axolotl YAML": what `import` calls it
  bool (*is_this)(const Value& document);
  void (*read)(const Value& document, Launch& launch);
  std::string_view target = {};  // "axolotl"; empty: it is not written
  // Of several formats in one launch, whose target counts: the file of the whole run, then a part of one, then flags.
  enum class Says { kRun, kPart, kFlags } says = Says::kRun;
};
// In the order in which a document is held to them.
std::span<const DocumentFormat> document_formats();

// Recognised by what it says; empty: not a launch configuration of these.
std::string_view format_of(const Value& document);
// Reads a document of that format; false when there is no such format.
bool read_format(std::string_view format, const Value& document, Launch& launch);

// --- one pair a format -----------------------------------------------------------------------------------
void read_deepspeed(const Value& document, Launch& launch);
void write_deepspeed(ConfigWriter& writing);

void read_accelerate(const Value& document, Launch& launch);
void write_accelerate(ConfigWriter& writing);

// Flags of a training script, or the YAML that TRL reads: TrainingArguments, SFTConfig and ModelConfig.
void read_hugging_face(const Value& document, Launch& launch, std::string_view format);
void write_hugging_face(ConfigWriter& writing);

void read_torchtitan(const Value& document, Launch& launch);
void write_torchtitan(ConfigWriter& writing);

// `program`: what is started, "pretrain_gpt"; empty: a file says the flags alone.
void read_megatron(const Value& flags, Launch& launch, std::string_view program = {});
void write_megatron(ConfigWriter& writing);

// NeMo 1.x and Megatron-Bridge: Megatron-LM's flags under other names and in sections.
void read_nemo(const Value& document, Launch& launch);

void read_nanotron(const Value& document, Launch& launch);
void write_nanotron(ConfigWriter& writing);

void read_axolotl(const Value& document, Launch& launch);
void write_axolotl(ConfigWriter& writing);

void read_llama_factory(const Value& document, Launch& launch);
void write_llama_factory(ConfigWriter& writing);
// The second generation of its keys, read and not written.
void read_llama_factory_v1(const Value& document, Launch& launch);

void read_torchtune(const Value& document, Launch& launch, std::string_view recipe);

// Words of one command: torchrun, accelerate launch, deepspeed, srun, axolotl, llamafactory-cli, trl, tune, python.
// False when it launches nothing.
bool read_command_line(std::span<const Value> words, Launch& launch);

// The words behind `trl`: sft, dpo, ...; false when they train nothing.
bool read_trl(std::span<const Value> words, Launch& launch);

// What such a command starts: a script or a module with its words.
bool read_program(const Value& program, std::span<const Value> words, Launch& launch);

// What only all files together say: precision, and who runs. Call once, at the end.
void conclude(Launch& launch);

}  // namespace steelyard
