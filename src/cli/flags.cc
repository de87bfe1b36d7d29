#include "cli/flags.h"

#include <algorithm>

namespace steelyard {

const std::vector<Flag>& flags() {
  using enum FlagKind;
  static const std::vector<Flag> kFlags = {
      // name     letter kind     value      choices              commands  help
      {"time", 0, kSwitch, "", "", "weigh", "a step's time by terms, and what would shorten it"},
      {"tokens", 0, kValue, "N", "", "weigh",
       "with --time: days, money and energy to train on so many tokens (1T)"},
      {"calibrated", 0, kValue, "FILE", "", "weigh plan sweep compare",
       "constants of the cost model, by calibrate"},
      {"output", 'o', kValue, "FILE", "", "calibrate export",
       "write there: the constants, for --calibrated; the exported file"},
      {"trace", 0, kValue, "FILE", "", "weigh", "write the step as a trace, for ui.perfetto.dev"},
      {"svg", 0, kValue, "FILE", "", "weigh estimate plan sweep compare diagnose",
       "the main chart of the answer; - is stdout", true},
      {"html", 0, kValue, "FILE", "", "weigh plan sweep compare diagnose",
       "the answer as a page with charts; - is stdout"},
      {"phases", 0, kSwitch, "", "", "weigh", "phases against piles, and the three questions"},
      {"no-suggestions", 0, kSwitch, "", "", "weigh",
       "do not search for changes that fit: the same answer in a fraction of the time", true},
      {"apply", 0, kRepeated, "N", "", "weigh", "answer with suggestion N applied; several add up"},
      {"check", 0, kSwitch, "", "", "import",
       "folders or files, a line each: read as what, and what was not read; exit 1 if anything"},
      {"write", 0, kValue, "FILE", "", "weigh plan import",
       "the run file as weighed (--apply: changed), planned or imported; - is stdout"},
      {"minimize", 0, kValue, "WHAT", "time devices cost", "plan",
       "the fastest (as without it), the fewest devices, the cheapest number of them"},
      {"maximize", 0, kValue, "WHAT", "sequence micro-batch parameters global-batch", "plan",
       "how far it goes: any layout may carry it"},
      {"price", 0, kValue, "AMOUNT", "", "weigh plan", "of one device for an hour"},
      {"why", 0, kRepeated, "LAYOUT", "", "plan", "why not tensor=4,pipeline=2: what excludes it"},
      {"allow", 0, kRepeated, "CHANGE", "offload cuda-graphs fp8 8-bit-optimizer bf16-pure", "plan",
       "also states on the host, graphs, 8 bits, no master weights"},
      {"for", 0, kValue, "TOOL,...", "", "weigh plan",
       "what you use, for its engines and defaults: hf trl axolotl llama-factory deepspeed "
       "accelerate "
       "torchtitan megatron nanotron torchtune litgpt"},
      {"published", 0, kSwitch, "", "", "plan",
       "layouts that experts published, beside a plan of the same"},
      {"seconds", 0, kValue, "N", "", "plan", "search so long, then say the best so far; 30"},
      {"pareto", 0, kSwitch, "", "", "plan", "layouts that no other beats in time and memory"},
      {"export", 0, kValue, "ENGINE", "", "plan", "the best layout that its files can say"},
      {"to", 0, kValue, "ENGINE", "", "export", "what to export to: export RUN --to ENGINE"},
      {"diff", 0, kSwitch, "", "", "export",
       "print what would change in your file, and write nothing"},
      {"new", 0, kSwitch, "", "", "export",
       "a new file also where RUN is this engine's own: without it, that file is changed"},
      {"to-folder", 0, kValue, "FOLDER", "", "export plan diagnose",
       "write the files there: of diagnose, its runs"},
      {"slurm", 0, kSwitch, "", "", "export plan", "with #SBATCH lines, for sbatch", true},
      {"policy", 0, kValue, "FILE", "", "gate",
       "what is refused, how much must stay free, which device a partition has"},
      {"env", 0, kRepeated, "NAME=VALUE", "", "weigh plan explain sweep compare import export gate",
       "a variable that the script is given; its own words stand behind --: RUN.sh -- 8 16", true},
      {"env-file", 0, kRepeated, "FILE", "", "weigh plan explain sweep compare import export gate",
       "variables that the script is given, NAME=VALUE a line", true},
      {"root", 0, kRepeated, "FOLDER", "", "weigh plan explain sweep compare import export gate",
       "files that a script names may also lie below this folder", true},
      {"port", 0, kValue, "N", "", "page",
       "where it listens on 127.0.0.1; absent: any that is free"},
      {"folder", 0, kValue, "FOLDER", "", "page", "the built page; absent: beside this program"},
      {"no-open", 0, kSwitch, "", "", "page", "print the address and open no browser"},
      {"format", 0, kValue, "FORM", "text github sarif junit", "gate",
       "GitHub's annotations, SARIF 2.1.0 or JUnit's XML of all jobs, on stdout"},
      {"man", 0, kSwitch, "", "", "help", "as a manual page, for man(1)"},
      {"slurm-plugin", 0, kSwitch, "", "", "gate", "print a job_submit.lua that asks this command"},
      {"against", 0, kValue, "RUN", "", "diagnose",
       "the run that the evidence belongs to: a run file or launch file"},
      {"against", 0, kValue, "RUN", "", "rehearse",
       "a run file or launch file of the same: which pile is predicted otherwise"},
      {"on", 0, kValue, "DEVICES", "", "rehearse",
       "the devices: 8xh100-sxm-80gb; absent: 1xh100-sxm-80gb"},
      {"steps", 0, kValue, "N", "", "rehearse", "optimizer steps, then it is over; 3"},
      {"record", 0, kValue, "FILE", "", "rehearse",
       "write what was seen of the rank as steelyard.record/1; - is stdout"},
      {"snapshot", 0, kValue, "FILE", "", "rehearse",
       "write the allocator's own snapshot, which pytorch.org/memory_viz shows"},
      {"rank", 0, kRepeated, "R", "", "rehearse",
       "which ranks, one after the other: 0, 0,7, last or all; 0"},
      {"weights", 0, kValue, "WHICH", "none there", "rehearse",
       "none: built from the configuration, never read; there: read where they are; absent: none "
       "where there are none"},
      {"data", 0, kValue, "random:LENGTH", "", "rehearse",
       "samples of so many tokens in place of data sets and tokenizers that are not there"},
      {"follow", 0, kSwitch, "", "", "diagnose",
       "warn while a log is written (- is a pipe), and end with the verdict"},
      {"plan-experiment", 0, kSwitch, "", "", "diagnose",
       "the fewest runs that decide between the causes, with the number that each must show"},
      {"snapshot", 0, kValue, "FILE", "", "weigh",
       "write the first two steps as a memory snapshot, which pytorch.org/memory_viz shows"},
      {"rank", 0, kValue, "N", "", "weigh", "whose snapshot; absent: the rank of the peak", true},
      {"jobs", 0, kValue, "FILE", "", "weigh",
       "one run file as JSON a line, answers in order; - is stdin"},
      {"threads", 0, kValue, "N", "", "weigh plan", "of plan and --jobs"},
      {"brief", 0, kSwitch, "", "", "weigh",
       "JSON: verdict, parameters, peak and ranks, without phases; of --jobs estimated where that "
       "decides"},
      {"replay", 0, kSwitch, "", "", "weigh", "check the answer by replaying every event (slow)"},
      {"fail-on", 0, kValue, "VERDICT", "tight", "weigh", "exit 1 on this verdict too"},
      {"over", 0, kRepeated, "KEY=VALUES", "", "sweep plan",
       "a..b doubles, a..b:step steps, a,b,c lists; several multiply"},
      {"largest", 0, kValue, "WHAT", "parameters", "sweep",
       "the largest model that fits, for DDP and ZeRO 1, 2, 3"},
      {"batch", 0, kSwitch, "", "", "compare", "the global batch and the data, side by side"},
      {"source", 0, kValue, "NAME", "", "validate", "only rows of this source"},
      {"worst", 0, kValue, "N", "", "validate", "rows listed as the worst of each source; 3"},
      {"ranking", 0, kSwitch, "", "", "validate",
       "whether the predicted best of each group of measured layouts was among the best"},
      {"rows", 0, kSwitch, "", "", "validate",
       "every row: measured, predicted, error; with --json its run file"},
      {"all", 0, kSwitch, "", "", "weigh explain sweep compare list",
       "every row, whatever the screen"},
      {"verbose", 'v', kCounted, "", "", "weigh plan validate rehearse",
       "assumptions, phases, other ranks, what was alive"},
      {"quiet", 'q', kSwitch, "", "", "weigh compare import rehearse", "the verdict line only"},
      {"json", 0, kSwitch, "", "",
       "weigh plan explain sweep compare diagnose rehearse import export gate validate list",
       "one JSON document on stdout, also for errors"},
      {"units", 0, kValue, "UNITS", "iec si bytes",
       "weigh plan explain sweep compare rehearse validate list", "GiB (iec), GB (si) or bytes"},
      {"ascii", 0, kSwitch, "", "",
       "weigh plan explain sweep compare diagnose rehearse import export gate validate list",
       "no characters above 127"},
      {"no-bars", 0, kSwitch, "", "", "weigh sweep compare rehearse", "numbers only"},
      {"color", 0, kValue, "WHEN", "auto always never",
       "weigh plan explain sweep compare rehearse import export gate validate list calibrate",
       "colour: auto asks the terminal and NO_COLOR"},
  };
  return kFlags;
}

std::vector<std::string_view> words_in(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(' '));
    if (!word.empty()) words.push_back(word);
    list.remove_prefix(std::min(list.size(), word.size() + 1));
  }
  return words;
}

bool belongs(const Flag& flag, std::string_view command) {
  const std::vector<std::string_view> words = words_in(flag.commands);
  return words.empty() || std::find(words.begin(), words.end(), command) != words.end();
}

}  // namespace steelyard
