#include "document/quoting.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "document/read.h"

namespace steelyard {
namespace {

TEST(Quoting, ShellWords) {
  for (const auto& [text, word] :
       {std::pair<std::string, std::string>{"a-b_c/d.e=1", "a-b_c/d.e=1"},
        {"", "''"},
        {"=ls", "'=ls'"},
        {"~", "'~'"},
        {"it's $(date)", "'it'\\''s $(date)'"},
        {"two\nlines", "$'two\\nlines'"},
        {"\x1b[31m'", "$'\\x1b[31m\\''"},
        {"${x:-$(evil)}", "'${x:-$(evil)}'"}})
    EXPECT_EQ(shell_word(text), word);
  EXPECT_EQ(shell_word_with_variables("${DATA}/x"), "\"${DATA}/x\"");
  EXPECT_EQ(shell_word_with_variables("$(a)${DATA}"), "'$(a)'\"${DATA}\"");
  EXPECT_EQ(shell_word_with_variables("${x:-$(evil)}"), "'${x:-$(evil)}'");
}

TEST(Quoting, EndWordOfAHereDocumentIsNoLineOfIt) {
  EXPECT_EQ(here_document("f", "END_OF_FILE\n"),
            "cat > f <<'END_OF_FILE_'\nEND_OF_FILE\nEND_OF_FILE_\n");
  EXPECT_EQ(here_document("f", "x"), "cat > f <<'END_OF_FILE'\nx\nEND_OF_FILE\n");
}

// Texts that some reader takes for something else, and those that end a quotation.
const std::string kTexts[] = {"yes",  "No",     "null",    "~",      "1e3",    "0x1f",       "0o17",
                              "1:30", ".inf",   "1_000",   "",       " a ",    "2024-01-01", "a: b",
                              "- a",  "a #b",   "it's",    "\"",     "\\",     "a\nb",       "\t",
                              "\x7f", "\x1b",   "\u0085x", "\u2028", "\ufeff", "<<",         "=",
                              "é",    "1f1b",   "%a",      "{a}",    "!!str",  "&a",         "*a",
                              "|",    "\r\n#x", "\u202e",  "True",   "a/b.c-d"};

TEST(Quoting, EachLanguageReadsItsWordAsTheTextAgain) {
  for (const std::string& text : kTexts) {
    const std::string key = text == "<<" ? "key" : text;  // our reader refuses to merge
    const auto yaml = read_yaml(yaml_scalar(key) + ": " + yaml_scalar(text) + "\n", "");
    ASSERT_TRUE(yaml && yaml->is_table() && yaml->members().size() == 1) << text;
    EXPECT_EQ(yaml->members()[0].key, key);
    ASSERT_TRUE(yaml->members()[0].value.is_string()) << text;
    EXPECT_EQ(yaml->members()[0].value.as_string(), text);
    const auto json = read_json("{\"a\": " + json_string(text) + "}", "");
    ASSERT_TRUE(json) << text;
    EXPECT_EQ(json->find("a")->as_string(), text);
    const auto toml = read_toml(toml_key(text) + " = " + toml_string(text) + "\n", "");
    ASSERT_TRUE(toml) << text;
    EXPECT_EQ(toml->members()[0].key, text);
    EXPECT_EQ(toml->members()[0].value.as_string(), text);
  }
}

TEST(Quoting, BareInYamlOnlyWhereEveryReaderTakesItForText) {
  for (const char* text :
       {"1f1b", "flash_attention_2", "/data/x", "./x", "meta-llama/Llama-3.1-8B"})
    EXPECT_EQ(yaml_scalar(text), text);
  for (const char* text : {"2024-01-01", "y", "0x1f", "1e3", "1_0", "off", "-x", "8b"})
    EXPECT_NE(yaml_scalar(text), text);
}

TEST(Quoting, NothingWrittenSteersATerminal) {
  for (const std::string& text : kTexts)
    for (const std::string& written :
         {shell_word(text), yaml_scalar(text), json_string(text), toml_string(text),
          python_string(text), comment_text(text)}) {
      for (const char c : written) {
        const auto byte = static_cast<unsigned char>(c);
        EXPECT_FALSE(byte < 0x20U || byte == 0x7FU) << written;
      }
      EXPECT_EQ(written.find("\xc2\x85"), std::string::npos);
    }
}

TEST(Quoting, Names) {
  EXPECT_TRUE(is_variable_name("NCCL_DEBUG") && !is_variable_name("1A") &&
              !is_variable_name("A B") && !is_variable_name("") && !is_variable_name("A\n"));
  EXPECT_TRUE(is_flag_name("optimizer.lr") && !is_flag_name("-x") && !is_flag_name("a;b") &&
              !is_flag_name(""));
  EXPECT_TRUE(is_slurm_name("gpu,gpu-long") && !is_slurm_name("a b") && !is_slurm_name("gpu\n"));
  EXPECT_TRUE(is_slurm_time("1-12:00:00") && is_slurm_time("UNLIMITED") &&
              !is_slurm_time("1 hour"));
  EXPECT_EQ(slurm_job_name("my run\n#SBATCH"), "my_run__SBATCH");
  EXPECT_TRUE(is_plain_text("é") && !is_plain_text("\xff") &&
              !is_plain_text(std::string("a\0b", 3)) && !is_plain_text("\xc0\x80") &&
              !is_plain_text("\xed\xa0\x80"));
}

}  // namespace
}  // namespace steelyard
