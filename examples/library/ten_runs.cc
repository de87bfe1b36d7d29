// Weighs ten runs through the installed library and prints their documents, a line each.
#include <steelyard/steelyard.h>

#include <iostream>

int main() {
  int worst = 0;
  for (const char* model :
       {"qwen2.5-1.5b", "llama-3.2-3b", "llama-3.1-8b", "qwen2.5-14b", "llama-3-70b"})
    for (const char* length : {"4096", "32768"}) {
      const std::string request =
          std::string(R"({"run": ")") + model +
          R"(", "on": "8xh100-sxm-80gb", "brief": true, "sequence_length": )" + length + "}";
      const steelyard::Reply reply = steelyard::weigh(request);
      if (reply.status > worst) worst = reply.status;
      for (const char c : reply.text)
        if (c != '\n') std::cout << c;
      std::cout << '\n';
    }
  return worst > 1 ? worst : 0;
}
