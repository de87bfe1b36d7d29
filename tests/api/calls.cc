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
