// The table of what is answered, and what happens to the rest.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "paper.h"

void* new_handle(void) {
  static uintptr_t last = 0x1000;
  return (void*)__sync_add_and_fetch(&last, 16);
}

// ---- what was called and is not answered -------------------------------------------------------------------------------------

enum { kMostNames = 256, kNameBytes = 64 };
static char names[kMostNames][kNameBytes];
static long long calls[kMostNames];
static int names_known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int index_of(const char* name) {
  int at = 0;
  while (at < names_known && strncmp(names[at], name, kNameBytes - 1)) ++at;
  if (at == names_known && at < kMostNames) snprintf(names[names_known++], kNameBytes, "%s", name);
  return at;
}

int not_answered(const char* name) {
  pthread_mutex_lock(&lock);
  const int at = index_of(name);
  if (at < kMostNames) ++calls[at];
  pthread_mutex_unlock(&lock);
  return kNotSupported;
}

// "name calls" of the n-th, or null behind the last one.
API const char* paper_unanswered(int n, long long* times) {
  if (n >= names_known) return NULL;
  *times = calls[n];
  return names[n];
}

// ---- the rows ----------------------------------------------------------------------------------------------------------------

#define LIBRARY(name)
#define ANSWERED(name) extern int name();
#define SUCCEEDS(name) API int name(void) { return kSuccess; }
#define UNANSWERED(name) API int name(void) { return not_answered(#name); }
#include "answered.def"
#undef LIBRARY
#undef ANSWERED
#undef SUCCEEDS
#undef UNANSWERED

typedef int (*Function)();
typedef struct { const char* name; Function function; } Row;
static const Row kRows[] = {
#define LIBRARY(name)
#define ANSWERED(name) {#name, (Function)name},
#define SUCCEEDS(name) {#name, (Function)name},
#define UNANSWERED(name) {#name, (Function)name},
#include "answered.def"
};

// ---- functions that are asked for by a name of no row: each gets a function of its own, so that a call is known by it ---------

enum { kMostUnknown = 128 };
static char unknown_names[kMostUnknown][kNameBytes];
static int unknown;
#define ONE(n) static int unknown_##n(void) { return not_answered(unknown_names[n]); }
#define TEN(t) ONE(t##0) ONE(t##1) ONE(t##2) ONE(t##3) ONE(t##4) ONE(t##5) ONE(t##6) ONE(t##7) ONE(t##8) ONE(t##9)
ONE(0) ONE(1) ONE(2) ONE(3) ONE(4) ONE(5) ONE(6) ONE(7) ONE(8) ONE(9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)
#undef ONE
#undef TEN
#define ONE(n) (Function)unknown_##n,
#define TEN(t) ONE(t##0) ONE(t##1) ONE(t##2) ONE(t##3) ONE(t##4) ONE(t##5) ONE(t##6) ONE(t##7) ONE(t##8) ONE(t##9)
static const Function kUnknown[] = {ONE(0) ONE(1) ONE(2) ONE(3) ONE(4) ONE(5) ONE(6) ONE(7) ONE(8) ONE(9)
                                    TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)};
enum { kUnknownFunctions = sizeof kUnknown / sizeof *kUnknown };

static Function row_of(const char* name) {
  for (size_t i = 0; i < sizeof kRows / sizeof *kRows; ++i)
    if (!strcmp(kRows[i].name, name)) return kRows[i].function;
  return NULL;
}

// A driver's function goes by its first name; the newest form is the one that is meant.
void* answered(const char* name) {
  char newer[kNameBytes + 4];
  for (int version = 3; version >= 2; --version) {
    snprintf(newer, sizeof newer, "%s_v%d", name, version);
    Function found = row_of(newer);
    if (found) return (void*)found;
  }
  Function found = row_of(name);
  if (found) return (void*)found;
  pthread_mutex_lock(&lock);
  int at = 0;
  while (at < unknown && strncmp(unknown_names[at], name, kNameBytes - 1)) ++at;
  if (at == unknown && unknown < kUnknownFunctions - 1) snprintf(unknown_names[unknown++], kNameBytes, "%s", name);
  pthread_mutex_unlock(&lock);
  return (void*)kUnknown[at < kUnknownFunctions ? at : kUnknownFunctions - 1];
}
