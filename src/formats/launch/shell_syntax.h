// The tree of a script, as places in its text: nothing is expanded, and what is not finished ends with the text.
//
//   for N in 2 4; do            kFor, name "N", parts {2, 4}, blocks {body}
//     run --nodes $N > log      kCommand, parts {run, --nodes, $N, > log}
//   done
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace steelyard {

struct ShellSpan {
  std::size_t from = 0, upto = 0;
  std::string_view of(std::string_view text) const { return text.substr(from, upto - from); }
};

// What a command is made of, in the order in which it is written.
struct ShellPart {
  enum class Kind {
    kWord,
    kAssignment,    // NAME=word, NAME+=word, NAME=(words)
    kInput,         // < word
    kOutput,        // > word
    kAppend,        // >> word
    kHereText,      // <<< word
    kHereDocument,  // <<EOF
  };
  Kind kind = Kind::kWord;
  ShellSpan span;       // the word, or the assignment's value
  ShellSpan name;       // of an assignment
  bool adds = false;    // NAME+=
  bool array = false;   // NAME=( ... ): its items
  bool silent = false;  // of another stream than stdout: 2> file
  std::vector<ShellSpan> items;
  std::size_t document = 0;  // which of the tree's here-documents
};

struct ShellStatement;
using ShellBlock = std::vector<ShellStatement>;

struct ShellStatement {
  enum class Kind {
    kCommand,
    kTest,        // [[ ... ]]
    kArithmetic,  // (( ... )): `name` is its text
    kIf,          // blocks: condition, body, condition, body, ..., and what else does
    kFor,         // `parts` are the list
    kForCount,    // for ((i = 0; ...)): `name` is its text
    kWhile,       // blocks: condition, body
    kUntil,
    kCase,  // `parts` is its word, `patterns` and `blocks` go together
    kGroup,
    kSubshell,
    kFunction,
  };
  enum class Joint { kNext, kAnd, kOr, kPipe };  // to the statement before
  Kind kind = Kind::kCommand;
  Joint joint = Joint::kNext;
  bool negated = false;
  bool lists = false;  // for NAME in ...
  std::size_t at = 0;
  std::vector<ShellPart> parts;
  ShellSpan name;  // of a loop's variable or a function
  std::vector<ShellBlock> blocks;
  std::vector<std::vector<ShellSpan>> patterns;
};

struct ShellDocument {
  ShellSpan body;
  std::string end;
  bool expands = true;
  bool tabs = false;
};

struct ShellTree {
  ShellBlock statements;
  std::vector<ShellDocument> documents;
  bool too_deep = false;  // nested deeper than any script; `at` says where
  std::size_t at = 0;
};

ShellTree parse_shell(std::string_view text);

// Where what begins at `from` ends: a word, or what stands within a pair of "", (), {}.
std::size_t end_of_shell_word(std::string_view text, std::size_t from);
std::size_t end_of_shell_parentheses(std::string_view text, std::size_t from);
std::size_t end_of_shell_braces(std::string_view text, std::size_t from);

inline bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool is_name(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

}  // namespace steelyard
