#include <steelyard/native.h>
#include <steelyard/steelyard_c.h>

#include <exception>
#include <new>

struct SteelyardReply {
  steelyard::Reply reply;
};

extern "C" {

SteelyardReply* steelyard_call(const char* verb, const char* request, int surrounding) {
  try {
    steelyard::Surrounding around;
    if (surrounding == STEELYARD_THIS_MACHINE) around.machine = steelyard::this_machine();
    return new SteelyardReply{
        steelyard::call(verb == nullptr ? "" : verb, request == nullptr ? "" : request, around)};
  } catch (const std::exception&) {
    return nullptr;
  }
}

int steelyard_reply_status(const SteelyardReply* reply) { return reply->reply.status; }
const char* steelyard_reply_text(const SteelyardReply* reply) { return reply->reply.text.c_str(); }
const char* steelyard_reply_remarks(const SteelyardReply* reply) {
  return reply->reply.remarks.c_str();
}
void steelyard_reply_free(SteelyardReply* reply) { delete reply; }

const char* steelyard_version(void) {
  static const std::string text = steelyard::version_text();
  return text.c_str();
}

}  // extern "C"
