// The library's border, from outside: text in, text out, a status for every fault.
#include <steelyard/steelyard.h>
#include <steelyard/steelyard_c.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace {

int faults = 0;

void expect(bool good, const char* what, const steelyard::Reply& reply) {
  if (good) return;
  ++faults;
  std::printf("%s: status %d: %.400s\n%.200s\n", what, reply.status, reply.text.c_str(),
              reply.remarks.c_str());
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

int main() {
  const char* question =
      R"({"run": "llama-3.1-8b", "on": "8xh100-sxm-80gb", "engine": "fsdp2", "sequence_length": 8192, "micro_batch": 1})";
  const auto weighed = steelyard::weigh(question);
  expect(weighed.status <= 1 && holds(weighed.text, "steelyard.prediction/1"), "weigh", weighed);
  // Takes what weigh takes, and comes near it.
  const auto estimated = steelyard::estimate(
      R"({"run": "llama-3.1-8b", "on": "8xh100-sxm-80gb", "engine": "fsdp2", "svg": "bar.svg"})");
  expect(estimated.status <= 1 && holds(estimated.text, "steelyard.estimate/1") &&
             holds(estimated.text, "\"estimated\":true") &&
             holds(estimated.text, "\"activations\":") && holds(estimated.text, "\"terms\":") &&
             estimated.files.size() == 1 && holds(estimated.files.front().text, "<svg"),
         "estimate", estimated);
  const auto nothing = steelyard::estimate("{}");
  expect(nothing.status == 2 && holds(nothing.text, "estimate takes one run"), "no run", nothing);
  const auto wrong = steelyard::weigh("model = \"llama-3.1-8b\"\nengin = \"fsdp2\"\n");
  expect(wrong.status == 2 && holds(wrong.text, "steelyard.error/1"), "unknown key", wrong);
  const auto verb = steelyard::call("wiegh", "{}");
  expect(verb.status == 2 && holds(verb.text, "E001"), "unknown verb", verb);
  const auto misspelt = steelyard::weigh(R"({"run": "7b", "sequence_lenght": 4096})");
  expect(misspelt.status == 2 && holds(misspelt.text, R"(the key is \"sequence_length\")"),
         "misspelt key", misspelt);
  const auto browser = steelyard::call("page", "{}");
  expect(browser.status == 2 && holds(browser.text, "E001"), "a command of the program alone",
         browser);
  const auto broken = steelyard::weigh("{\"run\": ");
  expect(broken.status == 2 && holds(broken.text, "steelyard.error/1"), "broken JSON", broken);
  const auto passwd = steelyard::weigh(R"({"run": "/etc/passwd"})");
  expect(passwd.status == 2 && !holds(passwd.text, "root:"), "no machine", passwd);
  // As one text: a file that is no UTF-8 arrives as it was, one that is stays readable.
  steelyard::Reply written;
  written.files = {{"oom.pickle", std::string("\x80\x04\x00\xff.", 5)},
                   {"run.toml", "model = \"7b\"\n"}};
  expect(
      holds(
          steelyard::reply_json(written),
          R"({"name": "oom.pickle", "base64": "gAQA/y4="}, {"name": "run.toml", "text": "model = \"7b\"\n"})"),
      "files of a reply", written);
  const auto narrow = steelyard::weigh(
      R"({"run": "llama-3.1-8b", "on": "8xh100-sxm-80gb", "format": "svg", "picture_width": 320})");
  expect(holds(narrow.text, "viewBox=\"0 0 320 "), "narrow picture", narrow);
  const auto no_width = steelyard::weigh(R"({"run": "7b", "picture_width": 12})");
  expect(no_width.status == 2 && holds(no_width.text, "240 to 4000"), "no width", no_width);
  std::vector<steelyard::Reply> replies(4);
  std::vector<std::thread> threads;
  for (auto& reply : replies)
    threads.emplace_back([&reply, question] { reply = steelyard::weigh(question); });
  for (auto& thread : threads) thread.join();
  for (const auto& reply : replies) expect(reply.text == weighed.text, "threads", reply);
  SteelyardReply* reply = steelyard_call("weigh", question, STEELYARD_TEXT_ALONE);
  expect(reply != nullptr && weighed.text == steelyard_reply_text(reply), "C", weighed);
  steelyard_reply_free(reply);
  return faults == 0 ? 0 : 1;
}
