/* The same for C, and for every language that can call it.
 *
 *   SteelyardReply* reply = steelyard_call("weigh", "{\"run\": \"llama-3.1-8b\", \"on\": \"8xh100\"}", STEELYARD_THIS_MACHINE);
 *   puts(steelyard_reply_text(reply));
 *   steelyard_reply_free(reply);
 */
#ifndef STEELYARD_C_H
#define STEELYARD_C_H

#if defined(_WIN32)
#define STEELYARD_C_API
#else
#define STEELYARD_C_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct SteelyardReply SteelyardReply;

enum { STEELYARD_TEXT_ALONE = 0, STEELYARD_THIS_MACHINE = 1 };

/* Never null but where memory is out. Texts are UTF-8 and live as long as the reply. */
STEELYARD_C_API SteelyardReply* steelyard_call(const char* verb, const char* request,
                                               int surrounding);
STEELYARD_C_API int steelyard_reply_status(const SteelyardReply* reply);
STEELYARD_C_API const char* steelyard_reply_text(const SteelyardReply* reply);
STEELYARD_C_API const char* steelyard_reply_remarks(const SteelyardReply* reply);
STEELYARD_C_API void steelyard_reply_free(SteelyardReply* reply);
STEELYARD_C_API const char* steelyard_version(void);

#ifdef __cplusplus
}
#endif

#endif
