// The commands: one row each, from which dispatch, help and completion follow.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/style.h"

namespace steelyard {

struct Command;

// A run-file key said as a flag: --sequence-length 8k.
struct SaidKey {
  std::string key;   // "training.sequence_length"
  std::string text;  // "8k"
  std::string flag;  // "--sequence-length", as typed
};

// One call of the program, understood.
struct Invocation {
  const Command* command = nullptr;
  std::vector<std::string> words;                  // what is not a flag
  std::optional<std::vector<std::string>> behind;  // the words behind --: a script's own
  std::map<std::string, std::vector<std::string>, std::less<>> flags;
  std::vector<SaidKey> keys;  // in the order of the run file
  Style style;                // of stdout
  Style error_style;          // of stderr
  bool json = false;

  bool has(std::string_view flag) const { return flags.find(flag) != flags.end(); }
  // The value of a flag given once, or null.
  const std::string* value(std::string_view flag) const;
  std::size_t count(std::string_view flag) const;
};

struct Command {
  std::string_view name;
  std::string_view arguments;  // "RUN|MODEL [flags]"
  std::string_view summary;    // half a line, for the list of commands
  std::string_view about;      // a paragraph
  std::vector<std::string_view> examples;
  bool run_keys = false;  // accepts the flags that mirror the run file
  int (*run)(const Invocation&) = nullptr;
  bool starts_a_command = false;  // which stands behind --
};

const std::vector<Command>& commands();
const Command* find_command(std::string_view name);

int weigh_command(const Invocation& invocation);
int plan_command(const Invocation& invocation);
int explain_command(const Invocation& invocation);
int sweep_command(const Invocation& invocation);
int compare_command(const Invocation& invocation);
int diagnose_command(const Invocation& invocation);
int rehearse_command(const Invocation& invocation);
int import_command(const Invocation& invocation);
int export_command(const Invocation& invocation);
int gate_command(const Invocation& invocation);
int validate_command(const Invocation& invocation);
int calibrate_command(const Invocation& invocation);
int list_command(const Invocation& invocation);
int page_command(const Invocation& invocation);
int completion_command(const Invocation& invocation);
int help_command(const Invocation& invocation);

}  // namespace steelyard
