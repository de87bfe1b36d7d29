// Text as a word of somebody's language: one function a language. Whatever the text holds (quotes, `$(`, new lines, escapes of
// a terminal), what is written is one word there, is read as that text again, and shows as letters on a terminal.
//
//   shell_word("it's $(date)")        'it'\''s $(date)'
//   shell_word("two\nlines")          $'two\nlines'
//   python_string("\"); evil(\"")     "\"); evil(\""
//   yaml_scalar("yes")                'yes'
//   comment_text("a\nrm -rf ~")       a.rm -rf ~
#pragma once

#include <string>
#include <string_view>

namespace steelyard {

// A word of bash; bare where it holds only letters, digits and -_./=,:+@%.
std::string shell_word(std::string_view text);
// The same, and ${NAME} stays a variable: what a launch script left open is open in what is written from it.
std::string shell_word_with_variables(std::string_view text);
// `cat > file <<'END_OF_FILE'` and the text, under an end word that is no line of it.
std::string here_document(std::string_view file, std::string_view text);

std::string python_string(std::string_view text);
std::string json_string(std::string_view text);
std::string toml_string(std::string_view text);
std::string toml_key(std::string_view text);  // bare where it can be
// A key or a value. Without quotes only where every reader of YAML 1.1 and 1.2 takes it for this text.
std::string yaml_scalar(std::string_view text);

// What may stand behind # in a shell script, YAML, TOML or Python: one line, without control characters.
std::string comment_text(std::string_view text);

// What names and words may be; what is not one is not written.
bool is_variable_name(std::string_view name);       // OMP_NUM_THREADS
bool is_flag_name(std::string_view name);           // data_path, optimizer.lr: behind --
bool is_slurm_name(std::string_view name);          // of a partition, or several: gpu,gpu-long
bool is_slurm_time(std::string_view time);          // 30, 02:00:00, 1-12:00, UNLIMITED
std::string slurm_job_name(std::string_view name);  // with _ for every letter that has none
// UTF-8 without the character 0: what files of all these languages can hold.
bool is_plain_text(std::string_view text);

}  // namespace steelyard
