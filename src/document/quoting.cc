#include "document/quoting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "document/read.h"

namespace steelyard {
namespace {

constexpr std::uint32_t kReplacement = 0xFFFD;

struct Character {
  std::uint32_t code = kReplacement;
  std::size_t bytes = 1;
  bool valid = false;
};

// The character at the start of a text that is not empty; what is not UTF-8 is one byte, and not valid.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80U) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xF0U ? 4 : lead >= 0xE0U ? 3 : 2;
  if (lead < 0xC2U || lead > 0xF4U || text.size() < bytes) return {};
  std::uint32_t code = lead & (bytes == 4 ? 0x07U : bytes == 3 ? 0x0FU : 0x1FU);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  const std::uint32_t least = bytes == 4 ? 0x10000U : bytes == 3 ? 0x800U : 0x80U;
  if (code < least || code > 0x10FFFFU || (code >= 0xD800U && code <= 0xDFFFU)) return {};
  return {code, bytes, true};
}

// Control characters, line ends of Unicode, marks that turn the direction of a line, and what is no character.
bool is_unprintable(std::uint32_t code) {
  return code < 0x20U || (code >= 0x7FU && code <= 0x9FU) || code == 0xADU ||
         (code >= 0x200BU && code <= 0x200FU) || (code >= 0x2028U && code <= 0x202EU) ||
         (code >= 0x2060U && code <= 0x206FU) || code == 0xFEFFU || code == 0xFFFEU ||
         code == 0xFFFFU;
}

template <class Visit>
void each_character(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const Character character = first_character(text);
    visit(character, text.substr(0, character.bytes));
    text.remove_prefix(character.bytes);
  }
}

bool is_all_printable(std::string_view text) {
  bool all = true;
  each_character(text, [&](const Character& character, std::string_view) {
    all = all && character.valid && !is_unprintable(character.code);
  });
  return all;
}

// In double quotes, with escapes that JSON, TOML, YAML and Python have in common.
std::string double_quoted(std::string_view text) {
  std::string result = "\"";
  each_character(text, [&](const Character& character, std::string_view bytes) {
    if (!character.valid)
      result += "\xEF\xBF\xBD";
    else if (character.code == '"' || character.code == '\\')
      result.append("\\").append(bytes);
    else if (character.code == '\n')
      result += "\\n";
    else if (character.code == '\t')
      result += "\\t";
    else if (is_unprintable(character.code))
      result += fmt::format("\\u{:04x}", character.code);
    else
      result += bytes;
  });
  return result + "\"";
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool all_of(std::string_view text, std::string_view also) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || is_digit(c) || also.find(c) != std::string_view::npos;
  });
}

constexpr std::string_view kBareShell = "-_./=,:+@%";

bool is_bare_in_shell(std::string_view text) {
  return !text.empty() && text.front() != '=' && all_of(text, kBareShell);
}

// $'...', which only escapes: for what would not show, or not stand on one line.
std::string escaped_shell_word(std::string_view text) {
  std::string result = "$'";
  each_character(text, [&](const Character& character, std::string_view bytes) {
    if (character.code == '\n')
      result += "\\n";
    else if (character.code == '\'' || character.code == '\\')
      result.append("\\").append(bytes);
    else if (!character.valid || is_unprintable(character.code))
      for (const char c : bytes) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      result += bytes;
  });
  return result + "'";
}

// The length of ${NAME} at the start of a text; 0: there is none.
std::size_t variable_length(std::string_view text) {
  if (!text.starts_with("${")) return 0;
  const std::size_t end = text.find('}');
  if (end == std::string_view::npos || !is_variable_name(text.substr(2, end - 2))) return 0;
  return end + 1;
}

// Words that some reader of YAML takes for a truth, nothing or a number: resolver.py of PyYAML, and the core schema of 1.2.
constexpr std::string_view kYamlWords[] = {"true", "false", "yes", "no",   "on",  "off",
                                           "null", "y",     "n",   "none", "nan", "inf"};

// 2e-4, as rates of learning are written: text to PyYAML and a number to readers of YAML 1.2, which both are meant.
bool is_rate(std::string_view text) {
  const auto digits = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const std::size_t at = text.find('e');
  if (at == std::string_view::npos || !digits(text.substr(0, at))) return false;
  return text.substr(at + 1).starts_with('-') && digits(text.substr(at + 2));
}

