// Scripts as people write them, read without running them.
#include "formats/launch/shell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "formats/launch/launch.h"

namespace steelyard {
namespace {

TEST(Shell, VariablesArraysAndArithmeticAreFollowed) {
  const ShellScript script = read_shell(
      "G=8\nN=${NNODES:-2}\nW=$((G * N))\nA=(--a 1 # no\n  --b \"two words\")\nA+=(--w $W)\n"
      "torchrun --nnodes $N train.py \"${A[@]}\" --data $DATA\n",
      "job.sh");
  ASSERT_EQ(script.commands.size(), 1U);
  std::string words;
  for (const Value& word : script.commands[0].words) words += word.as_string() + "|";
  EXPECT_EQ(words, "torchrun|--nnodes|2|train.py|--a|1|--b|two words|--w|16|--data|${DATA}|");
  EXPECT_EQ(script.commands[0].words[4].place().line, 4);
}

std::string words_of(const ShellCommand& command) {
  std::string words;
  for (const Value& word : command.words) words += word.as_string() + "|";
  return words;
}

TEST(Shell, TestsThatAreJoinedAreFollowed) {
  const auto taken = [](const std::string& condition) {
    const ShellScript script = read_shell(
        "A=${3:-\"MOCK\"}\nif " + condition + "; then\necho yes\nelse\necho no\nfi\n", "job.sh");
    return script.commands.size() != 1 ? "unknown" : script.commands[0].words[1].as_string();
  };
  EXPECT_EQ(taken("[[ \"$A\" == \"MOCK\" ]] || [[ -z \"$A\" ]]"), "yes");
  EXPECT_EQ(taken("[[ -z $A ]] || [ $A = MOCK ]"), "yes");
  EXPECT_EQ(taken("[[ $A == MOCK && -z $A ]]"), "no");
  EXPECT_EQ(taken("[[ $A == MOCK || $NOBODY == 1 ]]"), "yes");  // what decides alone decides
  EXPECT_EQ(taken("[[ $A == MOCK && $NOBODY == 1 ]]"), "unknown");
  EXPECT_EQ(taken("[[ $A == other && $NOBODY == 1 ]]"), "no");
  EXPECT_EQ(taken("[[ $A == MOCK ]] && ! [[ -z $A ]]"), "yes");
}

TEST(Shell, AnArrayInATextHasBlanksBetween) {
  const ShellScript script = read_shell(
      "A=(--a 1)\nA=(\n \"${A[@]}\"\n --b 2\n)\nC=\"run ${A[@]} --c 3\"\n$C\n", "job.sh");
  ASSERT_EQ(script.commands.size(), 1U);
  EXPECT_EQ(words_of(script.commands[0]), "run|--a|1|--b|2|--c|3|");
}

TEST(Shell, TheJobThatAScriptSubmitsIsRead) {
  const ShellScript script = read_shell(
      "N=4\nexport E=1\nsbatch <<END\n#!/bin/bash\n#SBATCH --nodes=$N\nsrun train "
      "\\$SLURM_NNODES\nEND\n",
      "submit.sh");
  ASSERT_EQ(script.commands.size(), 2U);
  EXPECT_EQ(words_of(script.commands[1]), "srun|train|4|");
  ASSERT_NE(script.directives.find("nodes"), nullptr);
  EXPECT_EQ(script.directives.find("nodes")->as_integer(), 4);
}

TEST(Shell, ConstantConditionsDecide) {
  const std::string text =
      "TP=2\nif [ $TP -gt 1 ]; then\nA=yes\nelse\nA=no\nfi\nif [ \"$X\" = 1 ]; then B=1; fi\nrun "
      "$A "
      "$B\n";
  const ShellScript script = read_shell(text, "job.sh");
  ASSERT_EQ(script.commands.size(), 1U);
  EXPECT_EQ(script.commands[0].words[1].as_string(), "yes");
  EXPECT_EQ(script.commands[0].words[2].as_string(), "${B}");
  EXPECT_EQ(script.holes.at("B").cause, "X");
}

TEST(Shell, NothingGrowsBeyondReason) {
  std::string text = "A=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 60; ++i) text += "A=$A$A\n";
  text += "torchrun $A\n";
  const ShellScript script = read_shell(text, "job.sh");
  EXPECT_FALSE(script.problems.empty());
}

ShellScript with_arguments(const std::string& text, std::vector<std::string> arguments) {
  ShellContext context;
  context.arguments = std::move(arguments);
  return read_shell(text, "job.sh", context);
}

std::string only_command(const ShellScript& script) {
  return script.commands.size() == 1 ? words_of(script.commands[0])
                                     : std::to_string(script.commands.size()) + " commands";
}

TEST(Shell, ItsOwnWordsAreThoseThatTheCallerGives) {
  EXPECT_EQ(only_command(with_arguments("run $1 ${2:-4} ${3:-5} $#\n", {"8", "16"})),
            "run|8|16|5|2|");
  EXPECT_EQ(only_command(read_shell("run $1 ${2:-4}\n", "job.sh")), "run|${1}|4|");
}

TEST(Shell, ArgumentsAreParsedInALoop) {
  const std::string text =
      "M=1\nwhile [[ $# -gt 0 ]]; do\ncase $1 in\n--m) M=$2; shift 2;;\n*) "
      "shift;;\nesac\ndone\nrun $M\n";
  EXPECT_EQ(only_command(with_arguments(text, {"--x", "--m", "4"})), "run|4|");
  EXPECT_EQ(only_command(read_shell(text, "job.sh")), "run|1|");
}

TEST(Shell, BothBranchesOfAConditionThatIsNotKnownAreRead) {
  EXPECT_EQ(only_command(read_shell("if [ $X = 1 ]; then A=2; B=3; else A=2; B=4; fi\nrun $A $B\n",
                                    "job.sh")),
            "run|2|${B}|");
  EXPECT_EQ(only_command(read_shell("case $1 in\na) A=2;;\nb|c) A=2;;\nesac\nrun $A\n", "job.sh")),
            "run|2|");
  // A branch that ends the script is not the one that goes on.
  EXPECT_EQ(
      only_command(read_shell("A=1\nif [ $X = 1 ]; then A=2; exit 1; fi\nrun $A\n", "job.sh")),
      "run|1|");
  EXPECT_EQ(only_command(read_shell("[ $X = 1 ] && A=2 || A=2\nrun $A\n", "job.sh")), "run|2|");
}

TEST(Shell, FlagsThatAConditionAddsAreNamed) {
  const ShellScript script =
      read_shell("A=(--a 1)\nif [ $X = 1 ]; then\nA+=(--b 2)\nfi\nrun \"${A[@]}\"\n", "job.sh");
  EXPECT_EQ(only_command(script), "run|--a|1|");
  ASSERT_EQ(script.problems.size(), 1U);
  EXPECT_NE(script.problems[0].label.find("--b 2"), std::string::npos);
  EXPECT_EQ(script.problems[0].place.line, 2);
}

TEST(Shell, LoopsAndFunctionsAreFollowed) {
  EXPECT_EQ(only_command(read_shell(
                "f() {\nlocal A=$1\nrun $A $2\n}\nfor i in 1; do\nf $i two\ndone\n", "job.sh")),
            "run|1|two|");
  EXPECT_EQ(
      only_command(read_shell("A=\nfor i in 1 2 3; do A+=\" --x$i\"; done\nrun $A\n", "job.sh")),
      "run|--x1|--x2|--x3|");
  EXPECT_EQ(only_command(read_shell("function go { run $1; }\nwhile true; do go 7; break; done\n",
                                    "job.sh")),
            "run|7|");
}

TEST(Shell, CommandsInTextsAreFollowed) {
  EXPECT_EQ(only_command(read_shell("C=\"run\"\nC+=\" --a 1\"\neval \"$C\"\n", "job.sh")),
            "run|--a|1|");
  EXPECT_EQ(only_command(
                read_shell("export C='--a 1'\nsrun --label bash -c 'cd x && run $C'\n", "job.sh")),
            "srun|--label|run|--a|1|");
}

TEST(Shell, FilesThatItWritesAreKnown) {
  const ShellScript script = read_shell(
      "N=2\ncat <<E > a.json\n{\"n\": $N}\nE\nsed 's/2/3/' a.json > b.json\necho '{}' | tee "
      "c.json\n",
      "job.sh");
  EXPECT_EQ(script.files.at("a.json").as_string(), "{\"n\": 2}\n");
  EXPECT_EQ(script.files.at("b.json").as_string(), "{\"n\": 3}\n");
  EXPECT_EQ(script.files.at("c.json").as_string(), "{}\n");
}

TEST(Shell, ScriptsThatItIncludesAndStartsAreRead) {
  ShellContext context;
  context.read_file = [](const std::string& name) -> std::optional<ShellFile> {
    if (name == "./common.sh") return ShellFile{"common.sh", "A=5\n"};
    if (name == "./inner.sh") return ShellFile{"inner.sh", "run \"$@\" $A\n"};
    return std::nullopt;
  };
  EXPECT_EQ(only_command(read_shell("source ./common.sh\nexport A\nsrun ./inner.sh x y\n", "job.sh",
                                    context)),
            "srun|run|x|y|5|");
}

TEST(Shell, TheUsersVariablesStandWhereTheScriptsAreNotKnown) {
  ShellContext context;
  context.environment["N"] = Value::string("4");
  EXPECT_EQ(only_command(read_shell("N=$(hostname)\nrun $N\n", "job.sh", context)), "run|4|");
  EXPECT_EQ(only_command(read_shell("N=2\nrun $N\n", "job.sh", context)), "run|2|");
  const ShellScript script = read_shell("N=$(hostname)\nrun $N\n", "job.sh");
  EXPECT_EQ(only_command(script), "run|${N}|");
  EXPECT_EQ(script.holes.count("N"), 1U);
}

TEST(Shell, WhatCallsItselfEnds) {
  const ShellScript script =
      read_shell("f() { f; f; }\nf\nwhile true; do :; done\nrun\n", "job.sh");
  EXPECT_LE(script.commands.size(), 1U);
  read_shell(
      "for a in 1 2 3 4 5 6 7 8 9; do for b in 1 2 3 4 5 6 7 8 9; do for c in 1 2 3 4 5 6 7 8 9; "
      "do "
      "for d in 1 2 3 4 5 6 7 8 9; do for e in 1 2 3 4 5 6 7 8 9; do run $a; done; done; done; "
      "done; done\n",
      "job.sh");
}

// Scripts that somebody damaged: read to an end, whatever they say.
TEST(Shell, DamagedScriptsAreReadToAnEnd) {
  const std::vector<std::string> seeds = {
      "#!/bin/bash\n#SBATCH --nodes=2\nexport A=(1 2)\nif [[ $1 == a && -n \"$2\" ]]; "
      "then\nX=${3:-\"y\"}\nelif ((N > 2)); "
      "then X=1; else\nX=$(echo a | sed 's/a/b/')\nfi\ncat <<EOF > f.json\n{\"a\": ${X}}\nEOF\n"
      "torchrun --nproc_per_node 8 train.py --model_name_or_path gpt2 \"${A[@]}\" 2>&1 | tee log\n",
      "f() {\n  local P=\"$@\"\n  case $P in\n  *a*) B=1 ;;\n  x|y) B=2;;\n  esac\n}\nfor i in a "
      "b; do f $i; done\n"
      "while read -r l; do C+=\" $l\"; done < g\neval \"deepspeed --num_gpus $B t.py $C\"\nsrun "
      "bash -c '$LAUNCH $CMD'\n",
  };
  const std::string letters = "${}()[]\"'`\\\n;&|<>#=! \tabc1@*";
  std::mt19937 chance(31);
  for (int i = 0; i < 4000; ++i) {
    std::string text = seeds[chance() % seeds.size()];
    const std::size_t damages = 1 + chance() % 6;
    for (std::size_t n = 0; n < damages && !text.empty(); ++n) {
      const std::size_t at = chance() % text.size();
      switch (chance() % 4) {
        case 0:
          text.erase(at, 1 + chance() % 8);
          break;
        case 1:
          text.insert(at, 1, letters[chance() % letters.size()]);
          break;
        case 2:
          text.insert(at, text.substr(chance() % text.size(), chance() % 40));
          break;
        default:
          text[at] = letters[chance() % letters.size()];
      }
    }
    const ShellScript script = read_shell(text, "job.sh");
    ASSERT_LE(script.commands.size(), 20'000U) << text;
  }
}

}  // namespace
}  // namespace steelyard