bool is_bare_in_yaml(std::string_view text) {
  if (is_rate(text)) return true;
  if (text.empty() || !all_of(text, "_/.-")) return false;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const std::string_view word : kYamlWords)
    if (lower == word) return false;
  if (is_letter(text.front()) || text.front() == '_' || text.front() == '/') return true;
  if (text.starts_with("./") || text.starts_with("../")) return true;
  // 1f1b, and no date, octal or hexadecimal number: a letter that no number has.
  return text.front() >= '1' && text.front() <= '9' && all_of(text, "_") &&
         lower.find_first_not_of("0123456789_abcdeox") != std::string::npos;
}

}  // namespace

std::string shell_word(std::string_view text) {
  if (is_bare_in_shell(text)) return std::string(text);
  if (!is_all_printable(text)) return escaped_shell_word(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_word_with_variables(std::string_view text) {
  std::string pieces;
  std::string letters;
  bool bare = true;
  bool open = false;
  const auto close = [&] {
    if (letters.empty()) return;
    bare = bare && is_bare_in_shell("x" + letters);
    pieces += shell_word(letters);
    letters.clear();
  };
  for (std::string_view rest = text; !rest.empty();) {
    if (const std::size_t length = variable_length(rest); length > 0) {
      close();
      open = true;
      pieces += fmt::format("\"{}\"", rest.substr(0, length));
      rest.remove_prefix(length);
    } else {
      letters.push_back(rest.front());
      rest.remove_prefix(1);
    }
  }
  if (!open) return shell_word(text);
  close();
  return bare ? fmt::format("\"{}\"", text) : pieces;
}

std::string here_document(std::string_view file, std::string_view text) {
  const auto holds = [&](std::string_view end) {
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      if (line == end) return true;
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
    return false;
  };
  std::string end = "END_OF_FILE";
  while (holds(end)) end += "_";
  const std::string_view close = text.empty() || text.ends_with("\n") ? "" : "\n";
  return fmt::format("cat > {} <<'{}'\n{}{}{}\n", shell_word(file), end, text, close, end);
}

std::string python_string(std::string_view text) { return double_quoted(text); }
std::string json_string(std::string_view text) { return double_quoted(text); }
std::string toml_string(std::string_view text) { return double_quoted(text); }

std::string toml_key(std::string_view text) {
  return !text.empty() && all_of(text, "-_") ? std::string(text) : toml_string(text);
}

std::string yaml_scalar(std::string_view text) {
  if (is_bare_in_yaml(text)) {
    const ReadValue read = read_yaml(text, "");
    if (read && read->is_string() && read->as_string() == text) return std::string(text);
  }
  if (text.find('\'') == std::string_view::npos && is_all_printable(text))
    return fmt::format("'{}'", text);
  return double_quoted(text);
}

std::string comment_text(std::string_view text) {
  std::string result;
  each_character(text, [&](const Character& character, std::string_view bytes) {
    if (character.valid && !is_unprintable(character.code))
      result += bytes;
    else
      result += character.code == '\t' ? ' ' : '.';
  });
  return result;
}

bool is_variable_name(std::string_view name) {
  return !name.empty() && !is_digit(name.front()) && all_of(name, "_");
}

bool is_flag_name(std::string_view name) {
  return !name.empty() && (is_letter(name.front()) || is_digit(name.front())) &&
         all_of(name, "_.-");
}

bool is_slurm_name(std::string_view name) {
  return !name.empty() && name.front() != '-' && all_of(name, "_.-,");
}

bool is_slurm_time(std::string_view time) {
  if (time == "UNLIMITED" || time == "unlimited" || time == "INFINITE" || time == "infinite")
    return true;
  return !time.empty() && is_digit(time.front()) &&
         time.find_first_not_of("0123456789:-") == std::string_view::npos;
}

std::string slurm_job_name(std::string_view name) {
  std::string result(name.empty() ? "run" : name);
  for (char& c : result)
    if (!is_letter(c) && !is_digit(c) && std::string_view("_.-/").find(c) == std::string_view::npos)
      c = '_';
  return result;
}

bool is_plain_text(std::string_view text) {
  bool plain = true;
  each_character(text, [&](const Character& character, std::string_view) {
    plain = plain && character.valid && character.code != 0;
  });
  return plain;
}

}  // namespace steelyard
